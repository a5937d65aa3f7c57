"""The link under a capture, by direction: symbols received, damaged and repeated TLPs, delay of Acks."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import polars as pl
from wattbell_spec.wire import LINK_COUNTERS, EventType, LinkState

from wattbell.text import count, duration

from ..capture.reader import Capture
from ..measure.errormodel import error_model
from ..measure.figure import Figure, absent
from .result import Side

DIRECTIONS = ("host to drive", "drive to host")
RATES_GT_S = {1: 2.5, 2: 5.0, 3: 8.0}
TROUBLE = {
    "duplicates": "replayed",
    "lost": "lost",
    "late": "recovered by a replay",
    "nullified": "nullified",
    "bad_lcrc": "with a wrong LCRC",
    "bad_frames": "broken off",
    "dropped": "without room in the rig",
}
"""Counters of TLPs that were not simply passed on, in words."""
Ints = npt.NDArray[np.int64]
_FIRST = (LinkState.DETECT, LinkState.RECOVERY, LinkState.L1, LinkState.UNKNOWN)
"""States that the link takes from either direction; the first match wins.

Else the link has the state of the drive's direction, L0 or L0s, since the rail shows the drive's power.
"""


def link(capture: Capture) -> list[Side]:
    """Return one entry for each direction with LINK records in the capture.

    counters, acks: counts from the first record of the capture to the last (:data:`~wattbell_spec.wire.LINK_COUNTERS`). Counters of 32 bits
        may wrap between two records, 134 ms apart at most, and are counted on.
    ack_mean_s: figure, mean time from the first symbol of a TLP to the first symbol of the Ack that names it. Its uncertainty is one tick
        of either. On a board, the clocks of the two directions add theirs (:meth:`~wattbell.measure.errormodel.ErrorModel.clocks_u`).
    ack_min_s, ack_max_s: since the rig's power-on
    """
    rows = capture.link.sort("tick").collect()
    tick_s = capture.tick_ps * 1e-12
    ack_u_s = math.hypot(tick_s, error_model(capture.meta).clocks_u())
    return [_direction(rows.filter(pl.col("direction") == n), n, tick_s, ack_u_s) for n in sorted(set(rows["direction"].to_list()))]


def _direction(rows: pl.DataFrame, number: int, tick_s: float, ack_u_s: float) -> Side:
    last = rows.row(-1, named=True)
    counters = {name: grown(rows[name], 32) for name in LINK_COUNTERS}
    acks, total = grown(rows["acks"], 32), grown(rows["ack_sum"], 64)
    span = {"least_s": last["ack_min"] * tick_s, "greatest_s": last["ack_max"] * tick_s, "acks": acks}
    mean = Figure(total / acks * tick_s, ack_u_s, "s", conditions=span) if acks else absent("no Ack was timed", "s")
    return {
        "direction": DIRECTIONS[number],
        "state": LinkState(last["state"]).name if last["state"] in set(LinkState) else str(last["state"]),
        "lanes": int(last["lanes"] & 15).bit_count(),
        "reversed": bool(last["lanes"] >> 4 & 1),
        "rate_gt_s": RATES_GT_S.get(last["rate"]),
        "counters": counters,
        "ack_mean_s": mean,
    }


def grown(values: pl.Series, bits: int) -> int:
    """Return the growth of a counter modulo 2**bits from its first value to its last."""
    steps = np.diff(values.to_numpy().astype(np.uint64))
    return int((steps & np.uint64(2**bits - 1)).sum())


def states(events: pl.DataFrame) -> tuple[Ints, Ints]:
    """Return ticks in order, and the link's state (:class:`~wattbell_spec.wire.LinkState`) from each tick on.

    A tap of lanes has LINK_STATE events for each direction, at the ticks of the ordered sets and symbols that show the state. The link is
    in L0 once both directions are. LINK events of such a rig repeat this some 0.1 us later (docs/accuracy.md). Without LINK_STATE events of
    both directions, the LINK events are used.
    """
    own = events.filter(pl.col("type") == int(EventType.LINK_STATE)).sort("tick", maintain_order=True)
    if own["arg8"].n_unique() < len(DIRECTIONS):
        rows = events.filter(pl.col("type") == int(EventType.LINK)).sort("tick", maintain_order=True)
        return rows["tick"].cast(pl.Int64).to_numpy(), rows["arg8"].cast(pl.Int64).to_numpy()
    now = [int(LinkState.UNKNOWN)] * len(DIRECTIONS)
    both = []
    for direction, state in zip(own["arg8"].to_list(), own["arg16"].to_list(), strict=True):
        now[direction] = state
        both.append(next((int(s) for s in _FIRST if int(s) in now), now[-1]))
    return own["tick"].cast(pl.Int64).to_numpy(), np.array(both, np.int64)


def describe(side: Side) -> str:
    """``x4, 8 GT/s, L0; 12 345 TLPs, 3 replayed; Acks after 210 ns (120 ns to 2 us)``."""
    rate = f", {side['rate_gt_s']:g} GT/s" if side["rate_gt_s"] else ""
    counters, ack = side["counters"], side["ack_mean_s"]
    tlps = [f"{count(counters['tlps'])} TLPs", *(f"{count(counters[name])} {text}" for name, text in TROUBLE.items() if counters[name])]
    text = f"x{side['lanes']}{rate}, {side['state']}; {', '.join(tlps)}"
    if ack.value is not None:
        least_s, greatest_s = (float(ack.conditions[name]) for name in ("least_s", "greatest_s"))
        text += f"; Acks after {duration(ack.value, 3)} ({duration(least_s, 3)} to {duration(greatest_s, 3)})"
    return text
