#!/usr/bin/env python3
"""Is a meter's true clock within the bound that load patterns and phases give? Table for docs/clocks.md.

    clock_bench.py plan FOLDER
    wattbell run FOLDER/plan.toml --virtual intel-660p-1tb --fidelity fast --interval 1e-6 --out CAPTURE
    clock_bench.py cases CAPTURE... [--cases 200]

The plan has a load pattern before some work and one behind it. The rail of the capture is shown to another meter with noise. The meter's
rate is from 1 kS/s up to the rail's own, and its clock is off by up to 10 s and drifts by up to 100 ppm. The host knows its instants
within some us.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from wattbell.capture import Capture, open_capture
from wattbell.clocks.edges import SETTLE_S, match_edges
from wattbell.clocks.map import ClockMap
from wattbell.clocks.pattern import PATTERN_SETTLE_S, Burst, match_pattern, schedule
from wattbell.errors import ClockError
from wattbell.measure.source import Source

F64 = npt.NDArray[np.float64]
RATES = (1e3, 1e4, 1e5, 1e6)
NOISE_W = 0.02


@dataclass(frozen=True)
class Recording:
    """The rail of a capture, and when its phases had I/O.

    first_ns, step_ns: ns by the rig's clock
    power_w: mean over 1 us each
    patterns: bursts; each begins with the markers before it, which are the first work for the drive
    """

    first_ns: int
    step_ns: int
    power_w: F64
    patterns: list[list[tuple[int, int]]]
    work: list[tuple[int, int]]

    @classmethod
    def of(cls, capture: Capture) -> Recording:
        source, rail = Source(capture), capture.rail
        assert rail is not None
        spans = {}
        for phase in source.phases.values():
            io = source.io(phase)
            if len(io):
                spans[phase.name] = int(io.doorbell_tick.min()), int(io.cqe_tick.max())
        ends = np.array(sorted(phase.last_tick for phase in source.phases.values()))
        marked = {}
        for name, (_, last) in spans.items():
            first = source.phases[name].first_tick
            marked[name] = int(ends[ends <= first].max(initial=0) or first), last  # the rest before it ended with a marker, too
        patterns = [[span for name, span in marked.items() if name.endswith(end)] for end in ("burst-a", "burst-b")]
        work = [span for name, span in spans.items() if name.endswith("work")]
        return cls(rail.tick_of(0), rail.interval_ticks, rail.power(0, len(rail)).astype(np.float64), patterns, work)


@dataclass(frozen=True)
class Case:
    """How another meter saw it: ``meter_ns`` = instant x (1 + drift) + offset_ns, samples of ``rate`` S/s."""

    time_s: F64
    power_w: F64
    drift: float
    offset_ns: int
    rate: float

    def host_ns(self, meter_ns: F64) -> F64:
        """The true host's clock, which is the rig's."""
        return (meter_ns - self.offset_ns) / (1 + self.drift)

    def off_s(self, found: ClockMap) -> float:
        """The largest error of a map."""
        ends = np.array((found.first_ns, found.last_ns))
        return float(np.abs(found.to_reference(ends) - self.host_ns(ends.astype(np.float64))).max()) * 1e-9


def cases(recording: Recording, count: int, seed: int) -> Iterator[tuple[Case, np.random.Generator]]:
    """Random meters, the rates in turn."""
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        rate = min(RATES[k % len(RATES)], 1e9 / recording.step_ns)
        drift, offset_ns = rng.uniform(-1e-4, 1e-4), int(rng.uniform(-10e9, 10e9))
        many = max(1, round(1e9 / rate / recording.step_ns))
        skip = int(rng.integers(0, many))
        used = recording.power_w[skip:]
        used = used[: len(used) // many * many].reshape(-1, many).mean(axis=1)
        middle = recording.first_ns + (skip + (many - 1) / 2 + np.arange(len(used)) * many) * recording.step_ns
        time_s = (middle * (1 + drift) + offset_ns) * 1e-9
        noisy: F64 = (used + rng.normal(0, NOISE_W, len(used))).astype(np.float64)
        yield Case(time_s.astype(np.float64), noisy, drift, offset_ns, rate), rng


def told(rng: np.random.Generator, span: tuple[int, int]) -> Burst:
    """The host's clock before and after the I/O was begun and seen to have ended: 1 to 100 us apart."""
    early, late = rng.uniform(1e3, 1e5, 4).astype(int).reshape(2, 2)
    return Burst(span[0] - int(early[0]), span[0] + int(early[1]), span[1] - int(late[0]), span[1] + int(late[1]))


def by_pattern(recording: Recording, case: Case, rng: np.random.Generator, settle_s: float) -> ClockMap:
    """Estimate the clock from both patterns."""
    bursts = [[told(rng, span) for span in pattern] for pattern in recording.patterns]
    return match_pattern(case.time_s, case.power_w, bursts, offset_limit_s=10.5, settle_s=settle_s)


def by_phases(recording: Recording, case: Case, rng: np.random.Generator, settle_s: float) -> ClockMap:
    """Return the map from all phases with I/O, to the millisecond, as fio reports them."""
    spans = sorted([*recording.work, *(span for pattern in recording.patterns for span in pattern)])
    given = [((a // 1_000_000) * 1e-3 + 5e-4, (b // 1_000_000) * 1e-3 + 5e-4, 5e-4) for a, b in spans]
    return match_edges(case.time_s, case.power_w, given, offset_limit_s=10.5, settle_s=settle_s)


WAYS = {"load patterns": (by_pattern, PATTERN_SETTLE_S), "phases, to the ms": (by_phases, SETTLE_S)}


def write_plan(folder: Path) -> Path:
    """A plan of load patterns around some work, with its job files; returns its path. About 23 s of the drive's time."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['condition = "test-data"']
    for name, rw, size in (("burst", "read", "160m"), ("write", "write", "1500m"), ("read", "read", "2000m")):
        words = f"filename=/dev/nvme0n1\nioengine=libaio\ndirect=1\nrw={rw}\nbs=128k\nsize=8g\nio_size={size}"
        (folder / f"{name}.fio").write_text(f"[global]\n{words}\n[{name}]\niodepth=4\n")

    def step(name: str, value: str) -> None:
        lines.append(f'[[step]]\nname = "{len(lines)}-{name}"\n{value}')

    def pattern(name: str, backwards: bool) -> None:
        step("rest", "idle_s = 0.5")
        made = schedule(backwards=backwards)
        for k, (_, end) in enumerate(made):
            step(name, 'fio = "burst.fio"')
            step("rest", f"idle_s = {(made[k + 1][0] - end) if k + 1 < len(made) else 0.5:.6f}")

    pattern("burst-a", False)
    step("work", 'fio = "write.fio"')
    step("rest", "idle_s = 0.3")
    step("work", 'fio = "read.fio"')
    pattern("burst-b", True)
    plan = folder / "plan.toml"
    plan.write_text("\n".join(lines) + "\n")
    return plan


def main() -> None:
    """Write the plan, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("plan", "cases"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.what == "plan":
        print(write_plan(given.paths[0]))
        return
    rows: dict[tuple[str, float], list[tuple[float, float]]] = {}
    refused: dict[tuple[str, float], list[str]] = {}
    for number, path in enumerate(given.paths):
        recording = Recording.of(open_capture(path))
        for case, rng in cases(recording, given.cases // len(given.paths), given.seed + number):
            for way, (find, settle_s) in WAYS.items():
                try:
                    found = find(recording, case, rng, settle_s)
                except ClockError as error:
                    refused.setdefault((way, case.rate), []).append(str(error))
                else:
                    rows.setdefault((way, case.rate), []).append((case.off_s(found), found.bound_s))
    print("| by | S/s | cases | not found | within the bound | bound (median) ms | error (median, largest) ms |")
    print("|---|---|---|---|---|---|---|")
    for way in WAYS:
        for rate in RATES:
            found_here = np.array(rows.get((way, rate), [])).reshape(-1, 2)
            missing = len(refused.get((way, rate), []))
            if not len(found_here) + missing:
                continue
            errors, bounds = found_here[:, 0] * 1e3, found_here[:, 1] * 1e3
            inside = np.count_nonzero(errors <= bounds)
            text = f"{np.median(bounds):.2f} | {np.median(errors):.2f}, {errors.max():.2f}" if len(errors) else "- | -"
            print(f"| {way} | {rate:g} | {len(errors) + missing} | {missing} | {inside} | {text} |")
    for key, words in refused.items():
        print(key, set(words))


if __name__ == "__main__":
    main()
