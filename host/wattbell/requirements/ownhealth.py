"""The drive's own power and energy in its SMART log against the rail.

The host reads log page 02h several times. Each page belongs to one Get Log Page command of the capture, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from wattbell_spec.nvme import HEALTH

from ..analysis.context import Context
from ..measure.figure import Figure, absent
from .healthlog import HealthLog
from .logcommands import LogCommand, log_commands
from .powerlog import INTERVAL_S, Reading
from .railsteps import STEP_S, step_means

__all__ = ["OwnHealth"]

_WATT_HOUR_J = 3600.0


class OwnHealth:
    """Pages of a drive's SMART log, beside the capture in which they were read. Figures without a value give the reason."""

    def __init__(self, context: Context, pages: Sequence[HealthLog]) -> None:
        self._context, self._pages = context, pages

    def figure(self, measurand: str) -> Figure:
        """Return the figure of a measurand of :data:`.measurands.OWN_HEALTH`."""
        figures: Mapping[str, Callable[[], Figure]] = {"own-energy": self.energy_error_wh, "own-second": self.second_error}
        return figures[measurand]()

    def energy_error_wh(self) -> Figure:
        """Return the distance of the counter's difference from the rail's energy between first and last page, in Wh; never negative.

        The counter is rounded up: a right one is less than 1 Wh off.
        """
        dated = self._dated()
        if isinstance(dated, str):
            return absent(dated, "Wh")
        (first, begin), (last, end) = dated[0], dated[-1]
        if len(dated) < 2:
            return absent("one page has no difference; read the SMART log before the work and behind it", "Wh")
        if first.energy_wh is None or last.energy_wh is None:
            return absent("the drive reports no lifetime energy", "Wh")
        rail = self._context.rail
        if rail is None:
            return absent(self._context.no_rail or "no rail", "Wh")
        means = step_means(rail, begin.cqe_tick, end.cqe_tick)
        if not len(means) or np.isnan(means).any():
            return absent("the rail is missing between the pages", "Wh")
        seconds = self._context.seconds(end.cqe_tick - begin.cqe_tick)
        watts = float(means.mean())
        ran_s = sum(self._context.seconds(one.cqe_tick - one.fetch_tick) for one in (begin, end))
        u_j = math.hypot(seconds * rail.mean_u(begin.cqe_tick, end.cqe_tick, watts, rail.supply_v), watts * ran_s, watts * STEP_S)
        off_wh = abs(last.energy_wh - first.energy_wh - watts * seconds / _WATT_HOUR_J)
        lost = self._context.loss.between(begin.cqe_tick, end.cqe_tick).under_rail
        return Figure(off_wh, u_j / _WATT_HOUR_J, "Wh", lost, {"rail_wh": watts * seconds / _WATT_HOUR_J})

    def second_error(self) -> Figure:
        """Return the difference of the drive's latest second from the rail's, as a part of the rail's, for the worst page; never negative.

        The second ended before the page was read, by less than one second. Of all seconds of the rail that it may be, the nearest counts.
        """
        dated = self._dated()
        if isinstance(dated, str):
            return absent(dated)
        found = self._seconds
        if not found:
            return absent("the drive reports no power of its latest second")
        known = [one for one in found if one.value is not None]
        return max(known, key=lambda one: one.known) if known else found[0]

    @property
    def remark(self) -> str:
        """The number of pages under :meth:`second_error`, in words; empty without any."""
        known = sum(one.value is not None for one in self._seconds)
        return f"the worst of {known} pages, of {len(self._pages)}" if known else ""

    @cached_property
    def _seconds(self) -> list[Figure]:
        """The figure of each page that reports a power of its latest second."""
        dated = self._dated()
        if isinstance(dated, str):
            return []
        return [self._second(page.latest, command) for page, command in dated if page.latest is not None]

    def _second(self, own: Reading, command: LogCommand) -> Figure:
        context, rail = self._context, self._context.rail
        if rail is None:
            return absent(context.no_rail or "no rail")
        second = round(INTERVAL_S / context.tick_s)
        begin = command.fetch_tick - 2 * second
        if begin < context.first_tick:
            return absent("a page was read in the first two seconds of the capture")
        means = step_means(rail, begin, command.cqe_tick)
        width = round(INTERVAL_S / STEP_S)
        if len(means) < width or np.isnan(means).any():
            return absent("the rail is missing before a page")
        sums = np.concatenate([[0.0], np.cumsum(means)])
        seconds = (sums[width:] - sums[:-width]) / width
        nearest = float(seconds[np.argmin(np.abs(seconds - own.watts))])
        if not nearest > 0:
            return absent("the rail drew nothing")
        u = math.hypot(rail.mean_u(begin, command.cqe_tick, nearest, rail.supply_v), own.step_w / math.sqrt(3.0)) / nearest
        lost = context.loss.between(begin, command.cqe_tick).under_rail
        return Figure(abs(own.watts - nearest) / nearest, u, "", lost, {"rail_w": nearest, "own_w": own.watts})

    def _dated(self) -> list[tuple[HealthLog, LogCommand]] | str:
        """Pages with their commands, or the reason why these are unknown."""
        if not self._context.saw_commands:
            return "nobody saw the commands that read the SMART log"
        reads = log_commands(self._context, HEALTH, None)
        if len(reads) != len(self._pages):
            told = f"the capture has {len(reads)} reads of log page 02h, and {len(self._pages)} pages are given"
            return f"{told}: give --health-log for each, in order"
        return list(zip(self._pages, reads, strict=True))
