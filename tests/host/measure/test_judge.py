"""One rule and one vocabulary for every verdict against a declared limit."""

from __future__ import annotations

import pytest
from wattbell.measure.figure import Figure, absent
from wattbell.measure.judge import judge


@pytest.mark.parametrize(
    ("limit", "value", "u", "slack", "verdict"),
    [
        (5.0, 4.99, 0.5, 0.0, "undecided"), (5.0, 4.4, 0.5, 0.0, "pass"), (5.0, 5.6, 0.5, 0.0, "fail"), (5.0, 5.5, 0.5, 0.0, "undecided"),
        (5.0, 4.5, 0.5, 0.0, "undecided"), (5.0, 5.0, 0.0, 0.0, "undecided"), (5.0, 4.0, None, 0.0, "not measured"),
        (5.0, 9.0, None, 0.0, "not measured"), (5.0, None, None, 0.0, "not measured"), (None, 4.0, 0.1, 0.0, "not applicable"),
        (0.0, 4.0, 0.1, 0.0, "not applicable"), (5.0, 5.6, 0.5, 0.2, "undecided"), (5.0, 5.8, 0.5, 0.2, "fail"),
    ],
)  # fmt: skip
def test_a_verdict_needs_an_uncertainty(limit: float | None, value: float | None, u: float | None, slack: float, verdict: str) -> None:
    found = judge(limit, Figure(value, u, "W"), slack)
    assert found.verdict == verdict and bool(found.why) is (verdict not in ("pass",) and value is not None)


def test_what_was_not_measured_says_why() -> None:
    assert judge(5.0, absent("nobody saw it", "W")).why == "nobody saw it"
    assert "without an uncertainty" in judge(5.0, Figure(4.0, None, "W")).why
