"""Tables of a capture: for each column its unit, title, meaning, and the field of the wire that it comes from.

The capture's schema, the arrays that figures are computed from, exports, the view's answers and its page, the sigrok decoders, the SSD
model's truth and the Rust types of a command are made from this module. A plain field that is new in ``wire.COMMAND`` gets a column by
itself, with its name as title. An entry of its own in :data:`COMMANDS` improves its words, or its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import wire


@dataclass(frozen=True)
class Instant:
    """An instant of a command. Its column is ``NAME_tick`` in a capture, ``NAME_ps`` in the SSD model's truth.

    age: field of the record with its distance from the CQE; "" for the CQE itself
    always: every finished command has it
    """

    name: str
    title: str
    meaning: str
    age: str = ""
    always: bool = False

    @property
    def column(self) -> str:
        """Name of the column of ``commands.parquet``."""
        return f"{self.name}_tick"

    @property
    def sign(self) -> int:
        """-1 for an instant before the CQE, 1 for one behind it."""
        return -1 if self.age.endswith("_before") else 1


INSTANTS = (
    Instant("doorbell", "doorbell", "SQ tail doorbell that announced the command", "doorbell_before", always=True),
    Instant("fetch", "SQE fetch", "the drive's read of the SQE", "fetch_before", always=True),
    Instant("first_data", "first data", "first TLP with the command's data", "first_data_before"),
    Instant("last_data", "last data", "last TLP with the command's data", "last_data_before"),
    Instant("cqe", "CQE", "the drive's write of the CQE", always=True),
    Instant("msix", "MSI-X", "interrupt message", "msix_after"),
    Instant("cq_head", "CQ head", "CQ head doorbell that released the CQE", "cq_head_after"),
)
"""Instants of a command, in the order in which they happen."""
AGES = tuple(instant for instant in INSTANTS if instant.age)
"""Instants that a record has as an age, in wire order: bit i of ``saturated`` belongs to age i."""


@dataclass(frozen=True)
class StoredColumn:
    """A column of a table.

    bits: width of its type, 8 to 64
    meaning: for docs/capture.md
    title: for people, short
    unit: unit of a value; "" for a plain number
    field: field of the record that it comes from; "" if the host makes it
    signed: whether its type is
    nullable: it is null where nobody knows
    steady: most rows repeat the value before
    later: older captures lack it, and read as 0
    shown: every picture of one command shows it if it is not 0, beside the facts that have their place there
    truth: width in the SSD model's truth; 0 if the truth lacks it
    """

    name: str
    bits: int
    meaning: str = ""
    title: str = ""
    unit: str = ""
    field: str = ""
    signed: bool = False
    nullable: bool = False
    steady: bool = False
    later: bool = False
    shown: bool = False
    truth: int = 0


def _whole(bits: int) -> int:
    """Return the width of the narrowest type with so many bits."""
    return next(size for size in (8, 16, 32, 64) if bits <= size)


def _tick(instant: Instant) -> StoredColumn:
    nullable = bool(instant.age)
    return StoredColumn(instant.column, 64, instant.meaning, instant.title, "tick", instant.age, signed=True, nullable=nullable)


_CQE_FIRST = sorted(INSTANTS, key=lambda instant: bool(instant.age))
_SEEN_BY = "who saw the command: 0 a tap on the bus, 1 the driver's tracepoints, 2 blktrace, 3 fio's logs"
_LIMIT = "limit of the error of its instants as events of that source; 0 for a tap, which has the [error model's](accuracy.md) error"
_CHECKED = "1: the tap knew how long the data must be, and counted it ([lengths](lengths.md))"
_GUESSED = "1: the tap did not see the host's interrupt messages: `msix_tick`, or its absence, is a guess ([interrupts](interrupts.md))"
_BLOCKS = "number of blocks; CDW11 for commands without an LBA"
_NAMED = (
    *(_tick(instant) for instant in _CQE_FIRST),
    StoredColumn("opcode", 8, "SQE byte 0", "opcode", field="opcode", truth=8),
    StoredColumn("qid", 8, "submission queue; 0: admin", "queue", field="qid", truth=16),
    StoredColumn("cid", 16, "command identifier", "CID", field="cid", truth=16),
    StoredColumn("status", 16, "CQE bits 127:113", "status", field="status", steady=True, truth=16),
    StoredColumn("nsid", 32, "namespace; null where it did not fit", "namespace", field="nsid", nullable=True, steady=True, truth=32),
    StoredColumn("slba", 64, "starting LBA; CDW10 for commands without an LBA", "LBA", "logical block", "slba", truth=64),
    StoredColumn("blocks", 32, _BLOCKS, "blocks", "logical block", "blocks", steady=True, truth=64),
    StoredColumn("flags", 8, "[flags of a command](wire-format.md#flags-of-a-command)", "flags", field="flags", steady=True),
    StoredColumn("saturated", 8, "bit i: age i of the wire order is a lower bound", "lower bounds", steady=True),
    StoredColumn("source", 8, _SEEN_BY, "seen by", steady=True, later=True),
    StoredColumn("instant_u_ns", 32, _LIMIT, "limit of error", "ns", steady=True, later=True),
    StoredColumn("length_checked", 8, _CHECKED, "length checked", field="length_checked", steady=True, later=True),
    StoredColumn("interrupt_guessed", 8, _GUESSED, "interrupt guessed", field="interrupt_guessed", steady=True, later=True, shown=True),
)


def _others(fields: tuple[wire.Field, ...], named: tuple[StoredColumn, ...]) -> tuple[StoredColumn, ...]:
    """Columns of fields that have no entry of their own."""
    known = {column.field for column in named} | {"cqe_offset"}
    found = [f for f in fields if f.name not in known and not f.name.startswith("reserved")]
    return tuple(_plain(f) for f in found)


def _plain(f: wire.Field) -> StoredColumn:
    bits, title = _whole(f.bits), f.name.replace("_", " ")
    truth = bits if f.truth else 0
    return StoredColumn(f.name, bits, f.doc, title, field=f.name, signed=f.signed, steady=True, later=True, shown=True, truth=truth)


COMMANDS = (*_NAMED, *_others(wire.COMMAND, _NAMED))
"""Columns of ``commands.parquet``."""
FACTS = tuple(column for column in COMMANDS if column.field and column.unit != "tick")
"""Columns that the record has as they are, besides its instants."""
SHOWN = tuple(column for column in COMMANDS if column.shown)
"""Facts that have no place of their own in pictures of a command."""
TRUTH = tuple(column for column in COMMANDS if column.truth)
"""Facts of the SSD model's truth."""
SPENT = (
    StoredColumn(
        "own",
        64,
        "energy that the command itself causes, in femtojoule: array reads, transfers of its data, its part of the programmed pages",
    ),
    StoredColumn("share", 64, "its share of the controller's draw while commands are in hand, in femtojoule"),
)
"""Energy of a command in the SSD model's truth: ``NAME_fj``, and ``NAME_pj`` in its CSV file."""

_RAIL = {
    "interval_ticks": ("interval_ticks", "tick"),
    "energy": ("energy_raw", "1e-11 W x ADC conversion period"),
    "energy_high": ("energy_high", "2^64 of energy_raw"),
}
RAIL_BLOCKS = (
    StoredColumn("first_tick", 64, "tick of the block's first sample", unit="tick", signed=True, nullable=True),
    *(
        StoredColumn(name, _whole(f.bits), f.doc, unit=unit, field=f.name, signed=f.signed, nullable=True)
        for f in wire.RAIL_HEADER
        for name, unit in (_RAIL.get(f.name, (f.name, "")),)
    ),
    StoredColumn("sample_id", 64, "place of the first sample in rail.jls; -1: it is not there", signed=True, nullable=True),
    StoredColumn("dropped", 32, "samples that the rig lost before the block", nullable=True),
    StoredColumn("epoch", 32, "restarts of the rig before the block", nullable=True),
)
"""Columns of ``rail_blocks.parquet``."""
