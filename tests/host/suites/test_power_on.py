"""A restart's instants, inrush and energy, from rails and events that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.capture import CaptureWriter
from wattbell.measure.figure import Figure
from wattbell.measure.source import Source
from wattbell.suites.drive import Drive
from wattbell.suites.manifest import load_suite
from wattbell.suites.outcome import Outcome
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.scoring import score_test
from wattbell.suites.session import Choice
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, EventType, LinkState

from tests.host.conftest import MS, Builder
from tests.host.suites.made import suite

US = 1000
INRUSH_A, RUN_A, IDLE_A = 0.5, 0.25, 0.1
LEVEL_V = 3.3
RISE = 2 * MS


class Bench(Builder):
    """A rail of voltage and current: 3.3 V at IDLE_A; off from `off` to `on` of each cycle, then an even rise with INRUSH_A, then RUN_A."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, 10 * US)
        self.cycles: list[tuple[int, int]] = []
        self.levels = [(0, 0.0)]  # there is a rail

    def restart(self, number: int, at: int, *, off: int = 50 * MS, perst: int = 100 * MS, ready: int = 30 * MS, **without: bool) -> int:
        """One phase from `at` on: the last completion at +1 ms, PERST# at +2, the rail off at +3; returns its end. `perst`: from the rail
        at its level to PERST# rising; `ready`: from CC.EN, 20 ms after that, to the first doorbell."""
        low, cut = at + 2 * MS, at + 3 * MS
        on = cut + off
        risen = on + RISE if not without.get("stays") else cut
        if not without.get("stays"):
            self.cycles.append((cut, on))
        high = risen + perst
        self.command(at + MS - 50 * US, 50 * US, qid=0, opcode=6)
        if not without.get("no_perst"):
            self.events += [(low, EventType.PERST, 0, 0), (high, EventType.PERST, 1, 0)]
        self.events += [
            (high + 4 * MS, EventType.LINK, int(LinkState.L0), 0),
            (high + 15 * MS, EventType.BAR0, 0, 7),
            (high + 20 * MS, EventType.CC_EN, 1, 1),
        ]
        first = high + 20 * MS + ready
        self.command(first, 10 * US, qid=0, opcode=6)
        self.command(first + MS, 20 * US, status=2)  # one that fails is no sign of life
        if not without.get("no_read"):
            self.command(first + 3 * MS, 100 * US)
        end = first + 5 * MS
        self.phase(number, at, end, f"t#{number}", kind="restart")
        return end

    def _rail(self, writer: CaptureWriter, end: int) -> None:
        ticks = np.arange(0, end, self.interval)
        volts, amps = np.full(len(ticks), LEVEL_V), np.full(len(ticks), IDLE_A)
        for cut, on in self.cycles:
            volts[(ticks >= cut) & (ticks < on)] = 0.0
            rising = (ticks >= on) & (ticks < on + RISE)
            volts[rising] = LEVEL_V * (ticks[rising] - on) / RISE
            amps[(ticks >= cut) & (ticks < on)] = 0.0
            amps[rising] = INRUSH_A
            amps[ticks >= on + RISE] = RUN_A
        # exactly what the wire holds: 20 uV, 500 nA
        v, i = np.round(volts / 20e-6).astype(np.int64), np.round(amps / 500e-9).astype(np.int64)
        energy = np.cumsum(v * i)
        for a in range(0, len(ticks), 300):
            b = min(a + 300, len(ticks))
            if self.hole and self.hole[0] <= ticks[a] < self.hole[1]:
                self.gaps.append(Gap(BlockContent.RAIL, int(ticks[a]), int(ticks[b - 1]), b - a, "test"))
                continue
            volt, amp = (v[a:b] * 20e-6).astype(np.float32), (i[a:b] * 500e-9).astype(np.float32)
            writer.add_rail(int(ticks[a]), self.interval, volt, amp, energy_raw=int(energy[b - 1]), adc_index=b)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "capture")


def scored(bench: Bench, tmp_path: Path, end: int, off_s: float = 0.05, drive: Any = None) -> Outcome:
    capture = bench.write(end + 10 * MS)
    if drive is not None:
        capture.meta["drive"] = drive
    return score_test(Source(capture), *suite(tmp_path, "power-on", off_s=off_s), 1.0)


def by_name(out: Outcome) -> dict[str, Figure]:
    return {score.name: score.value for score in out.scores}


def near(figure: Figure, value: float) -> bool:
    """Within its own uncertainty, which is a small one."""
    assert figure.value is not None and figure.u is not None, figure
    assert figure.u < 0.03 * value + 1e-9
    return abs(figure.value - value) <= figure.u + 1e-12


def test_a_cold_start_is_what_the_rail_and_the_wire_show(bench: Bench, tmp_path: Path) -> None:
    end = bench.restart(1, 10 * MS)
    found = by_name(scored(bench, tmp_path, end))
    assert near(found["inrush current, highest sample"], INRUSH_A)
    assert near(found["inrush charge"], INRUSH_A * 2e-3)
    assert near(found["inrush, how long"], 2e-3)
    assert near(found["rail stable to PERST# released"], 0.1)
    assert near(found["PERST# released to L0"], 4e-3)
    assert near(found["PERST# released to BAR0 written"], 15e-3)
    assert near(found["PERST# released to CC.EN"], 20e-3)
    assert near(found["PERST# released to the first doorbell"], 50e-3)
    assert near(found["CC.EN to the first doorbell (CSTS.RDY, at most)"], 30e-3)
    assert near(found["last completion to PERST# (RTD3 entry, at most)"], 1e-3)
    read_s = 2e-3 + 0.1 + 50e-3 + 3e-3 + 100e-6
    assert near(found["rail on to the first read"], read_s)
    assert near(found["energy, rail on to the first read"], LEVEL_V * INRUSH_A * 2e-3 / 2 + LEVEL_V * RUN_A * (read_s - 2e-3))


def test_a_warm_start_counts_from_perst_and_has_no_inrush(bench: Bench, tmp_path: Path) -> None:
    end = bench.restart(1, 10 * MS, stays=True)
    out = scored(bench, tmp_path, end, off_s=0.0)
    found = by_name(out)
    assert near(found["PERST# released to the first read"], 50e-3 + 3.1e-3)
    assert near(found["energy, PERST# released to the first read"], LEVEL_V * IDLE_A * 53.1e-3)
    assert not [name for name in found if "inrush" in name or "rail" in name or "RTD3R" in name] and not out.notes


def test_restarts_are_averaged_with_their_scatter(bench: Bench, tmp_path: Path) -> None:
    end = bench.restart(1, 10 * MS, ready=30 * MS)
    end = bench.restart(2, end + 10 * MS, ready=34 * MS)
    end = bench.restart(3, end + 10 * MS, ready=38 * MS)
    out = scored(bench, tmp_path, end)
    ready = by_name(out)["CC.EN to the first doorbell (CSTS.RDY, at most)"]
    assert ready.value == pytest.approx(34e-3, rel=1e-6)
    assert ready.u == pytest.approx(2 * 4e-3 / 3**0.5, rel=1e-3)
    assert out.series is not None and out.series["start"].to_list() == [1, 2, 3]
    assert out.series["enable_to_command"].to_list() == pytest.approx([30e-3, 34e-3, 38e-3])


def test_the_declared_rtd3_latencies_stand_beside_the_measured_ones(bench: Bench, tmp_path: Path) -> None:
    end = bench.restart(1, 10 * MS)
    found = by_name(scored(bench, tmp_path, end, drive={"rtd3_resume_s": 0.31, "rtd3_entry_s": 0.5, "power_states": [], "namespaces": []}))
    assert found["RTD3R, declared"].value == 0.31 and found["RTD3E, declared"].value == 0.5
    assert found["RTD3R, measured / declared"].value == pytest.approx(0.1551 / 0.31, rel=1e-3)
    assert found["RTD3E, measured at most / declared"].value == pytest.approx(1e-3 / 0.5, rel=1e-3)


def test_a_rail_that_stayed_on_is_no_cold_start(bench: Bench, tmp_path: Path) -> None:
    end = bench.restart(1, 10 * MS, stays=True)
    out = scored(bench, tmp_path, end)
    found = by_name(out)
    assert found["rail on to the first read"].value is None and found["energy, rail on to the first read"].value is None
    assert found["inrush charge"].conditions["absent"] == "the rail stayed on"
    assert near(found["PERST# released to the first doorbell"], 50e-3), "what the wire shows is there all the same"
    assert any("no cold start" in note for note in out.notes)


def test_missing_samples_under_the_rise_leave_no_inrush(bench: Bench, tmp_path: Path) -> None:
    end = bench.restart(1, 10 * MS)
    bench.hole = (bench.cycles[0][1] - 2 * MS, bench.cycles[0][1] + 3 * MS)
    out = scored(bench, tmp_path, end)
    found = by_name(out)["inrush charge"]
    assert found.value is None and "missing" in str(found.conditions["absent"]) and out.lost["rail_samples"] > 0


def test_what_was_not_seen_is_said(bench: Bench, tmp_path: Path) -> None:
    end = bench.restart(1, 10 * MS, no_perst=True)  # the rig's PERST# is not at the connector
    out = scored(bench, tmp_path, end)
    assert not out.scores and any("PERST# did not fall" in note for note in out.notes) and "no restart was seen" in out.notes


def test_without_a_successful_read_there_is_no_time_to_one(bench: Bench, tmp_path: Path) -> None:
    end = bench.restart(1, 10 * MS, no_read=True)
    found = by_name(scored(bench, tmp_path, end))
    assert found["rail on to the first read"].value is None and near(found["inrush charge"], INRUSH_A * 2e-3)


def test_the_plan_restarts_cold_and_warm() -> None:
    power_on = load_suite("power-on")
    drive = Drive("p", 10**12, (0, 1), (2, 3))
    (session,) = plan_sessions(power_on, choose_tests(power_on, (), None), drive, Choice(scale=0.01))
    steps = [(s.name, s.restart.off_s if s.restart else None) for s in session.steps]
    assert steps == [("cold#1", 3.0), ("cold#2", 3.0), ("warm#1", None), ("warm#2", None)], "how long the rail is off is not scaled"
    assert "restart = { off_s = 3.0 }" in session.plan and "restart = {  }" in session.plan
