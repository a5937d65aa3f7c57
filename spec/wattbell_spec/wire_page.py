"""Generator of docs/wire-format.md, from the definition of the format.

The comments after the members of the enumerations are part of the page and are taken from the source.
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

This page defines the stream that a rig sends over its data port. `python -m wattbell_spec` makes it from `spec/wattbell_spec/wire.py`;
do not edit the page. Gateware, virtual rig and host decoder take their layouts from the same module.

A stream is a sequence of blocks. Everything is little-endian. There is no file header and no state between blocks, so a reader may
start anywhere. A block has three parts: a header of {header} bytes, a payload, and the CRC-32 of both (zlib's, which is Ethernet's).
The payload's length is a multiple of 4.

{header_table}

The payload begins at byte {header}; the CRC follows it. A payload has at most {payload} bytes. A field's name and
place never change within a version. Version 1, of rigs that were never built, had neither `run` nor `energy_high`.

**Time.** A tick is one count of the rig's single free-running 64-bit counter, which starts at power-on. A tick lasts {tick_ps} ps
(STATUS also says so). A time on the wire has one of three forms: a tick, an offset to the block's first tick, or an age relative to
another time in the same record.

**Runs.** The host gives the rig an identifier before each capture, a new random number each time. `run` holds this identifier. It
separates the blocks of two runs even if the rig has restarted in between, whatever the sequence numbers and ticks are. A new `run`
starts a new time base: do not compare ticks of two runs.

**Loss.** `sequence` counts blocks of all kinds, modulo 2**32. `dropped` counts the records of the block's kind that the rig itself lost
since the last block of that kind. Nothing is lost silently.

**Order.** The rig closes a block when it is full, or {flush_ms:g} ms after its first record, which bounds the latency at low rates.
Command records, events of the bus and raw TLPs come 33 us after the tick that completed them. On the ECP5 they come after 131 us, and
raw TLPs at once. Each kind comes in the order of those ticks. The tick that completes a command record is the tick of its CQ head
doorbell.

## How to read a damaged stream

1. Look for the magic. Refuse a length above {payload} or not a multiple of 4.
2. Accept a block only if its CRC matches. Wait for all its bytes; a block has at most {largest} bytes, so the wait ends.
3. If the CRC does not match, advance by one byte: a damaged length must not hide good blocks. But a raw TLP may carry a block, or bytes
   that look like a block. So skip the whole damaged block if a good block follows directly after it, and one of these holds: the good
   block has the next sequence number, or no chain of good blocks leads up to it from inside.
4. Judge the block by its sequence number:

   | the block | do |
   |---|---|
   | has a number ahead of the expected number | accept it; the numbers between are a hole |
   | fits a hole, by its tick too | accept it: it is late |
   | has a known number and the CRC of the known block | drop it: it is a duplicate |
   | has any other earlier number, another `run`, or a number more than {window} off | accept it only when a second block confirms \
it. The rig has then restarted, or the blocks follow a long hole. Drop a block that is never confirmed, and count a loss |

5. Count and skip a block of an unknown kind or version, or with a payload that is not a whole number of records.
6. Compare each tick with its neighbours. A rig that captures sends a STATUS in every period. The next block therefore lies at
   most one period and {slack_s:g} s ahead, and at most {slack_s:g} s back; each missing block may add one period.

   | the block | do |
   |---|---|
   | lies further away | accept it only when a second block confirms it. A silence of up to {pause_s:g} s, or as long as the host's \
clock has seen, is a gap; mark it. Anything else is a restart |
   | is impossible: an event more than {slack_s:g} s from its block, a RAIL block that lasts longer than that, a STATUS that states \
another tick than before, or a tick beyond 2**60 | count it and skip it |

7. Compare the counters of loss in STATUS, which run from power-on. They may grow between two STATUS blocks by more than the LOSS events
   and `dropped` explain. That excess is a gap between the two blocks. A decrease is a gap too.

The host counts all of these faults in `loss` of a capture's `meta.json`.
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
        spec.BlockContent.COMMANDS: ("completed commands", tick),
        spec.BlockContent.RAIL: ("samples of the 3.3 V rail", "instant of the first sample"),
        spec.BlockContent.EVENTS: ("link, sidebands, markers, losses", "tick of the first event"),
        spec.BlockContent.TLP: ("raw TLPs", tick),
        spec.BlockContent.STATUS: ("state and counters of the rig", "tick of the counters"),
        spec.BlockContent.LINK: ("state and counters of the link's two directions", "tick of the counters"),
    }
    rows = [(str(int(kind)), f"`{kind.name}`", *meaning[kind]) for kind in spec.BlockContent]
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

An age of all ones means that the rig did not observe it. All ones minus one is a lower bound: the true age is at least that.

Records of these opcodes carry SLBA and a block count: {", ".join(f"{o:02X}h" for o in nvme.LBA_OPCODES)}; and Dataset
Management, {nvme.io("dsm"):02X}h.

`length_checked` is 1 where the rig knew how long the data must be, and counted it ([lengths](lengths.md)). Else the length was not
checked. Records of older rigs have 0.

`interrupt_guessed` is 1 where the interrupt of the command is in doubt, or whether there was one ([interrupts](interrupts.md#guesses)).
Records of older rigs have 0 here, though they guessed.

### Flags of a command

{_members(spec.CommandFlag)}""",
        f"""## RAIL

{_fields(spec.RAIL_HEADER)}

The header is followed by `count` samples of {spec.RAIL_SAMPLE_SIZE} bytes, and zero bytes up to a multiple of 4:

{_fields(spec.RAIL_SAMPLE)}

One unit of voltage is {units.VOLTAGE_LSB_UV} uV, one of current {units.CURRENT_LSB_NA} nA. The block's first tick is the
instant of the first sample; with decimation, the centre of the filter's impulse response. `energy` and `energy_high` are one
number: the exact integer sum over every conversion up to the conversion that completed the last sample. One unit is
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
                ("MalformedClass", spec.MalformedClass),
            )
        ),
        f"""## TLP

A record has {spec.TLP_HEADER_SIZE} bytes. The bytes of the TLP follow it (header first, as on the wire), then zero bytes up to a
multiple of 4.

{_fields(spec.TLP_HEADER)}""",
        f"""## STATUS: {spec.STATUS_SIZE} bytes

The rig sends STATUS at start, at stop, and whenever the counter passes a multiple of {spec.STATUS_PERIOD_TICKS} ticks. The counters
have their values at the block's tick; `lost_commands` and `lost_pages` have theirs of some 33 us later. The tail of a longer payload
belongs to a later format; read the known part.

{_fields(spec.STATUS)}""",
        f"""## LINK: two records of {spec.LINK_SIZE} bytes

Only a rig that taps the lanes sends LINK, together with STATUS: one record for each direction. The counters run from power-on.

{_fields(spec.LINK)}""",
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"
