"""Signals that only events change: the link's state, CLKREQ#, the power state that the host asked for, whether APST is on, resets."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.nvme import admin, feature
from wattbell_spec.wire import EventType

Int64 = npt.NDArray[np.int64]


class StateTrack:
    """A signal that only events change: value at a tick, and share of time by value."""

    def __init__(self, ticks: Int64, values: Int64, initial: int) -> None:
        self._ticks, self._values, self._initial = ticks, values, initial

    def at(self, tick: int) -> int:
        """Value just before ``tick``."""
        i = int(np.searchsorted(self._ticks, tick, side="left"))
        return int(self._values[i - 1]) if i else self._initial

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """(value, ticks) of each constant piece of ``[first, last)``."""
        a, b = np.searchsorted(self._ticks, first, side="right"), np.searchsorted(self._ticks, last, side="left")
        edges = [first, *self._ticks[a:b].tolist(), last]
        values = [int(self._values[a - 1]) if a else self._initial, *self._values[a:b].tolist()]
        for value, low, high in zip(values, edges[:-1], edges[1:], strict=True):
            yield int(value), int(high - low)


def track(events: pl.DataFrame, kind: EventType, initial: int) -> StateTrack | None:
    """``arg8`` of the events of one type; None when there are none."""
    rows = events.filter(pl.col("type") == int(kind))
    if not len(rows):
        return None
    return StateTrack(rows["tick"].cast(pl.Int64).to_numpy(), rows["arg8"].cast(pl.Int64).to_numpy(), initial)


def requested_state(events: pl.DataFrame, io_starts: Int64 | None = None, sleeping: Collection[int] = ()) -> StateTrack | None:
    """The power state the host asked for; a reset of the controller (CC.EN) puts it back to 0. An I/O command (``io_starts``, sorted) ends
    a non-operational one (``sleeping``): the drive is then in the operational state asked for last. None: never asked."""
    rows = events.filter(pl.col("type").is_in([int(EventType.POWER_STATE), int(EventType.CC_EN)]))
    if not (rows["type"] == int(EventType.POWER_STATE)).any():
        return None
    ticks: list[int] = []
    values: list[int] = []
    awake = 0
    for tick, kind, argument in rows.select("tick", "type", "arg8").rows():
        state = argument & 0x1F if kind == EventType.POWER_STATE else 0
        if ticks and values[-1] in sleeping and io_starts is not None:
            at = int(np.searchsorted(io_starts, ticks[-1]))
            if at < len(io_starts) and io_starts[at] < tick:
                ticks.append(int(io_starts[at]))
                values.append(awake)
        if state not in sleeping:
            awake = state
        ticks.append(tick)
        values.append(state)
    if values[-1] in sleeping and io_starts is not None:
        at = int(np.searchsorted(io_starts, ticks[-1]))
        if at < len(io_starts):
            ticks.append(int(io_starts[at]))
            values.append(awake)
    return StateTrack(np.array(ticks, np.int64), np.array(values, np.int64), 0)


def in_reset(events: pl.DataFrame) -> list[tuple[int, int]]:
    """Return spans in ticks in which PERST# was low, except for a span in which the capture began.

    A drive in reset, or without supply, is not idle.
    """
    levels = events.filter(pl.col("type") == int(EventType.PERST)).select("tick", "arg8").rows()
    return [
        (fell, next((tick for tick, level in levels[i + 1 :] if level), int(events["tick"][-1])))
        for i, (fell, low) in enumerate(levels)
        if i and low == 0 and levels[i - 1][1] == 1
    ]


def apst_enabled(commands: pl.LazyFrame) -> StateTrack | None:
    """Whether APST was on (1) or off (0), from the completions of Set Features 0Ch; -1 before the first. None: never set."""
    rows = (
        commands.filter((pl.col("qid") == 0) & (pl.col("opcode") == admin("set_features")) & (pl.col("status") == 0))
        .filter((pl.col("slba") & 0xFF) == feature("apst"))
        .select("cqe_tick", "blocks")
        .collect()
        .sort("cqe_tick")
    )
    if not len(rows):
        return None
    return StateTrack(rows["cqe_tick"].cast(pl.Int64).to_numpy(), rows["blocks"].cast(pl.Int64).to_numpy() & 1, -1)
