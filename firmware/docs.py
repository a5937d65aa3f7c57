"""docs/scpi.md and the bridge's table from commands.def: ``python firmware/docs.py`` writes them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "scpi.md"
HEADERS = HERE.parent / "host" / "wattbell" / "serve" / "bridge" / "headers.py"
MARK = "`+`"

INTRODUCTION = """# SCPI

This page lists the commands of a rig's control port. `python firmware/docs.py` makes it from `firmware/src/commands.def`, which is also
the firmware's command table. The port speaks SCPI-99 over a serial line. A message ends with a newline; a preceding CR is ignored.

**Forms.** Capitals are the short form. A command may have the short or the long form, in any case, but nothing in between. `[...]` is
optional. `;` separates the units of a message. A header continues the path of the previous header, `:` returns to the root, and `*`
commands leave the path alone: `TRIG:SOUR CURR;LEV 0.5;:ARM`. `;` separates the answers of a message too, and a newline ends them.

**Parameters.**

| kind | forms |
|---|---|
| number | `10`, `1E-6`, `.5`, `#HFE`, `#Q17`, `#B101` |
| number with a unit | suffixes `V`, `A`, `W`, `S`, with `T`, `G`, `MA`, `K`, `M` (milli), `U`, `N`, `P`: `100 US`, `250 mA` |
| number of a setting, or its query | also `MIN`, `MAX` and `DEF` |
| boolean | `ON`, `OFF`, or a number (0 is off) |

The rig reads numbers as exact decimals. It rounds them, half away from zero, to the resolution of the setting: 1 ns; a millionth of a
volt, ampere or watt. It answers integers as integers, reals as `+3.300000000E+00`, and words in short form.

**Power.** `+` marks the commands that move the drive's power or its protection, the calibration, or the contents of the EEPROM. The
query of such a setting is free. `wattbell bridge` passes marked commands only with `--allow-power`.

**Errors** wait in the queue of `SYSTem:ERRor?` and set their bit in `*ESR?`. After a command error (-100 to -199) the rig discards the
rest of the message. After any other error it executes the next unit. It refuses these inputs:

| input | error |
|---|---|
| a message of more than 512 bytes, as a whole | -363 |
| a message with a byte that is not ASCII text, as a whole | -101 |
| block data, with the rest of the message | -168 |

**The EEPROM** keeps two copies of each record (identity, calibration, settings), with a CRC. The rig writes only one copy at a time.
After a power failure during `*SAV`, `CALibration:STORe` or `DIAGnostic:IDENtity`, the record is the whole old record or the whole new
record. After power-on the error queue names missing records:

| error | meaning |
|---|---|
| -311 "a copy is lost" | the other copy is in use, and may be the older copy; the next save heals it |
| -311 "identity lost" | neither copy of the identity is good |
| -313 | the calibration is lost: `CALibration:STATe?` is 0, the QUEStionable bit 256 is set, and the stream is flagged UNCALIBRATED |
| -314 | the settings of place 0 are lost: the defaults are in use |

**Waiting.** A query that waits (a measurement, `*OPC?`) blocks the commands behind it. The rig buffers 256 bytes; then the port stalls the
sender. The byte 03h (Ctrl-C) works anywhere. It aborts the command under way, discards everything queued in both directions, and opens
shorted inputs. The error queue is kept. Every wait for hardware is bounded (-365, -240).
"""

CLOSING = """## Self-test

`*TST?` answers 0, or the sum of the parts that failed:

| part | failure |
|---|---|
| 1 | registers |
| 2 | clock |
| 4 | EEPROM |
| 8 | temperature sensor |
| 16 | the pattern did not end |
| 32 | not every command of the pattern became a record |
| 64 | the rail path did not see the pattern's current step |
| 128 | the rail path saw that step more than 50 ns off |

The pattern replaces the bus and the ADCs for about 0.2 ms, and the tracker forgets its queues. The rig then follows a drive in use only
after a host names its queues again (`NVME:`), or after the drive is enumerated. The self-test also disarms the trigger, aborts a
measurement and clears the totals.

## sigrok

`sigrok-cli -d scpi-dmm` knows models by name; Agilent's 34405A is the closest. `SYSTem:LANGuage "34405A"` makes `*IDN?` report that
model. In this language `ABORt`, which sigrok sends when it stops, leaves the capture running. Nothing else changes. `*SAV 0` keeps the
language over power-on. sigrok then reads voltage and current (`-C P1`, measured quantity voltage or current, DC). The rig refuses
sigrok's other functions (-113).

## What differs from SCPI-99

- `*RST` leaves `OUTPut` as it is.
- `INITiate` and `ABORt` control the capture; `READ?`, `MEASure?` or `MEASure` start a measurement.
- The rig answers queries in order. Input that arrives before an answer was read does not interrupt it (no -410).
"""


@dataclass(frozen=True)
class Command:
    """A row of the table."""

    pattern: str
    syntax: str
    meaning: str
    moves: bool = False
    """Whether it moves power, protection, calibration or the EEPROM."""


def _strings(text: str) -> list[str]:
    return [re.sub(r"\\(.)", r"\1", s) for s in re.findall(r'"((?:[^"\\]|\\.)*)"', text)]


def read() -> list[tuple[str, str, list[Command]]]:
    """Sections: title, text, commands in order; a setting gives two."""
    sections: list[tuple[str, str, list[Command]]] = []
    for line in (HERE / "src" / "commands.def").read_text().splitlines():
        kind, _, rest = line.partition("(")
        strings = _strings(rest)
        if kind == "SECTION":
            sections.append((strings[0], strings[1], []))
        elif kind in ("COMMAND", "MOVES"):
            sections[-1][2].append(Command(strings[0], strings[1], strings[2], kind == "MOVES"))
        elif kind in ("SETTING", "MOVING"):
            sections[-1][2].append(Command(strings[0], strings[1], strings[2], kind == "MOVING"))
            sections[-1][2].append(Command(strings[0] + "?", "[MIN|MAX|DEF]" if "<" in strings[1] else "", "the setting"))
    return sections


def page() -> str:
    """docs/scpi.md."""
    lines = [INTRODUCTION]
    for title, text, commands in read():
        lines += [f"## {title}", ""]
        if text:
            lines += [text, ""]
        lines += ["| command | meaning |", "|---|---|"]
        for command in commands:
            shown = f"{command.pattern} {command.syntax}".strip().replace("|", "\\|")
            meaning = (f"{MARK} " if command.moves else "") + command.meaning.replace("|", "\\|")
            lines.append(f"| `{shown}` | {meaning} |")
        lines.append("")
    return "\n".join([*lines, CLOSING])


def headers() -> str:
    """host/wattbell/serve/bridge/headers.py."""
    lines = [
        '"""Headers of the firmware\'s commands. Made by `python firmware/docs.py` from firmware/src/commands.def. Do not edit."""',
        "",
    ]
    for name, moves, meaning in (
        ("MOVING", True, "Those that move the drive's power or its protection, the calibration, or what the EEPROM keeps."),
        ("FREE", False, "The others."),
    ):
        patterns = [command.pattern for _, _, commands in read() for command in commands if command.moves == moves]
        lines += [f"{name} = (", *(f'    "{pattern}",' for pattern in patterns), ")", f'"""{meaning}"""']
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    HEADERS.write_text(headers())
    print(f"{PAGE}: {sum(len(commands) for _, _, commands in read())} commands", file=sys.stderr)
