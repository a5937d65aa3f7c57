"""Messages and questions of ``wattbell calibrate`` to a person at a bench."""

from __future__ import annotations

import sys

from rich.panel import Panel
from rich.text import Text

from ..errors import UsageError
from ..rig.calibration.bench import LIMIT, parse_reading, why_not
from ..rig.calibration.plan import Applied
from . import output

__all__ = ["PromptedBench", "UnaskedBench"]

_SUPPLY_MARGIN = 1.1
"""Ratio of the supply's current limit to the load's current, with a little for other loads on the rail."""
_SUPPLY_FLOOR_A = 0.1
_WIRING = """\
No drive in the rig. Warm-up: rig and meters on for half an hour.

1. [bold]Supply[/], off: + to the 3.3 V pins of the rig's edge on the host's side (M.2 pins 2, 4, 12, 14, 16, 18, 70, 72, 74),
   - to its ground.
2. [bold]Load[/], off: its + through the [bold]reference ammeter[/] to the 3.3 V pins of the drive's connector (the same numbers),
   its - to ground there.
3. [bold]Reference voltmeter[/], with leads of its own: 3.3 V and ground pins of the drive's connector, before the ammeter.

Never more than {volts:g} V or {amps:g} A. Ctrl-C at any time: the rig keeps the calibration it has."""


class UnaskedBench:
    """A source that the person sets and that is then believed to have the set values."""

    def ready(self, number: int, of: int, target: Applied) -> None:
        """Waits for Enter."""
        _wait(f"Point {number} of {of}: apply {target.voltage:g} V and {target.current:g} A; Enter when it is there ")

    def applied(self, target: Applied, seen: Applied, fine: bool) -> Applied:
        """The target."""
        return target


class PromptedBench:
    """Leads a person through the points, who connects, sets, and types the readings of the reference meters."""

    def __init__(self, settle_s: float, seconds: float) -> None:
        if not sys.stdin.isatty():
            raise UsageError("--prompt needs a terminal; give --point, and --dwell for a source that steps.")
        self._wait_s = settle_s + seconds

    def ready(self, number: int, of: int, target: Applied) -> None:
        """Say how to set the source, the wiring first, and wait for Enter."""
        if number == 1:
            wiring = _WIRING.format(volts=LIMIT.voltage, amps=LIMIT.current)
            output.err.print(Panel(output.marked(wiring), title="Wiring", title_align="left"))
        limit = max(_SUPPLY_FLOOR_A, target.current * _SUPPLY_MARGIN)
        load = f"{output.si(target.current, 'A')}, on" if target.current else "off, its lead at the ammeter open"
        lines = [
            f"Supply: {output.si(target.voltage, 'V')} at the voltmeter, current limit {output.si(min(limit, LIMIT.current), 'A')}, on.",
            f"Load: {load}.",
            f"Then it is left alone for {self._wait_s:g} s, which the rig reads.",
        ]
        output.err.print(Panel("\n".join(lines), title=f"Point {number} of {of}", title_align="left"))
        _wait("Enter when both meters stand still ")

    def applied(self, target: Applied, seen: Applied, fine: bool) -> Applied:
        """Return the readings of both meters, as the person types them."""
        return Applied(
            self._reading("voltmeter", "V", target.voltage, seen.voltage, fine),
            self._reading("ammeter", "A", target.current, seen.current, fine),
        )

    def _reading(self, meter: str, unit: str, target: float, seen: float, fine: bool) -> float:
        while True:
            text = _ask(f"The reference {meter} shows ({unit}, prefix allowed): ")
            try:
                reading = parse_reading(text, unit)
            except ValueError as error:
                output.say(_refused(f"{error}."))
                continue
            reason = why_not(reading, target, seen, unit, fine)
            if reason is None:
                return reading
            output.say(_refused(f"{reason}. Once more."))


def _refused(why: str) -> Text:
    return Text.assemble(("Not taken:", "red"), " ", why)


def _wait(text: str) -> None:
    _ask(text)


def _ask(text: str) -> str:
    output.hear_ctrl_c()
    try:
        output.err.print(text, end="", soft_wrap=True)
        return input()
    except EOFError:
        raise UsageError("Terminal input ended; the rig keeps the calibration it had.") from None
