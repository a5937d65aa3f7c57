"""Limits as expressions: values, uncertainty, and everything that is refused."""

from __future__ import annotations

import math

import pytest
from wattbell.errors import UsageError
from wattbell.measure.figure import Figure, absent
from wattbell.requirements.expression import Missing, evaluate, names_in, parse

NAMES = {
    "declared.max_power_w": Figure(4.0, 0.0),
    "measured.average_w": Figure(10.0, 0.2, lost=3),
    "parameter.slot": Figure(25.0, 0.0),
    "measured.other": absent("the rail was dead"),
}


@pytest.mark.parametrize(
    ("text", "value", "u"),
    [
        ("2.5", 2.5, 0.0),
        ("declared.max_power_w", 4.0, 0.0),
        ("1.5 * measured.average_w", 15.0, 0.3),
        ("-measured.average_w + 12", 2.0, 0.2),
        ("min(parameter.slot, 3 * declared.max_power_w)", 12.0, 0.0),
        ("max(1, 2, 3)", 3.0, 0.0),
        ("parameter.slot / measured.average_w", 2.5, 25 / 9.8 - 2.5),
        # a measured figure twice: its errors do not cancel by squares
        ("measured.average_w + measured.average_w", 20.0, 0.4),
        ("1.5 * measured.average_w if measured.average_w <= 25 else 37.5", 15.0, 0.3),
        ("7 if not (declared.max_power_w > 3 and 1 != 2) else 8", 8.0, 0.0),
        ("7 if declared.max_power_w > 5 or 1 < 2 < 3 else 8", 7.0, 0.0),
    ],
)
def test_the_value_and_its_uncertainty(text: str, value: float, u: float) -> None:
    found = evaluate(text, NAMES)
    assert found.value == pytest.approx(value) and found.u == pytest.approx(u)
    assert found.lost == (3 if "measured" in text else 0)


def test_near_a_step_the_uncertainty_reaches_over_it() -> None:
    """24.9 +- 0.2 W may be above 25 W, where the limit is 37.5 W."""
    names = {"measured.average_w": Figure(24.9, 0.2)}
    found = evaluate("1.5 * measured.average_w if measured.average_w <= 25 else 40", names)
    assert found.value == pytest.approx(37.35) and found.u == pytest.approx(40 - 37.35)


def test_without_an_uncertainty_there_is_none_of_the_limit() -> None:
    assert evaluate("2 * measured.average_w", {"measured.average_w": Figure(3.0, None)}).u is None


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("declared.idle_power_w", "declared.idle_power_w", "is not declared"),
        ("parameter.x", "parameter.x", "is not given"),
        ("2 * measured.nothing", "measured.nothing", "was not measured"),
        ("measured.other", "measured.other", "the rail was dead"),
        ("1 / (declared.max_power_w - 4)", "the divisor", "is 0"),
    ],
)
def test_what_is_missing_is_named(text: str, name: str, reason: str) -> None:
    with pytest.raises(Missing) as caught:
        evaluate(text, NAMES)
    assert (caught.value.name, caught.value.reason) == (name, reason)


def test_a_name_in_the_branch_that_is_not_taken_may_be_missing() -> None:
    assert evaluate("3 if declared.max_power_w < 5 else parameter.x", NAMES).value == 3


@pytest.mark.parametrize(
    "text",
    [
        "", "1 +", "__import__('os')", "declared", "x", "declared.a.b", "measured['a']", "9 ** 9 ** 9", "[1]", "'1'", "True", "open(1, 2)",
        "min(1)", "min(1, 2, key=abs)", "declared.max_power_w()", "(lambda: 1)()", "1 if 1 else", "7 % 2", "7 // 2", "1 << 9",
        "1 in 2", "{}",
        "f'{1}'", "x := 1", "1,", "await 1", "1j", "((" * 400, "abs(1, 2)", "1 is 2", "~1", "declared.max_power_w.real",
    ],
)  # fmt: skip
def test_nothing_else_is_an_expression(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)
        evaluate(text, {**NAMES, "declared.max_power_w": Figure(math.pi, 0.0)})


def test_the_names_of_an_expression() -> None:
    assert names_in("1 if measured.b < declared.a else measured.b * parameter.c") == ["measured.b", "declared.a", "parameter.c"]
