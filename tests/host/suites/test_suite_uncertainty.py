"""Uncertainties of the scores, each worked out by hand, and the scores of transitions in which no term vanishes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.analysis import analyze
from wattbell.capture.meta import save
from wattbell.measure.encode import quantity_json
from wattbell.measure.figure import Figure, mean, ratio, total
from wattbell.measure.latency import mean_and_p99
from wattbell.measure.phase import measure
from wattbell.measure.source import Source
from wattbell.suites.outcome import Outcome
from wattbell.suites.power import find_wake
from wattbell.suites.scoring import score_test
from wattbell_spec.wire import EventType

from tests.host.suites.made import suite

US = 1_000
MS = 1_000_000
S = 1_000 * MS
STEP_U_J = 2 * 10e-6 / math.sqrt(12)
"""k = 2 of the energy of an edge within one sample interval of 10 us, per W of power step."""


def stated(capture: Any, **model: float) -> Any:
    """The capture with a front end of this accuracy."""
    capture.meta["rig"]["error_model"] = {"gain": 0.0, "offset_a": 0.0, "timebase": 0.0, **model}
    save(capture.path, capture.meta)
    return capture


def test_quantities_add_up_as_they_say() -> None:
    a, b = Figure(3.0, 0.3, lost=1), Figure(5.0, 0.1, lost=2)
    assert quantity_json(mean([a, b])) == {"value": 4.0, "u": pytest.approx(0.2), "n_lost": 3}
    assert quantity_json(total([a, b])) == {"value": 8.0, "u": pytest.approx(0.4), "n_lost": 3}
    got = ratio(a, b, factor=10.0)
    assert quantity_json(got) == {"value": 6.0, "u": pytest.approx(6 * math.hypot(0.1, 0.02)), "n_lost": 3}
    assert ratio(a, Figure(5.0, None)).u is None  # not that of the other alone
    assert mean([a, Figure(1.0, None)]).u is None
    assert quantity_json(mean([a, Figure(lost=5)])) == {"value": None, "u": None, "n_lost": 6}
    assert ratio(a, Figure(0.0, 0.1)).value is None and ratio(a, Figure(-1.0)).value is None
    assert quantity_json(Figure(math.inf, 1.0)) == {"value": None, "u": None, "n_lost": 0}


@pytest.mark.parametrize("bursts", [1, 2, 9])
def test_power_of_a_phase_is_as_uncertain_as_the_analysis_says(builder: Any, bursts: int) -> None:
    """The front end's part is common to all bursts and counts once; the edges, two steps of 2.5 W in each, add in squares."""
    builder.power(0, 0.5)
    for k in range(bursts):
        start = (100 + 22 * k) * MS
        builder.power(start, 3.0)
        builder.command(start, 2 * MS, blocks=256)
        builder.power(start + 2 * MS, 0.5)
    builder.phase(1, 90 * MS, (130 + 22 * bursts) * MS, "t")
    capture = stated(builder.write((200 + 22 * bursts) * MS), gain=1e-3, offset_a=5e-6)
    source = Source(capture)
    energy, power = measure(source, source.phases["t"]).power()
    seconds = bursts * 2e-3
    edges = math.sqrt(2 * bursts) * 2.5 * STEP_U_J
    front = math.hypot(1e-3 * power.value, 5e-6 * 3.3) * seconds
    assert energy.u == pytest.approx(math.hypot(edges, front), rel=1e-3)
    assert power.u == pytest.approx(energy.u / seconds, rel=1e-6)
    active = analyze(capture)["phases"][0]["power"]["active"]
    assert (energy.value, energy.u) == (pytest.approx(active["energy_j"]["value"]), pytest.approx(active["energy_j"]["u"]))


def test_a_rate_is_as_uncertain_as_its_time(builder: Any) -> None:
    """1 ms by instants of 1 us: k sqrt(2 / 12) of 1 us."""
    builder.phase(1, MS, 50 * MS, "t")
    for k in range(10):
        builder.command(10 * MS + k * 100 * US, 100 * US)
    builder.power(0, 1.0)
    source = Source(stated(builder.write(60 * MS), tick_resolution_s=1e-6, instant_s=0.0))
    rate = measure(source, source.phases["t"]).point({})["iops"]
    assert rate.value == pytest.approx(1e4)
    assert rate.u == pytest.approx(1e4 * 2e-6 / math.sqrt(6) / 1e-3, rel=1e-6)


def test_latency_of_a_phase_has_the_ranks_and_errors_of_the_analysis(builder: Any) -> None:
    builder.phase(1, MS, 900 * MS, "t")
    rng = np.random.default_rng(4)
    for k, took in enumerate(rng.integers(50 * US, 300 * US, 700).tolist()):
        builder.command(2 * MS + k * MS, took)
    builder.power(0, 1.0)
    capture = builder.write(950 * MS)
    source = Source(capture)
    average, p99 = measure(source, source.phases["t"]).latency()
    figures = analyze(capture)["phases"][0]["commands"]["by_opcode"]["read"]["latency_s"]
    assert (average.value, average.u) == (pytest.approx(figures["mean"]), pytest.approx(figures["u"]["mean"]))
    assert (p99.value, p99.u) == (pytest.approx(figures["p99"]), pytest.approx(figures["u"]["p99"]))
    none = mean_and_p99(np.array([], np.int64), source.tick_s, source.model, 3)
    assert [quantity_json(figure) for figure in none] == [quantity_json(Figure(lost=3))] * 2
    few = mean_and_p99(np.full(376, 1000), source.tick_s, source.model)
    assert few[0].value == pytest.approx(1e-6) and few[1].value is None
    assert mean_and_p99(np.full(377, 1000), source.tick_s, source.model)[1].value == pytest.approx(1e-6)


def transitions(builder: Any, name: str = "t-ps3", baseline: int = 2 * MS, repeats: int = 2) -> Any:
    """Awake at 0.5 W; a read takes `baseline`. Then into 50 mW in 10 ms at 0.5 W, CLKREQ# 80 us before the doorbell, 6 ms to the CQE at 0.8
    W (7 ms every second time)."""
    builder.levels.insert(0, (0, 0.5))
    builder.phase(20, 100 * MS, 200 * MS, "t-baseline")
    builder.command(150 * MS, baseline)
    builder.phase(21, 300 * MS, 800 * MS, "t-awake", kind="idle")
    for k in range(1, repeats + 1):
        start = k * S
        builder.phase(k, start, start + 900 * MS, f"{name}#{k}", kind="wake")
        doorbell, took = start + 800 * MS, (6 + (k + 1) % 2) * MS
        builder.events.append((doorbell - 80 * US, EventType.CLKREQ, 0, 0))
        builder.command(doorbell, took)
        builder.power(start + 5 * US + 10 * MS, 0.05)
        builder.power(doorbell - 80 * US, 0.8)
        builder.power(doorbell + took, 0.5)
    return builder.write((repeats + 1) * S)


def transition_row(capture: Any, tmp_path: Path) -> tuple[dict[str, Any], Outcome]:
    made = suite(tmp_path, "non-operational-states", "[b]\nbs=4k\n")
    out = score_test(Source(capture), *made, 1.0)
    (row,) = out.points
    return row, out


def test_the_read_that_wakes_is_work_done_and_the_break_even_time_the_shorter_for_it(builder: Any, tmp_path: Path) -> None:
    """Asleep: 5 mJ of entry, 50 mW x (T - 10 ms), 0.8 W x 6.08 ms. Awake: 0.5 W x T and then 2 ms of the same read. Equal at T."""
    row, _ = transition_row(transitions(builder, repeats=1), tmp_path)
    asleep = 0.5 * 10e-3 - 0.05 * 10e-3 + 0.8 * 6.08e-3
    assert row["break_even_s"].value == pytest.approx((asleep - 0.5 * 2e-3) / (0.5 - 0.05), rel=5e-3)
    assert row["exit_s"].value == pytest.approx(6.08e-3 - 2e-3, abs=1e-6)
    assert row["exit_s"].u is None, "once is no spread"


def test_two_transitions_have_the_spread_of_both(builder: Any, tmp_path: Path) -> None:
    row, out = transition_row(transitions(builder), tmp_path)
    assert row["exit_s"].value == pytest.approx(6.58e-3 - 2e-3, abs=1e-6)
    # 6 and 7 ms: s = 1 / sqrt(2) ms, u = 2 s / sqrt(2)
    assert row["exit_s"].u == pytest.approx(1e-3, rel=1e-3)
    assert row["longest_exit_s"].value == pytest.approx(7.08e-3 - 2e-3, abs=1e-6) and row["longest_exit_s"].u is not None
    assert row["doorbell_to_cqe_s"].value == pytest.approx(6.5e-3, abs=1e-6)
    assert row["exit_j"].u == pytest.approx(math.hypot(0.8e-3, 1e-3 * 0.8 * 6.58e-3), rel=5e-3)
    found = {score.name: score.value.value for score in out.scores}
    assert found["mean latency of the same read when awake"] == pytest.approx(2e-3)
    assert found["idle in PS0, the base of the break-even time"] == pytest.approx(0.5, rel=1e-3)


def test_a_state_that_draws_no_less_than_ps0_never_pays(builder: Any, tmp_path: Path) -> None:
    builder.power(250 * MS, 0.04)
    builder.power(900 * MS, 0.5)
    capture = transitions(builder)
    row, _ = transition_row(capture, tmp_path)
    assert row["settled_w"].value == pytest.approx(0.05, rel=0.01) and row["entry_j"].value is not None
    assert row["break_even_s"].value is None


@pytest.mark.parametrize(("asserted", "seen"), [(-1, False), (0, False), (1, True), (790, True), (800, True), (801, False)])
def test_clkreq_counts_between_the_phases_begin_and_the_doorbell(builder: Any, asserted: int, seen: bool) -> None:
    """`asserted`: ms after the start of the phase. An assertion before that, or after the doorbell, says nothing about this wake-up."""
    builder.power(0, 0.5)
    builder.phase(1, 100 * MS, 1000 * MS, "t", kind="wake")
    builder.events += [((100 + asserted) * MS, EventType.CLKREQ, 0, 0), (500 * MS, EventType.CLKREQ, 1, 0)]
    builder.command(900 * MS, 6 * MS)
    source = Source(builder.write(S))
    wake = find_wake(source, source.phases["t"])
    assert wake is not None
    assert wake.clkreq == ((100 + asserted) * MS if seen else None)
    assert wake.begin == ((100 + asserted) * MS if seen else 900 * MS)
    assert (wake.doorbell, wake.cqe) == (900 * MS, 906 * MS)
    assert wake.quiet_from == 100 * MS + 5 * US, "from the completion of the marker"


def test_bursts_of_a_test_have_the_error_of_their_mean(builder: Any, tmp_path: Path) -> None:
    """Rates of 10 reads in 1, 2 and 4 ms; u of their mean is 2 s / sqrt(3)."""
    for k, each in enumerate((100, 200, 400), start=1):
        start = k * 100 * MS
        builder.phase(k, start, start + 50 * MS, f"t/burst-{k}")
        for i in range(10):
            builder.command(start + MS + i * each * US, each * US)
    builder.power(0, 1.0)
    made = suite(tmp_path, "burst", "[global]\nbs=4k\n[burst-1]\n[burst-2]\n[burst-3]\n")
    out = score_test(Source(builder.write(end=500 * MS)), *made, 1.0)
    rates = [10 * 4096 / 1e6 / t for t in (1e-3, 2e-3, 4e-3)]
    (score,) = [s for s in out.scores if s.name == "mean of the bursts"]
    assert score.value.value == pytest.approx(sum(rates) / 3)
    assert score.value.u == pytest.approx(2 * np.std(rates, ddof=1) / math.sqrt(3))
    assert out.points[0]["iops"].value == pytest.approx(30 / 7e-3)
    assert out.points[0].active_s == pytest.approx(7e-3)
    # three equal powers: the front end's part is common, and does not shrink by averaging
    assert out.points[0]["mean_w"].u == pytest.approx(math.hypot(1e-3, 16.5e-6), rel=1e-2)


def test_an_entry_is_as_uncertain_as_the_clocks_lie_apart(builder: Any, tmp_path: Path) -> None:
    """The command before the idle time may be on another clock than the rail."""
    capture = transitions(builder)
    alone = transition_row(capture, tmp_path)[0]["longest_entry_s"]
    assert alone.u == pytest.approx(10e-6, rel=0.01)
    capture.meta["conditions"]["alignment_u_s"] = 2e-3
    save(capture.path, capture.meta)
    found = transition_row(capture, tmp_path)[0]["longest_entry_s"]
    assert (found.value, found.u) == (pytest.approx(alone.value), pytest.approx(2e-3 + 10e-6, rel=1e-3))


def test_a_host_shows_no_longest_exit(builder: Any, tmp_path: Path) -> None:
    """CLKREQ# is on the rig's clock and the read on the host's, and the host's own time is in the read."""
    capture = transitions(builder)
    for made in builder.rows:
        made |= {"source": 1, "fetch_tick": None}
    builder.path = tmp_path / "by-host"
    row, _ = transition_row(builder.write(3 * S), tmp_path)
    tapped, _ = transition_row(capture, tmp_path)
    assert "longest_exit_s" not in row.figures and "longest_exit_s" in tapped.figures
    assert row["exit_s"].value == pytest.approx(6.5e-3 - 2e-3, abs=1e-6), "from the set-up, and not from CLKREQ#"
    assert tapped["exit_s"].value == pytest.approx(6.58e-3 - 2e-3, abs=1e-6)
