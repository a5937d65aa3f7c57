"""docs/wire-format.md, from the definition of the format.

The comments after the members of the enumerations are part of the page and are
taken from the source.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterable

from . import nvme, units
from . import wire as spec

_PROSE = """\
# Wire format

What a rig sends over its data port. Generated from `spec/wattbell_spec/wire.py` by `python -m wattbell_spec`;
do not edit this page. Gateware, virtual rig and host decoder take their layouts from the same module.

A stream is a sequence of blocks. Everything is little-endian. There is no file header and no state between
blocks, so a reader may start anywhere. A block is a header of {header} bytes, a payload whose length is a multiple
of 4, and the CRC-32 (zlib's, which is Ethernet's) of header and payload:

{header_table}

The payload begins at byte {header}; the CRC follows it. A payload has at most {payload} bytes. A field's name and
place never change within a version. Version 1, of rigs that were never built, had neither `run` nor `energy_high`.

**Time.** A tick is one count of the rig's single free-running 64-bit counter, which starts at power-on; it lasts
{tick_ps} ps (as STATUS also says). Every time on the wire is a tick, an offset to the block's first tick, or an age relative to
another time in the same record.

**Runs.** `run` is the identifier that the host gave the rig before it began to capture (a new random number each time). It identifies
blocks of a rig that has restarted in between, whatever their sequence number and tick. A new `run` starts a new
time base: ticks of two runs cannot be compared.

**Order and loss.** `sequence` counts blocks of all kinds, modulo 2**32. `dropped` counts the records of the
block's kind that the rig itself lost since the last block of that kind: nothing is lost silently. A block is
closed when it is full or {flush_ms:g} ms after its first record, which bounds the latency at low rates. Command
records, events of the bus and raw TLPs come 33 us (ECP5: 131 us) after the tick that completed them, each kind in the order of those
ticks; a record by its CQ head doorbell.

## How to read a damaged stream

1. Look for the magic. Refuse a length above {payload} or not a multiple of 4.
2. Accept a block only if its CRC matches. Wait until enough bytes have arrived to tell; a block has at most
   {largest} bytes, so the wait ends.
3. If it does not match, advance by one byte: a damaged length must not hide good blocks. But if a good
   block follows directly after the damaged one, and either it has the next sequence number or no chain of good
   blocks leads up to it from inside, skip the whole damaged block: a raw TLP may carry something that looks like
   a block, or is one.
4. A sequence number ahead opens a hole; a block that fits a hole, by its tick too, is late, and is kept. A number seen
   before is a duplicate if its CRC is that of the block seen, and is dropped. Any other earlier block, one of another
   `run`, and a number more than {window} off are accepted only when a second block confirms them: the rig has then
   restarted (or they follow a long hole). A block that is never confirmed is dropped, which is a loss.
5. A block of an unknown kind or version, or whose payload is not a whole number of records, is counted and skipped.
6. Hold each tick against its neighbours. A rig that captures sends a STATUS in every period, so the next block lies at
   most one period and {slack_s:g} s ahead, and at most {slack_s:g} s back; each missing block may stand for a period more. Another block is
   accepted only when a second one confirms it: as a silence of up to {pause_s:g} s, or of as long as the host's clock has
   seen, which is marked as a gap; else as a restart. An event more than {slack_s:g} s from its block, a RAIL block that lasts
   longer, a STATUS that states another tick than before, and a tick beyond 2**60 are impossible: the block is counted and
   skipped.
7. Counters of loss (STATUS) run from power-on. What they grew by between two STATUS blocks and neither a LOSS event nor `dropped` tells of
   is a gap between the two; so is a decrease.

The host counts all of this in `loss` of a capture's `meta.json`.
"""

_ENUM_LINE = re.compile(r"^    (\w+) = (0x[0-9a-fA-F]+|\d+)(?:  # (.*))?$", re.MULTILINE)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _fields(fields: tuple[spec.Field, ...]) -> str:
    rows, bit = [], 0
    for f in fields:
        rows.append((str(bit // 8), str(f.bits), f"`{f.name}`", "yes" if f.signed else "", f.doc))
        bit += f.bits
    return _table(("byte", "bits", "field", "signed", "meaning"), rows)


def _members(kind: type[enum.Enum]) -> str:
    flags = issubclass(kind, enum.Flag)
    rows = []
    for name, value, comment in _ENUM_LINE.findall(inspect.getsource(kind)):
        number = int(value, 0)
        rows.append((f"{number:#04x}" if flags else str(number), f"`{name}`", comment))
    return _table(("value", "name", "meaning"), rows)


def _kinds() -> str:
    tick = "time base of the offsets"
    meaning = {
        spec.Kind.COMMANDS: ("completed commands", tick),
        spec.Kind.RAIL: ("samples of the 3.3 V rail", "instant of the first sample"),
        spec.Kind.EVENTS: ("link, sidebands, markers, losses", "tick of the first event"),
        spec.Kind.TLP: ("raw TLPs", tick),
        spec.Kind.STATUS: ("state and counters of the rig", "when they were taken"),
        spec.Kind.LINK: ("state and counters of the link's two directions", "when they were taken"),
    }
    rows = [(str(int(kind)), f"`{kind.name}`", *meaning[kind]) for kind in spec.Kind]
    return _table(("kind", "name", "payload", "first tick"), rows)


def markdown() -> str:
    """The page."""
    parts = [
        _PROSE.format(
            header=spec.HEADER_SIZE,
            header_table=_fields(spec.HEADER),
            payload=spec.MAX_PAYLOAD,
            largest=spec.HEADER_SIZE + spec.MAX_PAYLOAD + spec.CRC_SIZE,
            tick_ps=spec.TICK_PS,
            flush_ms=spec.FLUSH_TICKS * spec.TICK_PS * 1e-9,
            window=spec.SEQUENCE_WINDOW,
            slack_s=100 * spec.FLUSH_TICKS * spec.TICK_PS * 1e-12,
            pause_s=6000 * spec.FLUSH_TICKS * spec.TICK_PS * 1e-12,
        ),
        "## Kinds\n\n" + _kinds(),
        f"""## COMMANDS: {spec.COMMAND_SIZE} bytes per record

{_fields(spec.COMMAND)}

An age of all ones was not observed; all ones minus one is a lower bound (the true age is at least that).

Opcodes whose record carries SLBA and a block count: {", ".join(f"{o:02X}h" for o in nvme.LBA_OPCODES)}; and Dataset
Management, {nvme.io("dsm"):02X}h.

### Flags of a command

{_members(spec.CommandFlag)}""",
        f"""## RAIL

{_fields(spec.RAIL_HEADER)}

The header is followed by `count` samples of {spec.RAIL_SAMPLE_SIZE} bytes, and zero bytes up to a multiple of 4:

{_fields(spec.RAIL_SAMPLE)}

One unit of voltage is {units.VOLTAGE_LSB_UV} uV, one of current {units.CURRENT_LSB_NA} nA. The block's first tick is the
instant of the first sample; with decimation, the centre of the filter's impulse response. `energy` and `energy_high` are one
number, the exact integer sum over every conversion up to the one that completed the last sample; one unit is
{units.ENERGY_LSB_W:g} W times the conversion period. The difference between two blocks is the energy between them, even if
samples between them were lost. At 1 MSPS and full scale the number lasts for 17 years.

### Flags of a RAIL block

A flag belongs to at least one conversion of the block.

{_members(spec.RailFlag)}""",
        f"""## EVENTS: {spec.EVENT_SIZE} bytes per record

{_fields(spec.EVENT)}

### Event types

{_members(spec.EventType)}""",
        *(
            f"### {title}\n\n{_members(kind)}"
            for title, kind in (
                ("LinkState", spec.LinkState),
                ("TlpFate", spec.TlpFate),
                ("ResetCause", spec.ResetCause),
                ("MarkerSource", spec.MarkerSource),
                ("LossSource", spec.LossSource),
                ("GuessReason", spec.GuessReason),
            )
        ),
        f"""## TLP

Records of {spec.TLP_HEADER_SIZE} bytes, each followed by the bytes of the TLP (header first, as on the wire) and zero
bytes up to a multiple of 4:

{_fields(spec.TLP_HEADER)}""",
        f"""## STATUS: {spec.STATUS_SIZE} bytes

Sent at start, at stop, and whenever the counter passes a multiple of {spec.STATUS_PERIOD_TICKS} ticks. Counters are those of its tick,
`lost_commands` and `lost_pages` of some 33 us later. The tail of a
longer payload belongs to a later format; read the part that is known.

{_fields(spec.STATUS)}""",
        f"""## LINK: two records of {spec.LINK_SIZE} bytes

Only from a rig that taps the lanes: one record for each direction. Sent together with STATUS. Counters run from power-on.

{_fields(spec.LINK)}""",
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"
