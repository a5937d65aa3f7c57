"""The record of a drive's restart in a capture: its instants on the wire, and the rise of its rail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.wire import EventType, LinkState

from ..measure.figure import Figure, K, absent
from ..measure.phases import Phase
from ..measure.source import Source
from ..measure.table import NONE

OFF_SHARE = 0.1
"""A rail is off below this share of its final level,"""
BEGUN_SHARE = 0.005
"""begins to rise when it is this share above where it lay, and has risen when it is within this share of its level."""
LEVEL_S = 10e-3
"""Before PERST# rises, over which that level is the median."""
NOT_SEEN = "not seen on the wire"


@dataclass(frozen=True)
class RailOn:
    """How a rail came on. Ticks of the first sample of the rise and of the first at its level, on the bus's time; ``peak``: the largest
    current of a sample in A; ``charge``: in C, from the one to the other."""

    begun: int
    risen: int
    peak: Figure
    charge: Figure


@dataclass(frozen=True)
class RestartInstants:
    """Instants of a restart as ticks, None where the wire did not show one.

    quiet: the last completion before PERST# fell
    low, high: PERST#
    link: L0
    configured: BAR0 was written
    enabled: CC.EN
    first: the first SQ doorbell
    read: the completion of the first I/O command that succeeded
    rail: None if it stayed on
    unseen: why the rise is unknown
    """

    quiet: int | None
    low: int
    high: int
    link: int | None
    configured: int | None
    enabled: int | None
    first: int | None
    read: int | None
    rail: RailOn | None = None
    unseen: str | None = None


def find_restart(source: Source, phase: Phase) -> RestartInstants | None:
    """The restart of a phase; None when PERST# did not fall and rise."""
    events = source.events.filter(pl.col("tick").is_between(phase.first_tick, phase.last_tick))
    perst = events.filter(pl.col("type") == int(EventType.PERST)).select("tick", "arg8").rows()
    low = next((tick for tick, level in perst if level == 0), None)
    high = next((tick for tick, level in reversed(perst) if level == 1 and low is not None and tick > low), None)
    if low is None or high is None:
        return None

    def after(kind: EventType, arg8: int | None = None) -> int | None:
        found = events.filter((pl.col("tick") > high) & (pl.col("type") == int(kind)))
        if arg8 is not None:
            found = found.filter(pl.col("arg8") == arg8)
        return int(found["tick"][0]) if len(found) else None

    stored = source.capture.commands.filter(pl.col("cqe_tick").is_between(phase.first_tick, phase.last_tick))
    commands = stored.select("doorbell_tick", "cqe_tick", "qid", "status").collect()
    before, behind = commands.filter(pl.col("cqe_tick") < low), commands.filter(pl.col("cqe_tick") > high)
    rung = behind.filter((pl.col("doorbell_tick") > high) & (pl.col("doorbell_tick") != NONE))
    read = behind.filter((pl.col("qid") > 0) & (pl.col("status") == 0))
    rail, unseen = _rail_on(source, low, high)
    return RestartInstants(
        quiet=_extreme(before["cqe_tick"].max()),
        low=low,
        high=high,
        link=after(EventType.LINK, int(LinkState.L0)),
        configured=after(EventType.BAR0),
        enabled=after(EventType.CC_EN, 1),
        first=_extreme(rung["doorbell_tick"].min()),
        read=_extreme(read["cqe_tick"].min()),
        rail=rail,
        unseen=unseen,
    )


def _extreme(value: Any) -> int | None:
    return None if value is None else int(value)


def _rail_on(source: Source, low: int, high: int) -> tuple[RailOn | None, str | None]:
    """Return how the rail came on between PERST# falling and rising, and why that is unknown; both None if it stayed on."""
    rail = source.rail
    if rail is None:
        return None, source.no_rail or "no rail was recorded"
    late = source.model.front_end_delay_s / source.tick_s
    first, last = rail.indices(round(low + late), round(high + late))
    wave = rail.reader.read(first, last)
    volts, amps = wave.voltage.astype(np.float64), wave.current.astype(np.float64)
    known = ~np.isnan(volts)
    if not known.any():
        return None, "no rail samples while PERST# was low"
    level = float(np.nanmedian(volts[-max(2, round(LEVEL_S / rail.interval_s)) :]))
    off = np.flatnonzero(volts < OFF_SHARE * level)
    if not len(off):
        return None, None
    floor = float(np.nanmin(volts))
    crossed = int(off[-1])
    resting = np.flatnonzero(volts[: crossed + 1] <= floor + BEGUN_SHARE * (level - floor))
    begun = int(resting[-1]) + 1
    reached = np.flatnonzero(volts[begun:] >= (1 - BEGUN_SHARE) * level)
    if not len(reached):
        return None, "the rail did not come to a level before PERST# rose"
    risen = begun + int(reached[0])
    if not known[begun : risen + 1].all():
        return None, "rail samples are missing while it rose"
    current = amps[begun : risen + 1]
    ticks = [round(rail.reader.tick_of(first + index) - late) for index in (begun, risen)]
    return RailOn(ticks[0], ticks[1], *_inrush(source, current, ticks)), None


def _inrush(source: Source, current: npt.NDArray[np.float64], ticks: list[int]) -> tuple[Figure, Figure]:
    """Return (peak in A, charge in C) of the samples of a rise, without the current before and behind. Each edge may be a sample off."""
    assert source.rail is not None  # a rise was found on it
    interval_s, model = source.rail.interval_s, source.model
    doubtful = sum(source.doubtful_blocks(*ticks).values())
    peak, charge = float(current.max()), float(current.sum()) * interval_s
    edges = interval_s * math.hypot(current[0], current[-1])
    length_s = len(current) * interval_s
    u_charge = math.hypot(model.gain * charge, model.offset_a * length_s, edges, 2 * BEGUN_SHARE * charge)
    u_peak = math.hypot(model.gain * peak, model.offset_a)
    over = {"sample_s": interval_s}
    return (
        Figure(peak, None if doubtful else u_peak, "A", doubtful, over),
        Figure(charge, None if doubtful else u_charge, "C", doubtful, over),
    )


def figures(source: Source, found: RestartInstants, lost: int, *, cold: bool) -> Mapping[str, Figure]:
    """Return the figures of one restart by name, in s, A, C and J.

    lost: losses under them
    cold: it counts from the rail's rise, and has the rail's own figures; else it counts from PERST#
    """
    rail = found.rail
    sample_s = source.rail.interval_s if source.rail is not None else 0.0
    rise_s = source.seconds(rail.risen - rail.begun) if rail is not None else 0.0

    def span(first: int | None, last: int | None, *, of_rail: bool = False) -> Figure:
        if first is None or last is None:
            return absent(NOT_SEEN, "s", lost)
        seconds = source.seconds(last - first)
        edge = math.hypot(sample_s, source.model.front_end_delay_u_s, BEGUN_SHARE * rise_s) if of_rail else 0.0
        return Figure(seconds, math.hypot(source.model.interval_u(seconds), edge), "s", lost)

    out: dict[str, Figure] = {}
    begin: int | None = found.high
    if cold and rail is not None:
        begin = rail.begun
        out["inrush_peak"], out["inrush_charge"] = rail.peak, rail.charge
        out["rise"] = Figure(rise_s, math.hypot(K * sample_s / math.sqrt(2.0), 2 * BEGUN_SHARE * rise_s), "s", lost)
        out["stable_to_perst"] = span(rail.risen, found.high, of_rail=True)
    elif cold:
        begin, why = None, found.unseen or "the rail stayed on"
        out["inrush_peak"], out["inrush_charge"] = absent(why, "A"), absent(why, "C")
    out["perst_to_link"] = span(found.high, found.link)
    out["perst_to_config"] = span(found.high, found.configured)
    out["perst_to_enable"] = span(found.high, found.enabled)
    out["perst_to_command"] = span(found.high, found.first)
    out["enable_to_command"] = span(found.enabled, found.first)
    out["begin_to_read"] = span(begin, found.read, of_rail=cold)
    if begin is None or found.read is None:
        out["energy"] = absent(NOT_SEEN, "J", lost)
    else:
        out["energy"] = source.energy(begin, found.read, lost)[0]
    out["last_to_perst"] = span(found.quiet, found.low)
    return out
