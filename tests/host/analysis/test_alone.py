"""Energy of single events: commands that stand alone, ways into and out of a state, debts after writes; by sums done by hand."""

from __future__ import annotations

from typing import Any

import pytest
from wattbell.analysis import analyze
from wattbell.analysis.transitions import GAIN_LEFT
from wattbell_spec.wire import EventType, LinkState

MS, US = 1_000_000, 1_000
IDLE_W = 0.6
WRITE = 0x01


def pulse(builder: Any, start: int, length: int, watt: float, after_w: float = IDLE_W) -> None:
    builder.power(start, watt)
    builder.power(start + length, after_w)


def lone(builder: Any, n: int, gap: int = 20 * MS, length: int = 300 * US, watt: float = 2.6, **more: Any) -> dict[str, Any]:
    """``n`` reads, each of which raises the rail for ``length`` from its doorbell on, at places between samples that differ."""
    builder.power(0, IDLE_W)
    for k in range(n):
        start = (k + 1) * gap + 1237 * k % 10_000
        builder.command(start, 200 * US, **more)
        pulse(builder, start, length, watt)
    result: dict[str, Any] = analyze(builder.write((n + 2) * gap))
    return result


def test_a_command_that_stands_alone_has_the_energy_above_the_baseline_until_the_rail_is_back(builder: Any) -> None:
    """2 W above idle for 300 us, 100 us behind the CQE: 600 uJ."""
    (found,) = lone(builder, 12)["alone"]["classes"].values()
    assert (found["count"], found["measured"], found["refused"]) == (12, 12, {})
    for name in ("mean_j", "median_j"):
        fig = found[name]
        assert abs(fig["value"] - 600e-6) <= fig["u"] < 30e-6
    # a step lies anywhere within 10 us: a single command is known to 2 W x 10 us / sqrt(12) for each of its two, k = 2
    assert 15e-6 < found["each_u_j"] < 35e-6
    assert found["back_s"]["value"] == pytest.approx(100e-6, abs=40e-6)


def test_commands_that_begin_at_the_same_place_between_samples_are_not_averaged(builder: Any) -> None:
    builder.power(0, IDLE_W)
    for k in range(12):
        start = (k + 1) * 20 * MS + 5_300
        builder.command(start, 200 * US)
        pulse(builder, start, 305 * US, 2.6)
    (found,) = analyze(builder.write(280 * MS))["alone"]["classes"].values()
    fig = found["mean_j"]
    assert fig["u"] > 5e-6 and abs(fig["value"] - 610e-6) <= fig["u"]


def test_a_rail_that_is_too_slow_says_so_and_gives_no_distribution(builder: Any) -> None:
    (found,) = lone(builder, 12, length=40 * US)["alone"]["classes"].values()
    assert found["median_j"]["value"] is None
    assert "not resolved" in found["median_j"]["conditions"]["absent"]
    mean = found["mean_j"]
    assert mean["value"] is None or abs(mean["value"] - 80e-6) <= mean["u"]


def test_commands_with_neighbours_do_not_stand_alone(builder: Any) -> None:
    found = lone(builder, 12, gap=MS)["alone"]
    assert found == {"absent": "no I/O command without another for 2 ms before and after it"}


def test_a_drive_that_is_still_at_work_at_the_next_command_is_counted_and_not_measured(builder: Any) -> None:
    (found,) = lone(builder, 12, gap=3 * MS, length=2_900 * US)["alone"]["classes"].values()
    assert found["measured"] == 0 and sum(found["refused"].values()) > 0
    assert found["mean_j"]["value"] is None


def test_no_rail_gives_no_energy_and_the_reason(builder: Any) -> None:
    builder.command(MS, 80 * US)
    assert analyze(builder.write(10 * MS))["alone"]["absent"] == "no rail samples were recorded"


def asleep(builder: Any, n: int = 4, clkreq: bool = True) -> dict[str, Any]:
    """Reads out of PS4 (10 mW): 5 ms at 2.6 W, 1 ms at 1 W until at rest; into it: 4 ms at 1.1 W from 40 ms after the last."""
    builder.power(0, IDLE_W)
    for k in range(6):  # the same read, awake
        start = (20 + 10 * k) * MS + 1700 * k % 10_000
        builder.command(start, 100 * US)
        pulse(builder, start, 200 * US, 1.6)
    for k in range(n):
        slept, start = (120 + 200 * k) * MS, (240 + 200 * k) * MS
        builder.power(slept, 1.1)
        builder.power(slept + 4 * MS, 0.01)
        if clkreq:
            builder.events += [(slept + 5 * MS, EventType.CLKREQ, 1, 0), (start - 80 * US, EventType.CLKREQ, 0, 0)]
            builder.events += [(start - 70 * US, EventType.LINK, int(LinkState.RECOVERY), 0)]
            builder.events += [(start - 10 * US, EventType.LINK, int(LinkState.L0), 0)]
        builder.power(start, 2.6)
        builder.power(start + 5 * MS, 1.0)
        builder.power(start + 6 * MS, IDLE_W)
        builder.command(start, 5 * MS, fetch_tick=start + 4 * MS, first_data_tick=start + 4_900 * US)
    result: dict[str, Any] = analyze(builder.write((240 + 200 * n) * MS))
    return result


def test_a_way_into_a_state_and_out_of_it_by_hand(builder: Any) -> None:
    found = max(asleep(builder)["wakeup"]["transitions"], key=lambda one: one["count"])
    assert "PS4" in found["state"] and found["count"] >= 3
    assert found["entry_j"]["value"] == pytest.approx(4e-3 * 1.09, rel=0.02)
    assert found["entry_s"]["value"] == pytest.approx(4e-3, rel=0.02)
    # of a read awake 200 us x 1 W; the link wakes 80 us before the doorbell, at 10 mW here
    way_out = 5e-3 * 2.0 + 1e-3 * 0.4 - 80e-6 * 0.59 - 200e-6
    assert abs(found["exit_j"]["value"] - way_out) <= found["exit_j"]["u"] < 0.05 * way_out
    true = (4e-3 * 1.09 + way_out) / 0.59
    fig = found["break_even_s"]
    assert abs(fig["value"] - true) <= fig["u"] < 0.05 * true
    assert fig["u"] >= GAIN_LEFT * 1e-3 * true
    parts = {part["name"]: part for part in found["parts"]}
    assert list(parts) == ["clkreq", "link", "to_doorbell", "fetch", "controller", "data", "settling"]
    assert [parts[name]["s"]["value"] for name in list(parts)[:6]] == pytest.approx([10e-6, 60e-6, 10e-6, 4e-3, 0.9e-3, 0.1e-3])
    assert parts["fetch"]["j"]["value"] == pytest.approx(4e-3 * 2.6, rel=0.01)
    assert parts["settling"]["j"]["value"] == pytest.approx(1e-3, rel=0.1)
    assert parts["clkreq"]["j"]["value"] is None and "not resolved" in parts["clkreq"]["j"]["conditions"]["absent"]


def test_without_sidebands_a_wake_up_begins_with_its_doorbell(builder: Any) -> None:
    (found,) = asleep(builder, clkreq=False)["wakeup"]["transitions"]
    assert [part["name"] for part in found["parts"]] == ["fetch", "controller", "data", "settling"]
    assert found["exit_j"]["value"] == pytest.approx(5e-3 * 2.0 + 1e-3 * 0.4 - 200e-6, rel=0.02)


def written(builder: Any, folding: tuple[int, int] = (50, 80), rest: int = 300) -> dict[str, Any]:
    """A phase of 100 writes of 64 KiB at 3 W, 10 ms at 2.6 W behind them, and folding at 2 W between two times in ms after them."""
    builder.power(0, IDLE_W)
    builder.phase(1, 99 * MS, 121 * MS, "burst")
    builder.power(100 * MS, 3.0)
    for k in range(100):
        builder.command(100 * MS + k * 200 * US, 190 * US, opcode=WRITE, blocks=128)
    end = 100 * MS + 99 * 200 * US + 190 * US
    for at, watt in ((0, 2.6), (10, IDLE_W), (folding[0], 2.0), (folding[1], IDLE_W)):
        builder.power(end + min(at, rest) * MS, watt)
    builder.command(end + rest * MS, 80 * US)
    result: dict[str, Any] = analyze(builder.write(end + (rest + 100) * MS))
    return result


def test_what_is_owed_is_booked_to_the_burst(builder: Any) -> None:
    """10 ms at 2 W and 30 ms at 1.4 W above idle: 62 mJ for 6.55 MB, beside 60 mJ while they ran."""
    (phase,) = written(builder)["phases"]
    found = phase["owed"]
    assert found["back"] and found["back_s"] == pytest.approx(80e-3, abs=1e-3)
    assert abs(found["energy_j"]["value"] - 62e-3) <= found["energy_j"]["u"] < 1e-3
    active = phase["power"]["active"]["energy_j"]["value"]
    assert found["j_per_gb"]["value"] == pytest.approx((active + 62e-3) / 6.5536e-3, rel=2e-3)
    assert found["j_per_gb"]["value"] > phase["efficiency"]["j_per_gb"]["value"]
    assert found["mb_per_j"]["value"] == pytest.approx(1e3 / found["j_per_gb"]["value"])


def test_a_rest_that_ends_too_early_gives_a_lower_bound_without_an_interval(builder: Any) -> None:
    (phase,) = written(builder, folding=(50, 400), rest=200)["phases"]
    found = phase["owed"]
    assert not found["back"] and found["energy_j"]["u"] is None
    assert "lower bound" in found["energy_j"]["conditions"]["note"]
    assert "upper bound" in found["mb_per_j"]["conditions"]["note"]
    assert found["energy_j"]["value"] == pytest.approx(10e-3 * 2.0 + 150e-3 * 1.4, rel=0.02)


def test_reads_owe_nothing(builder: Any) -> None:
    builder.power(0, IDLE_W)
    builder.phase(1, 99 * MS, 300 * MS, "reads")
    for k in range(100):
        builder.command(100 * MS + k * 200 * US, 190 * US)
    (phase,) = analyze(builder.write(400 * MS))["phases"]
    assert "owed" not in phase


def test_a_short_tail_that_hardly_leaves_the_baseline_is_owed_too(builder: Any) -> None:
    """2 ms at 5 mW above idle, less than the baseline may have later on: 10 uJ."""
    builder.power(0, IDLE_W)
    builder.phase(1, 99 * MS, 121 * MS, "burst")
    builder.power(100 * MS, 3.0)
    for k in range(100):
        end = builder.command(100 * MS + k * 200 * US, 190 * US, opcode=WRITE, blocks=128)
    builder.power(end, IDLE_W + 5e-3)
    builder.power(end + 2 * MS, IDLE_W)
    (phase,) = analyze(builder.write(500 * MS))["phases"]
    assert phase["owed"]["back"] and phase["owed"]["energy_j"]["value"] == pytest.approx(10e-6, rel=0.2)
