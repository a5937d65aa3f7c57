"""The generation of the drive's own power meter against the starts on the wire.

The host reads log page 25h several times. Each page belongs to one Get Log Page command of the capture, in the same order. Each successful
start (Set Features 25h) between two reads increments the page's generation, modulo 256.

Source: NVM Express Base Specification 2.3, 8.1.19.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wattbell_spec.nvme import POWER_MEASUREMENT

from ..analysis.context import Context
from ..measure.figure import Figure, absent
from .logcommands import LogCommand, log_commands
from .powerlog import PowerLog

__all__ = ["generation_error"]

_ACTION, _START = 0xF, 1
"""CDW11 of feature 25h: bits 3:0, 1 starts."""
_MODULUS = 256


def generation_error(context: Context, pages: Sequence[PowerLog]) -> Figure:
    """Return by how much the generation differs from the starts between two pages, for the worst pair; absent with its reason."""
    if len(pages) < 2:
        return absent("one page has no difference: give --power-log for a read before a start, and for one behind it")
    if not context.saw_commands:
        return absent("nobody saw the commands that start the meter")
    commands = log_commands(context, POWER_MEASUREMENT, POWER_MEASUREMENT)
    reads = [one for one in commands if one.reads]
    if len(reads) != len(pages):
        told = f"the capture has {len(reads)} reads of log page 25h, and {len(pages)} pages are given"
        return absent(f"{told}: give --power-log for each, in order")
    starts = [one for one in commands if not one.reads and one.cdw11 & _ACTION == _START]
    off = max(
        _apart(after.generation - before.generation, _between(starts, first, last))
        for (before, first), (after, last) in pairwise(zip(pages, reads, strict=True))
    )
    if not any(_between(starts, first, last)[1] for first, last in pairwise(reads)):
        return absent("the meter was not started between the pages")
    lost = context.loss.between(reads[0].fetch_tick, reads[-1].cqe_tick).under_commands
    return Figure(float(off), 0.0, "", lost, {"starts": float(len(starts))})


def _between(starts: Sequence[LogCommand], first: LogCommand, last: LogCommand) -> tuple[int, int]:
    """Return the least and the largest number of starts between two reads. A start that overlaps a read may count on either side."""
    sure = sum(one.fetch_tick > first.cqe_tick and one.cqe_tick < last.fetch_tick for one in starts)
    maybe = sum(one.cqe_tick > first.fetch_tick and one.fetch_tick < last.cqe_tick for one in starts)
    return sure, maybe


def _apart(difference: int, due: tuple[int, int]) -> int:
    """Return the distance of a difference of generations from the nearest number that is due, modulo 256."""
    return min(min((difference - n) % _MODULUS, (n - difference) % _MODULUS) for n in range(due[0], due[1] + 1))
