"""The stated uncertainties against the sums of docs/accuracy.md, worked out by hand, each term where it dominates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.analysis.commandclass import CommandClass
from wattbell.analysis.context import load
from wattbell.analysis.energyfit import PhaseLoad
from wattbell.analysis.perclass import METHOD, EnergyWindow, energy_per_command, separate
from wattbell.analysis.result import EnergyPerCommand
from wattbell.measure.energy import EnergyMeter
from wattbell.measure.errormodel import ErrorModel, error_model
from wattbell.measure.figure import Figure, ratio
from wattbell.measure.throughput import ActiveTime

from tests.host.analysis.test_page import everything

MS = 1_000_000
INTERVAL_S = 10e-6  # of the builder's rail
STEP_U_J = 2 * INTERVAL_S / math.sqrt(12)
"""k = 2 of the energy of an edge within one sample interval, per W of power step."""


def test_a_small_power_is_uncertain_by_the_offset_a_large_one_by_the_gain() -> None:
    model = ErrorModel(gain=1e-3, offset_a=5e-6)
    assert model.power_u(0.0, 3.3) == pytest.approx(16.5e-6)
    assert model.power_u(0.0, -3.3) == pytest.approx(16.5e-6)
    assert model.power_u(5e-3, 3.3) == pytest.approx(math.sqrt(5e-6**2 + 16.5e-6**2))
    assert model.power_u(-4.0, 3.3) == pytest.approx(4e-3, rel=1e-4)
    assert model.power_u(1.0, 0.0) == pytest.approx(1e-3)


def test_an_interval_is_uncertain_by_the_resolution_the_clocks_and_the_time_base() -> None:
    """Two instants, each uniform over one step: u = k sqrt(2) r / sqrt(12); each clock within s to either side: k sqrt(2) s / sqrt(3)."""
    coarse = ErrorModel(timebase=0.0, tick_resolution_s=8e-9, instant_s=0.0)
    assert coarse.interval_u(1.0) == pytest.approx(2 * math.sqrt(2) * 8e-9 / math.sqrt(12))
    clocks = ErrorModel(timebase=0.0, tick_resolution_s=0.0, instant_s=6e-9)
    assert clocks.interval_u(1.0) == clocks.clocks_u() == pytest.approx(2 * math.sqrt(2) * 6e-9 / math.sqrt(3))
    drift = ErrorModel(timebase=25e-6, tick_resolution_s=0.0, instant_s=0.0)
    assert drift.interval_u(-2.0) == pytest.approx(50e-6)
    both = ErrorModel(timebase=3e-9, tick_resolution_s=4e-9 * math.sqrt(6) / 2, instant_s=0.0)
    assert both.interval_u(1.0) == pytest.approx(5e-9)


def test_a_ratio_has_no_uncertainty_where_one_of_its_terms_has_none() -> None:
    top, bottom = Figure(10.0, 0.3, "MB/s"), Figure(4.0, None, "W", lost=2)
    found = ratio(top, bottom, "MB/s/W", factor=2.0)
    assert (found.value, found.u, found.lost) == (5.0, None, 2)
    assert ratio(bottom, top, "W/(MB/s)").u is None
    exact = Figure(4.0, 0.0, "W")
    assert ratio(Figure(-10.0, 0.3, "x"), exact, "x").u == pytest.approx(2.5 * 0.03)
    for divisor in (0.0, -1.0):
        assert ratio(top, Figure(divisor, 0.1, "W"), "x").value is None


@pytest.mark.parametrize(
    ("value", "u", "expected"),
    [
        (math.inf, 1.0, (None, None)),
        (math.nan, 1.0, (None, None)),
        (1.0, math.inf, (1.0, None)),
        (None, 1.0, (None, None)),
        (2.0, 0.5, (2.0, 0.5)),
    ],
)
def test_no_figure_has_a_number_that_is_none(value: float | None, u: float, expected: tuple[float | None, float | None]) -> None:
    found = Figure(value, u, "W")
    assert (found.value, found.u) == expected


def test_what_a_rig_states_of_itself_goes_before_what_is_assumed() -> None:
    stated = {
        "gain": 1e-4,
        "offset_a": 1e-6,
        "timebase": 1e-6,
        "tick_resolution_s": 4e-9,
        "instant_s": 2e-9,
        "front_end_delay_s": 1e-6,
        "front_end_delay_u_s": 1e-8,
    }
    model = error_model({"rig": {"error_model": stated}})
    assert {name: getattr(model, name) for name in stated} == stated
    one = error_model({"rig": {"error_model": {"gain": 5e-4}}, "clock": {"tick_ps": 8000}, "conditions": {"front_end_delay_s": 3e-6}})
    assert (one.gain, one.offset_a, one.timebase, one.tick_resolution_s, one.front_end_delay_s) == (5e-4, 5e-6, 25e-6, 8e-9, 3e-6)
    assert error_model({}).tick_resolution_s == 1e-9


def test_power_and_energy_of_a_sleeping_drive_carry_the_offset(builder: Any) -> None:
    """3.3 mW: 0.1 % are 3.3 uW, the offset of 5 uA is 16.5 uW."""
    builder.power(0, 3.3e-3)
    builder.phase(1, 50 * MS, 250 * MS, "asleep")
    power = analyze(builder.write(400 * MS))["phases"][0]["power"]
    u = math.hypot(3.3e-6, 16.5e-6)
    assert power["mean_w"]["u"] == pytest.approx(u, rel=1e-4)
    assert power["energy_j"]["u"] == pytest.approx(u * 0.2, rel=1e-4)
    assert power["min_sample_w"]["u"] == pytest.approx(u, rel=1e-4)
    assert power["max_sample_w"]["u"] == pytest.approx(u, rel=1e-3)
    assert power["max_moving_w"]["100us"]["u"] == pytest.approx(u, rel=1e-3)
    assert power["mean_current_a"]["u"] == pytest.approx(math.hypot(1e-6, 5e-6), rel=1e-4)
    assert power["mean_voltage_v"]["u"] == pytest.approx(3.3e-3, rel=1e-6)


def test_the_time_base_is_in_an_energy_and_not_in_a_mean_power(builder: Any) -> None:
    model = {"rig": {"error_model": {"gain": 0.0, "offset_a": 0.0, "timebase": 1e-3}}}
    builder.power(0, 2.0)
    builder.phase(1, 50 * MS, 250 * MS, "load")
    capture = builder.write(400 * MS)
    capture.meta.update(model)
    power = analyze(capture)["phases"][0]["power"]
    assert power["energy_j"]["u"] == pytest.approx(1e-3 * 0.4, rel=1e-4)
    assert power["mean_w"]["u"] == pytest.approx(0.0, abs=1e-9)


def stepped(builder: Any, bursts: int, low: float, high: float) -> tuple[Any, list[tuple[int, int]]]:
    """Bursts of one command of 2 ms each, 20 ms apart, at `high` W, else `low` W: the rail steps inside the sample intervals at both ends
    of each."""
    builder.power(0, low)
    spans = []
    for k in range(bursts):
        start = (100 + 22 * k) * MS
        builder.power(start, high)
        builder.command(start, 2 * MS, blocks=256)
        builder.power(start + 2 * MS, low)
        spans.append((start, start + 2 * MS))
    builder.phase(1, 90 * MS, spans[-1][1] + 8 * MS, "bursts")
    return builder.write(spans[-1][1] + 50 * MS), spans


@pytest.mark.parametrize("bursts", [1, 4, 9])
def test_edges_of_bursts_add_in_squares_under_the_active_power(builder: Any, bursts: int) -> None:
    """Each burst has two edges with a step of 2.5 W; being independent, they add up to sqrt(2 x bursts) of one. 0.1 % of the mean power and
    the offset are added once: they are common to all."""
    capture, spans = stepped(builder, bursts, 0.5, 3.0)
    capture.meta["rig"]["error_model"] = {"gain": 1e-5, "offset_a": 0.0}
    active = analyze(capture)["phases"][0]["power"]["active"]
    assert len(spans) == bursts
    edges = math.sqrt(2 * bursts) * 2.5 * STEP_U_J
    assert active["energy_j"]["u"] == pytest.approx(math.hypot(edges, 1e-5 * active["energy_j"]["value"]), rel=1e-3)
    assert active["mean_w"]["u"] == pytest.approx(active["energy_j"]["u"] / (bursts * 2e-3), rel=1e-6)
    # the sample at the end of a burst is from after it, yet stands for the 5 us before it, too
    assert active["energy_j"]["value"] == pytest.approx((3.0 * 2e-3 - 2.5 * 5e-6) * bursts, rel=1e-5)


@pytest.mark.parametrize("bursts", [1, 4])
def test_energy_of_a_command_has_the_edges_the_idle_level_and_the_gain(builder: Any, bursts: int) -> None:
    capture, spans = stepped(builder, bursts, 0.5, 3.0)
    capture.meta["rig"]["error_model"] = {"gain": 0.0, "offset_a": 0.0}
    context = load(capture)
    assert context.rail is not None
    io = context.commands.take(context.commands.qid > 0)
    span = ActiveTime(np.array(spans))

    def found(u_w: float) -> Figure:
        result = energy_per_command(context.rail, io, span, Figure(0.5, u_w, "W"), 3).result
        (one,) = result["classes"].values()
        return one

    # All but the last are followed for 1 ms, in which the rail falls to idle: their second edge lies where nothing changes.
    edges = math.sqrt(bursts + 1) * 2.5 * STEP_U_J
    assert found(0.0).value == pytest.approx(2.5 * 2e-3, rel=3e-3)
    assert found(0.0).u == pytest.approx(edges / bursts, rel=1e-3)
    # 10 mW of idle power, over the whole active time, and 1 ms behind each but the last
    followed_s = 2e-3 + 1e-3 * (bursts - 1) / bursts
    assert found(10e-3).u == pytest.approx(math.hypot(edges / bursts, 10e-3 * followed_s), rel=1e-3)
    assert found(0.0).lost == 3
    capture.meta["rig"]["error_model"] = {"gain": 1e-2, "offset_a": 0.0}
    context = load(capture)
    assert found(0.0).u == pytest.approx(math.hypot(edges / bursts, 1e-2 * (3.0 * 2e-3 + 0.5 * (followed_s - 2e-3))), rel=3e-3)


def test_noise_of_the_rail_is_in_the_u_of_a_mean_by_its_root(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """White noise of 30 mW on each sample: 30 mW / sqrt(n) on a mean of n, the full 30 mW on the largest sample."""
    builder.power(0, 1.0)
    builder.phase(1, 50 * MS, 250 * MS, "noisy")
    capture = builder.write(400 * MS)
    capture.meta["rig"]["error_model"] = {"gain": 0.0, "offset_a": 0.0}
    from wattbell.capture import RailReader, RailWaveform

    read, rng = RailReader.read, np.random.default_rng(3)
    noise = rng.normal(0, 0.03, 40_000)

    def noisy(self: Any, start: int = 0, stop: int | None = None) -> RailWaveform:
        part = read(self, start, stop)
        power = (part.power + noise[part.start : part.start + len(part.power)]).astype(np.float32)
        return RailWaveform(part.start, part.voltage, part.current, power)

    monkeypatch.setattr(RailReader, "read", noisy)
    power = analyze(capture)["phases"][0]["power"]
    samples = power["mean_w"]["conditions"]["samples"]
    assert samples == 20_000
    # the quietest of 39 blocks of 1024 samples: below the 30 mW by up to 3 x 2.2 %
    assert power["max_sample_w"]["u"] == pytest.approx(2 * 0.03, rel=0.08) and power["max_sample_w"]["u"] < 0.06
    assert power["max_moving_w"]["100us"]["u"] == pytest.approx(power["max_sample_w"]["u"] / math.sqrt(10), rel=1e-6)
    assert power["mean_w"]["u"] >= power["max_sample_w"]["u"] / math.sqrt(samples)


def test_a_doubt_of_the_idle_level_is_shared_out_by_the_time_that_each_class_took() -> None:
    """Reads take 1 mJ above idle, writes 2 mJ, in phases that separate them exactly. 10 mW of idle power are 10 mW x 1 ms for a read that
    is alone in flight for 1 ms, and 10 mW x 3 ms for a write that is for 3 ms."""
    kinds = {name: CommandClass(name, np.ones(1, np.bool_), 1, "random", "1") for name in ("read 4 KiB", "write 4 KiB")}
    windows = []
    for reads, writes in ((1000, 0), (1500, 0), (0, 800), (0, 400), (700, 300), (200, 900), (1000, 50)):
        counts = {name: n for name, n in zip(kinds, (reads, writes), strict=True) if n}
        seconds = {name: n * (1e-3 if name.startswith("read") else 3e-3) for name, n in counts.items()}
        load = PhaseLoad(
            {f"{name}, random": n for name, n in counts.items()},
            {f"{name}, random": s for name, s in seconds.items()},
            reads * 1e-3 + writes * 2e-3,
            0.0,
        )
        whole = Figure(load.above_j / (reads + writes), 0.0, "J", 0, {"idle_w": 0.5, "commands": reads + writes})
        result: EnergyPerCommand = {"classes": {" + ".join(counts): whole}, "shares": {"absent": "not asked for"}}
        classes = tuple(replace(kinds[name], count=n) for name, n in counts.items())
        windows.append(EnergyWindow(result, load, classes, base_u_w=10e-3))
    separate(windows)
    found = windows[4].result["classes"]
    read, write = found["read 4 KiB"], found["write 4 KiB"]
    assert (read.value, write.value) == (pytest.approx(1e-3, rel=1e-6), pytest.approx(2e-3, rel=1e-6))
    expected = [math.hypot(base, METHOD * value / math.sqrt(part / 1.3)) for base, value, part in ((10e-6, 1e-3, 0.7), (30e-6, 2e-3, 0.6))]
    assert (read.u, write.u) == (pytest.approx(expected[0], rel=1e-4), pytest.approx(expected[1], rel=1e-4))
    assert (read.conditions["commands"], write.conditions["commands"]) == (700, 300)
    few = windows[6].result["classes"]["write 4 KiB"]  # 0.1 J of 1.1 J
    assert few.value == pytest.approx(2e-3, rel=1e-6) and few.u is None and "small part" in str(few.conditions["note"])
    assert windows[6].result["classes"]["read 4 KiB"].u


def test_levels_of_several_idle_times_have_their_spread(builder: Any) -> None:
    """0.52 and 0.54 W: a standard deviation of 20 mW / sqrt(2), and twice that as u: they are two levels, and no noise about one."""
    for k, watt in enumerate((0.50, 0.52, 0.54)):
        builder.power(k * 101 * MS, watt)
        builder.command(k * 101 * MS + 100 * MS, MS)
    builder.levels.append((303 * MS, 0.54))
    capture = builder.write(310 * MS)
    capture.meta["rig"]["error_model"] = {"gain": 0.0, "offset_a": 5e-6}
    (level,) = analyze(capture)["idle"]["levels"]
    assert level["segments"] == 2, "before the first command nothing is known to be idle"
    assert level["mean_w"]["value"] == pytest.approx(0.53, rel=1e-3)
    assert level["mean_w"]["u"] == pytest.approx(math.hypot(2 * 0.02 / math.sqrt(2), 16.5e-6), rel=5e-3)
    assert level["duration_s"] == pytest.approx(0.2, abs=3e-3)


@pytest.mark.parametrize("stated", ["the phase", "the capture", "both"])
def test_an_edge_on_another_clock_costs_what_the_rail_delivers_around_it(builder: Any, stated: str) -> None:
    """0.5 W, then 2 W from 50 ms to 250 ms, then 1 W; edges within 4 ms: 2 W x 4 ms at each; the mean changes by the difference from it."""
    model = {"rig": {"error_model": {"gain": 0.0, "offset_a": 0.0, "timebase": 0.0}}}
    for tick, watts in ((0, 0.5), (50 * MS, 2.0), (250 * MS, 1.0)):
        builder.power(tick, watts)
    own = {"the phase": {"edge_u_s": 4e-3}, "the capture": {}, "both": {"edge_u_s": 1e-3}}[stated]
    builder.phase(1, 50 * MS, 250 * MS, "load", **own)
    conditions = {} if stated == "the phase" else {"alignment_u_s": 4e-3}
    capture = builder.write(400 * MS, conditions=conditions)
    capture.meta.update(model)
    power = analyze(capture)["phases"][0]["power"]
    assert power["energy_j"]["value"] == pytest.approx(0.4, rel=1e-4)
    assert power["energy_j"]["u"] == pytest.approx(2 * 2.0 * 4e-3, rel=1e-2)
    assert power["mean_w"]["u"] == pytest.approx((1.5 + 1.0) * 4e-3 / 0.2, rel=1e-2)
    assert power["mean_current_a"]["u"] == pytest.approx((1.5 + 1.0) * 4e-3 / 0.2 / 3.3, rel=1e-2)
    assert power["energy_j"]["conditions"]["edge_u_s"] == 4e-3


def test_a_steady_rail_has_the_same_mean_wherever_its_edges_are(builder: Any) -> None:
    model = {"rig": {"error_model": {"gain": 0.0, "offset_a": 0.0, "timebase": 0.0}}}
    builder.power(0, 2.0)
    builder.phase(1, 50 * MS, 250 * MS, "load", edge_u_s=0.01)
    capture = builder.write(400 * MS)
    capture.meta.update(model)
    power = analyze(capture)["phases"][0]["power"]
    assert power["mean_w"]["u"] == pytest.approx(0.0, abs=1e-6)
    assert power["energy_j"]["u"] == pytest.approx(2 * 2.0 * 0.01, rel=1e-2)


def test_all_bursts_are_off_together(builder: Any) -> None:
    """Eleven bursts of 10 ms at 2 W from 1 W, instants within 0.1 ms of the rail's."""
    builder.power(0, 1.0)
    for k in range(11):
        start = (20 + 40 * k) * MS
        builder.power(start, 2.0)
        builder.power(start + 10 * MS, 1.0)
        builder.command(start, 10 * MS)
    capture = builder.write(500 * MS, conditions={"alignment_u_s": 1e-4})
    capture.meta.update({"rig": {"error_model": {"gain": 0.0, "offset_a": 0.0, "timebase": 0.0}}})
    active = analyze(capture)["power"]["active"]
    assert active["energy_j"]["u"] == pytest.approx(11 * 2 * 2.0 * 1e-4, rel=0.02)
    assert active["mean_w"]["u"] == pytest.approx(11 * 2 * 1.0 * 1e-4 / 0.11, rel=0.04)


def test_what_is_missing_at_an_edge_counts_as_the_largest_power_around() -> None:
    """Samples of 10 ticks of 1 s; 3 W is missing from tick 20 to 40."""
    watts = np.array([1.0, 2.0, math.nan, math.nan, 1.0, 1.0])

    def read(first: int, last: int) -> tuple[int, np.ndarray]:
        low, high = max(0, math.ceil((first - 5) / 10)), min(len(watts), math.ceil((last - 5) / 10))
        return 5 + low * 10, watts[low : max(low, high)]

    frame = pl.DataFrame(
        {
            "first_tick": [5],
            "interval_ticks": [10],
            "count": [6],
            "adc_index": [6],
            "energy_raw": [0],
            "energy_high": [0],
            "epoch": [0],
            "flags": [0],
        }
    )
    meter = EnergyMeter(frame, 10.0, 0.0, 1.0, read)
    assert meter.moved(20.0, 10.0, 0.0) == (20.0, 20.0)  # on either side, known or not
    assert meter.moved(10.0, 30.0, 0.0) == (10 * 2.0 + 20 * 2.0, 10 * 2.0 + 20 * 2.0)  # behind it
    assert meter.moved(50.0, 10.0, 4.0) == (10.0, 30.0)


def test_a_break_even_is_as_uncertain_as_the_powers_that_it_divides_by(builder: Any) -> None:
    """Currents by two paths, 1 mA off against each other: 3.3 mW of the 470 mW between idle and state."""
    capture = everything(builder)
    capture.meta["rig"]["error_model"] = {"gain": 0.0, "offset_a": 1e-3}
    (way,) = analyze(capture)["wakeup"]["transitions"]
    value, u = way["break_even_s"]["value"], way["break_even_s"]["u"]
    assert value * 3.3e-3 / 0.47 < u < 3 * value * 3.3e-3 / 0.47
