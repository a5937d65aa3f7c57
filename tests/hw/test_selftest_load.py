"""The self-test's load by its deck, against results by hand, and against the needs of the self-test."""

import math

import pytest
from afe import parts, selftest

PARTS, _ = parts.load()
LOAD = PARTS["test_load"]
DRIFT_S = {"coarse": 17e-9, "fine": 26e-9}
"""Drift of the paths' delays over 25 K: docs/front-end.md."""
WANTED_S = 50e-9


@pytest.fixture(scope="module", params=["coarse", "fine"])
def edge(request):
    return request.param, selftest.load_edge(PARTS, request.param)


def test_current_is_ohms_law(edge):
    path, found = edge
    # two transistors at 3.3 V of gate: 1 / (k (vgs - vto)), and their drains
    transistors = 2 * (1 / (LOAD.transconductance * (LOAD.gate_voltage - LOAD.threshold)) + LOAD.drain_resistance)
    source = PARTS["rail"].source_resistance + PARTS["rail"].copper_before + PARTS["load_switch"].resistance + PARTS["shunt"].resistance
    resistance = LOAD.figures[f"resistance_{path}"].value + transistors + source
    assert found["current_a"] == pytest.approx(PARTS["rail"].voltage / resistance, rel=0.02)
    assert found["current_a"] == pytest.approx(selftest.STEP_A[path], rel=0.1)


def test_the_edge_is_early_and_fast_enough_for_the_delay_that_it_measures(edge):
    path, found = edge
    late = (found["on_delay_s"] + found["off_delay_s"]) / 2
    assert 2e-9 < late < WANTED_S - DRIFT_S[path]
    assert abs(found["on_delay_s"] - found["off_delay_s"]) < 10e-9
    for name in ("on", "off"):
        assert found[f"{name}_rise_s"] < 20e-9
        assert found[f"{name}_overshoot"] < 0.1
        assert found[f"{name}_settled_s"] < selftest.SETTLE_S / 10


def test_the_fine_paths_step_stays_within_its_scale(edge):
    path, found = edge
    if path == "fine":
        # 113.8 mA; parts of 1 % and a rail of +5 %
        assert found["current_a"] * 1.06 * (1 + found["on_overshoot"]) < 0.1138


def test_parts_at_their_ends():
    """Thresholds and buffer at their limits: still within the goal."""
    for sign in (-1, 1):
        found = selftest.load_edge(
            PARTS, "coarse", vto=LOAD.threshold + sign * LOAD.threshold_spread, rdriver=LOAD.driver_resistance * 2.0**sign
        )
        assert (found["on_delay_s"] + found["off_delay_s"]) / 2 < WANTED_S - DRIFT_S["coarse"]


def test_a_gate_with_ten_times_the_resistance_would_be_seen():
    """A gate ten times as slow breaks the bounds above."""
    slow = selftest.load_edge(PARTS, "coarse", rdriver=10 * LOAD.driver_resistance, rgate=10 * LOAD.gate_resistance)
    assert (slow["on_delay_s"] + slow["off_delay_s"]) / 2 > WANTED_S


def test_a_host_that_gives_way_makes_on_late_and_leaves_off():
    stiff, slow = selftest.load_edge(PARTS, "coarse"), selftest.load_edge(PARTS, "coarse", **selftest.HOSTS["slow"])
    assert slow["on_delay_s"] > 2 * stiff["on_delay_s"]
    assert slow["off_delay_s"] == pytest.approx(stiff["off_delay_s"], abs=0.1e-9)


@pytest.mark.parametrize("celsius", [0, 25, 50])
def test_leakage_is_what_the_guard_leaves(celsius):
    leak = selftest.leakage(PARTS, celsius)
    thermal = 8.617333e-5 * (celsius + 273.15)
    by_hand = leak * math.tanh(leak * LOAD.guard / thermal)
    # the upper transistor leaks into the point between as well, which lifts it less
    assert selftest.load_leakage(PARTS, celsius) == pytest.approx(by_hand, rel=0.02)
    assert 2 * by_hand < 5e-6 / 50


def test_leakage_between_the_limits_of_the_data_sheet():
    assert selftest.leakage(PARTS, 25) == pytest.approx(1e-6)
    assert selftest.leakage(PARTS, 150) == pytest.approx(1e-4)
