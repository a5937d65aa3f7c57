"""One rule and one vocabulary for every verdict against a declared limit."""

from __future__ import annotations

import pytest
from wattbell.measure.figure import Figure, absent
from wattbell.measure.judge import DecisionRule, judge


@pytest.mark.parametrize(
    ("limit", "value", "u", "slack", "verdict"),
    [
        (5.0, 4.99, 0.5, 0.0, "conditional pass"),
        (5.0, 4.4, 0.5, 0.0, "pass"),
        (5.0, 5.6, 0.5, 0.0, "fail"),
        (5.0, 5.5, 0.5, 0.0, "conditional fail"),
        (5.0, 4.5, 0.5, 0.0, "pass"),
        (5.0, 5.0, 0.0, 0.0, "pass"),
        (5.0, 4.0, None, 0.0, "not measured"),
        (5.0, 9.0, None, 0.0, "not measured"),
        (5.0, None, None, 0.0, "not measured"),
        (None, 4.0, 0.1, 0.0, "not applicable"),
        (0.0, 4.0, 0.1, 0.0, "not applicable"),
        (5.0, 5.6, 0.5, 0.2, "conditional fail"),
        (5.0, 5.8, 0.5, 0.2, "fail"),
        (5.0, 5.0, 0.5, 0.2, "conditional pass"),
    ],
)
def test_a_verdict_needs_an_uncertainty(limit: float | None, value: float | None, u: float | None, slack: float, verdict: str) -> None:
    found = judge(limit, Figure(value, u, "W"), slack)
    assert found.verdict == verdict and bool(found.why) is (verdict not in ("pass",) and value is not None)


def test_what_was_not_measured_says_why() -> None:
    assert judge(5.0, absent("nobody saw it", "W")).why == "nobody saw it"
    assert "without an uncertainty" in judge(5.0, Figure(4.0, None, "W")).why


@pytest.mark.parametrize(
    ("value", "side", "guard", "verdict"),
    [
        (4.6, "at most", 0.0, "pass"),
        (5.01, "at most", 0.0, "fail"),
        (4.2, "at most", 2.0, "conditional pass"),
        (5.9, "at most", 2.0, "conditional fail"),
        (5.6, "at least", 1.0, "pass"),
        (5.1, "at least", 1.0, "conditional pass"),
        (4.9, "at least", 1.0, "conditional fail"),
        (4.4, "at least", 1.0, "fail"),
    ],
)
def test_the_guard_band_has_two_sides_and_a_width(value: float, side: str, guard: float, verdict: str) -> None:
    assert judge(5.0, Figure(value, 0.5, "W"), side=side, rule=DecisionRule(guard)).verdict == verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "verdict"), [(1.0, "conditional pass"), (9.0, "conditional fail")])
def test_lost_data_make_a_verdict_conditional(value: float, verdict: str) -> None:
    found = judge(5.0, Figure(value, 0.5, "W", lost=3))
    assert found.verdict == verdict and "lost" in found.why


def test_a_doubt_changes_no_verdict_without_a_figure() -> None:
    assert judge(None, Figure(1.0, 0.1, "W", lost=1)).weakened("short").verdict == "not applicable"
