"""Kinds of faults: the work that shows each, its injector, and its true size.

A fault's *excess* is the distance of the true figure from the limit of the requirement and its slack, in the unit of the figure. It is
negative for a drive that keeps the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import admin, drives, inject, oracles, pages, plans
from .bustrace import MS, US, BusTrace, S
from .drives import Profile

LINK_S = 100e-6
"""Slack of requirements on latencies of power states."""
Random = np.random.Generator


@dataclass(frozen=True)
class Shown:
    """Evidence that a drive gives of itself.

    trace : its bus trace.
    logs : its log pages by the name of the file.
    profile : its model and its declarations.
    tables : APST's table of each phase that has one: entries (state, next state, ms).
    state : the state that the work is about.
    """

    trace: BusTrace
    logs: Mapping[str, bytes]
    profile: Profile
    tables: tuple[tuple[tuple[int, int, int], ...], ...]
    state: int

    def declared(self, key: str) -> float:
        """Return a declaration of the state that the work is about."""
        return drives.declared(self.profile, self.state, key)


@dataclass(frozen=True)
class Faulty:
    """A drive with its fault.

    excess : of the true figure beyond the limit.
    what : the fault in words.
    """

    shown: Shown
    excess: float
    what: str


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    rows : requirements that judge it; one *fail* among them finds the fault.
    work : for a drive, and the state that the work is about.
    inject : puts in a fault with about such an excess in units of ``u``, which is about the judge's uncertainty.
    unit : of the excess.
    u : typical uncertainty, by the drive; None where the fault has no size that can be chosen.
    drives : number of drives among 200.
    operational : whether the state of the work is an operational one.
    good_work : of a drive without the fault, where that is other work.
    tune : changes the drive for the work.
    fixed_u : uncertainty in place of the judge's, for a figure that counts events.
    measures : requirements with a figure of the fault's size, if not all of ``rows``.
    """

    name: str
    text: str
    rows: tuple[str, ...]
    work: Callable[[Profile, int, Random], plans.Work]
    inject: Callable[[Shown, float, Random], Faulty]
    unit: str
    u: Callable[[Shown], float] | None
    drives: int
    operational: bool = False
    good_work: Callable[[Profile, int, Random], plans.Work] | None = None
    tune: Callable[[Profile], None] | None = None
    measures: tuple[str, ...] = ()
    fixed_u: float | None = None


def _below(shown: Shown) -> float:
    """Return a power between the level of the state and any state above it."""
    return 1.3 * shown.declared("max_w")


def _changed(shown: Shown, trace: BusTrace) -> Shown:
    return replace(shown, trace=trace)


def _power_u(watts: float) -> float:
    return 1e-3 * watts + 5e-6


# -- power ------------------------------------------------------------------------------------------------------------


def _above_maximum(shown: Shown, size: float, random: Random) -> Faulty:
    """1.1 s at a constant power."""
    limit = shown.declared("max_w")
    watts = limit + size * _power_u(limit)
    (asked, *_) = oracles.requests(shown.trace, shown.state)
    ends = [t for t in oracles.busy(shown.trace) if t > asked]
    first = round(random.uniform(asked + 0.2 * S, ends[-1] - 1.4 * S))
    trace = inject.drawing(shown.trace, first, first + 11 * S // 10, watts)
    excess = oracles.largest_mean(trace, asked, trace.end_ps) - limit
    return Faulty(_changed(shown, trace), excess, f"{watts:.4f} W for 1.1 s, and {limit:g} W declared")


def _resting(shown: Shown) -> list[tuple[int, int]]:
    """Return the longest rests in the state: from the arrival at its level to the next doorbell."""
    found = []
    for first, last in oracles.rests(shown.trace):
        arrived = inject.falls(shown.trace, first, last, _below(shown))
        if arrived:
            found.append((arrived[-1], last))
    return [one for one in found if one[1] - one[0] > S]


def _level(shown: Shown, size: float, random: Random) -> Faulty:
    """Every rest in the state is at another level."""
    limit, trace = shown.declared("max_w"), shown.trace
    rests = [(inject.falls(trace, first, last, _below(shown)), last) for first, last in oracles.rests(trace)]
    first, last = _resting(shown)[0]
    now = trace.energy_j(first + 10 * MS, last - MS) / ((last - first - 11 * MS) * 1e-12)
    factor = (limit + size * _power_u(limit)) / now
    for arrived, over in rests:
        if arrived:
            trace = inject.scaled(trace, arrived[-1], over - 200 * US, factor)
    true = trace.energy_j(first + 10 * MS, last - MS) / ((last - first - 11 * MS) * 1e-12)
    return Faulty(_changed(shown, trace), true - limit, f"PS{shown.state} at {1e3 * true:.3f} mW, and {1e3 * limit:g} mW declared")


def _background(shown: Shown, size: float, random: Random) -> Faulty:
    """Work of the drive's own for a part of a rest: the mean of the second around it is above the bound."""
    limit = shown.declared("max_w")
    first, last = _resting(shown)[0]
    length = round(float(random.uniform(0.05, 0.6)) * S)
    at = round(float(random.uniform(first + 0.9 * S, last - length - 0.2 * S)))
    level = shown.trace.energy_j(first + 10 * MS, last - MS) / ((last - first - 11 * MS) * 1e-12)
    watts = level + (limit + size * _power_u(limit) - level) * S / length
    trace = inject.drawing(shown.trace, at, at + length, watts)
    excess = oracles.largest_mean(trace, first + 10 * MS, last - MS) - limit
    return Faulty(
        _changed(shown, trace), excess, f"{watts:.3f} W for {length / S:.2f} s in PS{shown.state}, and {1e3 * limit:g} mW declared"
    )


# -- states -----------------------------------------------------------------------------------------------------------


def longest_entry_s(shown: Shown) -> float:
    """Return the longest time from the last completion to the rail at the state's level."""
    out = []
    for first, last in oracles.rests(shown.trace):
        arrived = inject.falls(shown.trace, first, last, _below(shown))
        if arrived:
            out.append((arrived[-1] - first) * 1e-12)
    return max(out)


def _late_entry(shown: Shown, size: float, random: Random) -> Faulty:
    """One of the rests is reached late."""
    limit = shown.declared("entry_us") * 1e-6 + LINK_S
    rests = [one for one in oracles.rests(shown.trace) if inject.falls(shown.trace, *one, _below(shown))]
    first, last = rests[int(random.integers(len(rests)))]
    (arrived, *_) = inject.falls(shown.trace, first, last, _below(shown))
    trace = inject.held(shown.trace, arrived, first + round((limit + size * 2e-5) * S))
    made = _changed(shown, trace)
    excess = longest_entry_s(made) - limit
    return Faulty(made, excess, f"PS{shown.state} {1e6 * excess:.1f} us beyond {1e3 * (limit - LINK_S):g} ms and the link's 100 us")


def longest_exit_s(shown: Shown) -> float:
    """Return the longest time from doorbell to fetch behind a rest."""
    return max((fetch - doorbell) * 1e-12 for doorbell, fetch in oracles.exits(shown.trace))


def _late_exit(shown: Shown, size: float, random: Random) -> Faulty:
    """One wake-up of many takes longer."""
    limit = shown.declared("exit_us") * 1e-6 + LINK_S
    found = list(oracles.exits(shown.trace))
    doorbell, fetch = found[int(random.integers(len(found)))]
    trace = inject.paused(shown.trace, fetch, doorbell + round((limit + size * 1e-9) * S) - fetch)
    made = _changed(shown, trace)
    excess = longest_exit_s(made) - limit
    return Faulty(
        made, excess, f"one of {len(found)} wake-ups {1e6 * excess:.3f} us beyond {1e3 * (limit - LINK_S):g} ms and the link's 100 us"
    )


def _first_move(shown: Shown, random: Random) -> tuple[int, int, int, float, int]:
    """Return (last CQE, arrival, end of the rest, ITPT in s, new state) of the first transition by the table in one of the rests."""
    table = {old: (new, ms) for old, new, ms in shown.tables[-1]}
    new, wait_ms = table[0]
    below = 1.3 * drives.declared(shown.profile, new, "max_w")
    rests = [one for one in oracles.rests(shown.trace) if one[1] - one[0] > 3 * S]
    first, last = rests[int(random.integers(len(rests)))]
    (arrived, *_) = inject.falls(shown.trace, first, last, below)
    return first, arrived, last, wait_ms * 1e-3, new


def _apst_late(shown: Shown, size: float, random: Random) -> Faulty:
    """The first transition of a rest is late, and all behind it as well."""
    first, arrived, last, wait_s, new = _first_move(shown, random)
    limit = drives.declared(shown.profile, new, "entry_us") * 1e-6 + LINK_S
    until = first + round((wait_s + limit + size * 2e-5) * S)
    trace = inject.shifted(shown.trace, arrived, last - 300 * US, until - arrived)
    excess = (until - first) * 1e-12 - wait_s - limit
    return Faulty(_changed(shown, trace), excess, f"PS{new} by itself after {(until - first) / S:.5f} s of {wait_s:g} s")


def _apst_early(shown: Shown, size: float, random: Random) -> Faulty:
    """The first transition of a rest comes before the table's time is over, and all behind it comes earlier as well."""
    first, arrived, last, wait_s, new = _first_move(shown, random)
    at = first + round((wait_s - size * 2e-5) * S)
    trace = inject.shifted(shown.trace, arrived, last - 300 * US, at - arrived)
    excess = 1 - (at - first) * 1e-12 / wait_s
    return Faulty(_changed(shown, trace), excess, f"PS{new} by itself after {(at - first) / S:.5f} s of {wait_s:g} s")


def _apst_ignored(shown: Shown, size: float, random: Random) -> Faulty:
    """The drive stays awake for a whole rest."""
    first, arrived, last, wait_s, new = _first_move(shown, random)
    trace = inject.held(shown.trace, arrived, last - 300 * US)
    limit = drives.declared(shown.profile, new, "entry_us") * 1e-6 + LINK_S
    return Faulty(
        _changed(shown, trace),
        (last - first) * 1e-12 - wait_s - limit,
        f"PS{new} not in {(last - first) / S:.2f} s, and the table says {wait_s:g} s",
    )


def _resume(shown: Shown, size: float, random: Random) -> Faulty:
    """The controller takes longer to be ready after a power cycle."""
    enabled = oracles.enables(shown.trace)[-1]
    now = oracles.identified(shown.trace, enabled)
    trace = inject.paused(shown.trace, enabled + 50 * US, round((1.0 + size * 2e-8) * S) - (now - enabled))
    excess = (oracles.identified(trace, enabled) - enabled) * 1e-12 - 1.0
    return Faulty(_changed(shown, trace), excess, f"Identify {1e6 * excess:.3f} us beyond 1 s after CC.EN = 1")


# -- the drive's own meter --------------------------------------------------------------------------------------------

POWER_PAGE, LATENCY_PAGE = "log-25h.bin", "log-c3h.bin"
CLAIM = 0.05


def seconds_of(shown: Shown) -> list[float]:
    """Return the drive's seconds while its meter ran, from the rail of its trace."""
    started, stopped = (one.time for one in admin.features(shown.trace, 0x25)[:2])
    return pages.metered(shown.trace, int(shown.trace.rail[0][0]), started, stopped)


def _with_page(shown: Shown, account: pages.MeterAccount) -> Shown:
    return replace(shown, logs={**shown.logs, POWER_PAGE: account.page(shown.logs[POWER_PAGE])})


def _gain(shown: Shown, size: float, random: Random) -> Faulty:
    """Every reading is too high or too low by one factor."""
    seconds = seconds_of(shown)
    sign = 1 if random.random() < 0.7 else -1
    factor = 1 + sign * (CLAIM + size * 2e-3)
    made = _with_page(shown, pages.MeterAccount.of(seconds).gained(factor))
    _, mean, _, _ = pages.page_figures(made.logs[POWER_PAGE])
    return Faulty(made, abs(mean / float(np.mean(seconds)) - 1) - CLAIM, f"gain {100 * (factor - 1):+.2f} %, and 5 % claimed")


def _dropped(shown: Shown, size: float, random: Random) -> Faulty:
    """One second is missing, and the page does not say so."""
    seconds = seconds_of(shown)
    made = _with_page(shown, pages.MeterAccount.of(seconds).dropped(int(random.integers(len(seconds)))))
    started, stopped = (one.time for one in admin.features(shown.trace, 0x25)[:2])
    ran_s = (stopped - started) * 1e-12
    return Faulty(made, abs(ran_s - len(seconds)) - 1.0, f"{len(seconds) - 1} of {len(seconds)} seconds in {ran_s:.3f} s")


def beyond_claim_w(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how far in W the meter must be beyond its claimed error for such a histogram; negative where the claim alone explains it.

    A histogram is possible if, at each edge, the intervals at or above it are neither fewer than those that must be there, nor more than
    those that may be.
    """
    watts = np.array(seconds)
    above = np.append(np.cumsum(np.array(counts)[::-1])[::-1], 0)

    def possible(margin: float) -> bool:
        slack = CLAIM * watts + margin
        edges = [k * pages.BIN_W for k in range(len(above))]
        return all((watts - slack >= edge).sum() <= n <= (watts + slack >= edge).sum() for edge, n in zip(edges, above, strict=True))

    low, high = -float(watts.min()) * CLAIM, pages.BIN_W * 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if possible(middle) else (middle, high)
    return high


def _wrong_bin(shown: Shown, size: float, random: Random) -> Faulty:
    """Some seconds, or all, are in the next bin."""
    seconds = seconds_of(shown)
    by = 1 if random.random() < 0.5 else -1
    chosen = [k for k, watts in enumerate(seconds) if by > 0 or watts >= pages.BIN_W]
    count = len(chosen) if random.random() < 0.4 else 1
    which = [int(k) for k in random.choice(chosen, count, replace=False)]
    made = _with_page(shown, pages.MeterAccount.of(seconds).shifted(which, by))
    _, _, _, counts = pages.page_figures(made.logs[POWER_PAGE])
    return Faulty(made, beyond_claim_w(seconds, counts), f"{count} of {len(seconds)} seconds one bin too {'high' if by > 0 else 'low'}")


def _meter_stamp(shown: Shown, size: float, random: Random) -> Faulty:
    """The time stamp of the largest second is late or early, from all seconds that may be the largest."""
    seconds = seconds_of(shown)
    account = pages.MeterAccount.of(seconds)
    largest = int(np.argmax(seconds))
    late_s = (1 if random.random() < 0.5 or largest < 7 else -1) * float(random.uniform(1.2, 7.0))
    made = _with_page(shown, replace(account, late_ms=round(late_s * 1e3)))
    at = largest + 1 + late_s  # the drive stamps the end of the interval
    maybe = [k for k, watts in enumerate(seconds) if watts >= max(seconds) * (1 - 2 * CLAIM)]
    apart = min(max(k - at, at - k - 1, 0.0) for k in maybe)
    return Faulty(made, apart - 1.0, f"the largest second's stamp {late_s:+.2f} s off")


# -- the drive's own latency monitor ----------------------------------------------------------------------------------

THRESHOLDS_MS = (5.0, 10.0, 20.0, 40.0)


def slow_of(shown: Shown) -> list[pages.Slow]:
    """Return the slow commands behind the configuration of the monitor."""
    return pages.slow_commands(shown.trace, admin.features(shown.trace, 0xC5)[0].time)


def _full_buckets(shown: Shown) -> list[tuple[int, int]]:
    found = {(pages.bucket_of(one.latency_ms, THRESHOLDS_MS), one.opcode) for one in slow_of(shown)}
    return sorted(found)


def _miscounted(shown: Shown, size: float, random: Random) -> Faulty:
    """Commands are counted in the next bucket, or one counter has too many. ``excess``: commands beyond those near a threshold."""
    page, slow = shown.logs[LATENCY_PAGE], slow_of(shown)
    buckets = _full_buckets(shown)
    bucket, opcode = buckets[int(random.integers(len(buckets)))]
    mine = [one.latency_ms for one in slow if one.opcode == opcode and pages.bucket_of(one.latency_ms, THRESHOLDS_MS) == bucket]
    moved = min(len(mine), int(random.choice([1, 1, 2, 5, 20])))
    made = pages.recounted(page, bucket, opcode, -moved)
    other = bucket + 1 if bucket < 3 else bucket - 1
    made = pages.recounted(made, other, opcode, moved)
    edges = [edge for k in (bucket, other) for edge in (*THRESHOLDS_MS, math.inf)[k : k + 2]]
    near = sum(any(abs(one.latency_ms - edge) < 1.0 for edge in edges) for one in slow if one.opcode == opcode)
    return Faulty(
        replace(shown, logs={**shown.logs, LATENCY_PAGE: made}), moved - near, f"{moved} commands in bucket {other} instead of {bucket}"
    )


def _wrong_latency(shown: Shown, size: float, random: Random) -> Faulty:
    """A reported latency is off."""
    page, buckets = shown.logs[LATENCY_PAGE], _full_buckets(shown)
    bucket, opcode = buckets[int(random.integers(len(buckets)))]
    by = int(random.integers(2, 9)) * (1 if random.random() < 0.5 else -1)
    made = pages.reported(page, bucket, opcode, by)
    mine = [one for one in slow_of(shown) if one.opcode == opcode and pages.bucket_of(one.latency_ms, THRESHOLDS_MS) == bucket]
    off = abs(pages.reported_ms(made, bucket, opcode) - mine[0].latency_ms)
    return Faulty(
        replace(shown, logs={**shown.logs, LATENCY_PAGE: made}), (off - 1.1) * 1e-3, f"latency of the first command {by:+d} ms off"
    )


def _wrong_stamp(shown: Shown, size: float, random: Random) -> Faulty:
    """A time stamp is that of another command of the bucket."""
    page, slow, buckets = shown.logs[LATENCY_PAGE], slow_of(shown), _full_buckets(shown)
    bucket, opcode = buckets[int(random.integers(len(buckets)))]
    mine = [one for one in slow if one.opcode == opcode and pages.bucket_of(one.latency_ms, THRESHOLDS_MS) == bucket]
    right = mine[0]
    wrong = mine[int(random.integers(len(mine)))]
    by_ms = round((wrong.cqe - right.cqe) / MS)
    made = pages.stamped(page, bucket, opcode, by_ms)
    return Faulty(
        replace(shown, logs={**shown.logs, LATENCY_PAGE: made}), abs(by_ms) * 1e-3 - 0.1, f"the stamp of another command, {by_ms:+d} ms off"
    )


# -- events -----------------------------------------------------------------------------------------------------------

NEVER_W = 600.0
"""A threshold that no drive crosses, at which the model reports nothing."""


def threshold_w(shown: Shown) -> float:
    """Return a threshold between idle and load, from the rail."""
    seconds = [shown.trace.energy_j(k * S, (k + 1) * S) for k in range(int(shown.trace.end_ps // S))]
    quiet, busy = shown.trace.energy_j(round(0.6 * S), round(1.6 * S)), max(seconds)
    return round(quiet + 0.7 * (busy - quiet), 4)


def _enabled(watts: float) -> int:
    return 1 << 31 | pages.power_field(watts)


def _event(shown: Shown) -> tuple[admin.Sent, admin.Sent]:
    """Return the first request for an event, and the first threshold."""
    request = next(one for one in admin.sent(shown.trace) if one.opcode == admin.ASYNC_EVENT and one.cdw10 == 0)
    return request, admin.features(shown.trace, 0x24)[0]


def _event_late(shown: Shown, size: float, random: Random) -> Faulty:
    """The event comes later by up to 2.5 s. ``excess``: of its delay beyond one second."""
    request, _ = _event(shown)
    late_s = float(random.uniform(1.05, 2.5))
    trace = inject.moved_event(shown.trace, request, round(late_s * S))
    return Faulty(_changed(shown, trace), late_s - 1.0, f"the event {late_s:.2f} s late")


def _event_missing(shown: Shown, size: float, random: Random) -> Faulty:
    """The threshold is crossed, and no event comes."""
    _, feature = _event(shown)
    trace = admin.edited(shown.trace, feature, cdw11=_enabled(threshold_w(shown)))
    return Faulty(_changed(shown, trace), math.inf, "no event")


def _event_false(shown: Shown, size: float, random: Random) -> Faulty:
    """An event comes, and no second was above the threshold."""
    _, feature = _event(shown)
    trace = admin.edited(shown.trace, feature, cdw11=_enabled(5.0 * threshold_w(shown)))
    return Faulty(_changed(shown, trace), math.inf, "an event without a cause")


def _event_double(shown: Shown, size: float, random: Random) -> Faulty:
    """A second event comes, and the host has not enabled the threshold again."""
    second = admin.features(shown.trace, 0x24)[1]
    trace = admin.edited(shown.trace, second, opcode=admin.GET_FEATURES)
    return Faulty(_changed(shown, trace), math.inf, "two events of one threshold")


def _throttled(shown: Shown, size: float, random: Random) -> Faulty:
    """The drive draws less from an instant on, as if it throttled, and reports nothing."""
    last = oracles.busy(shown.trace)[-1]
    trace = inject.scaled(shown.trace, last - 3 * S // 2, last, 0.6)
    return Faulty(_changed(shown, trace), math.inf, "throttled without an event")


def _none(shown: Shown, size: float, random: Random) -> Faulty:
    return Faulty(shown, -math.inf, "no fault")


def _levels(random: Random) -> list[tuple[float, int]]:
    """Return three loads in whole seconds and 40 ms more in all, with thinktimes in us."""
    thinks = [int(random.choice([700, 1500, 4000])) for _ in range(2)]
    return [(3.0, thinks[0]), (3.0, 2500), (4.035, thinks[1])]


_METER_ROWS = tuple(f"nvme/POWER-MEASUREMENT{end}" for end in ("", "-largest", "-count", "-histogram", "-time"))
_LATENCY_ROWS = tuple(f"ocp/LATENCY-MONITOR{end}" for end in ("", "-latency", "-stamp"))
_EVENT_ROWS = ("nvme/POWER-THRESHOLD", "nvme/POWER-THRESHOLD-extra")

KINDS: tuple[Kind, ...] = (
    Kind(
        "power above maximum",
        "mean over 1 s above MP, for 1.1 s",
        ("ocp/PCM-1",),
        lambda p, n, r: plans.loads(n),
        _above_maximum,
        "W",
        lambda shown: _power_u(shown.declared("max_w")),
        16,
        operational=True,
    ),
    Kind(
        "level above maximum",
        "level of a sleeping state above MP",
        ("declared/MP-idle",),
        lambda p, n, r: plans.asleep(n),
        _level,
        "W",
        lambda shown: _power_u(shown.declared("max_w")),
        12,
    ),
    Kind(
        "background work",
        "own work asleep above the state's bound",
        ("nvme/PERMISSIVE-OFF",),
        lambda p, n, r: plans.asleep(n, 2.4),
        _background,
        "W",
        lambda shown: _power_u(shown.declared("max_w")),
        14,
    ),
    Kind(
        "late entry",
        "a state that is entered late",
        ("declared/ENLAT",),
        lambda p, n, r: plans.asleep(n),
        _late_entry,
        "s",
        lambda shown: 2e-5,
        16,
    ),
    Kind(
        "late exit",
        "EXLAT exceeded once in 500",
        ("declared/EXLAT",),
        lambda p, n, r: plans.many_wakes(n, 500, 0.022 + 1e-6 * drives.declared(p, n, "entry_us")),
        _late_exit,
        "s",
        lambda shown: 1e-9,
        10,
    ),
    Kind(
        "APST late", "APST after its time", ("nvme/APST-late",), lambda p, n, r: plans.by_itself(), _apst_late, "s", lambda shown: 2e-5, 12
    ),
    Kind(
        "APST early",
        "APST before its time",
        ("nvme/APST-early",),
        lambda p, n, r: plans.by_itself(),
        _apst_early,
        "",
        lambda shown: 2e-4,
        12,
    ),
    Kind("APST ignored", "APST's timer is ignored", ("nvme/APST-late",), lambda p, n, r: plans.by_itself(), _apst_ignored, "s", None, 6),
    Kind(
        "slow resume",
        "ready too late after a power cycle",
        ("ocp/TTR-1",),
        lambda p, n, r: plans.restarted(),
        _resume,
        "s",
        lambda shown: 2e-8,
        10,
    ),
    Kind(
        "meter gain",
        "gain of the drive's meter, with 5 % claimed",
        _METER_ROWS,
        lambda p, n, r: plans.metered(_levels(r)),
        _gain,
        "",
        lambda shown: 2e-3,
        16,
        measures=_METER_ROWS[:2],
    ),
    Kind(
        "meter dropped",
        "one dropped second",
        _METER_ROWS,
        lambda p, n, r: plans.metered(_levels(r)),
        _dropped,
        "s",
        None,
        8,
        measures=_METER_ROWS[2:3],
    ),
    Kind(
        "meter histogram",
        "histogram off by a bin",
        _METER_ROWS,
        lambda p, n, r: plans.metered(_levels(r)),
        _wrong_bin,
        "W",
        None,
        10,
        fixed_u=2e-3,
    ),
    Kind(
        "meter stamp",
        "stamp of the largest second",
        _METER_ROWS,
        lambda p, n, r: plans.metered(_levels(r)),
        _meter_stamp,
        "s",
        None,
        8,
        measures=_METER_ROWS[4:5],
    ),
    Kind(
        "event late",
        "a threshold event that is late",
        _EVENT_ROWS,
        lambda p, n, r: plans.crossed(0.0, 1),
        _event_late,
        "s",
        None,
        8,
        measures=_EVENT_ROWS[:1],
    ),
    Kind(
        "event missing",
        "a threshold event that is missing",
        _EVENT_ROWS,
        lambda p, n, r: plans.crossed(NEVER_W, 1),
        _event_missing,
        "",
        None,
        6,
        good_work=lambda p, n, r: plans.crossed(0.0, 1),
    ),
    Kind("event false", "a threshold event without a cause", _EVENT_ROWS, lambda p, n, r: plans.crossed(0.0, 1), _event_false, "", None, 4),
    Kind("event double", "a threshold event twice", _EVENT_ROWS, lambda p, n, r: plans.crossed(0.0, 2), _event_double, "", None, 4),
    Kind(
        "latency bucket",
        "latency bucket off by some commands",
        _LATENCY_ROWS,
        lambda p, n, r: plans.monitored("largest", 1),
        _miscounted,
        "",
        None,
        10,
        tune=drives.slow,
    ),
    Kind(
        "latency value",
        "a reported latency is wrong",
        _LATENCY_ROWS,
        lambda p, n, r: plans.monitored("first", 32),
        _wrong_latency,
        "s",
        None,
        6,
        tune=drives.slow,
    ),
    Kind(
        "latency stamp",
        "time stamp of the wrong command",
        _LATENCY_ROWS,
        lambda p, n, r: plans.monitored("first", 32),
        _wrong_stamp,
        "s",
        None,
        6,
        tune=drives.slow,
    ),
    Kind(
        "silent throttling",
        "throttling without an event",
        ("ocp/TTHROTTLE-5", "nvme/HCTM"),
        lambda p, n, r: plans.loads(n),
        _throttled,
        "",
        None,
        6,
        operational=True,
    ),
)
"""All kinds. Those whose excess is infinite have no size."""
