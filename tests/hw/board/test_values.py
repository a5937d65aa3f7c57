"""Values as the schematic writes them, and the E series, against the print on parts."""

from __future__ import annotations

import pytest
from board.netlist import DesignError
from board.values import E24, E96, number, parallel, standard, written
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "value"),
    [("4k75", 4750.0), ("390", 390.0), ("2n2", 2.2e-9), ("10m", 0.01), ("3R3", 3.3), ("0", 0.0), ("1M", 1e6), ("360p", 3.6e-10)],
)
def test_what_a_value_means(text: str, value: float) -> None:
    assert number(text) == pytest.approx(value)
    assert not value or written(value) == text


@pytest.mark.parametrize("text", ["", "k", "4.7k5", "10 k", "1kk", "-5"])
def test_no_value(text: str) -> None:
    with pytest.raises(DesignError, match="write 4k75"):
        number(text)


def test_a_value_of_more_digits_than_are_written() -> None:
    with pytest.raises(DesignError, match="more digits"):
        written(1234.5678)


def test_e96_is_the_standards() -> None:
    # the rows that people know by heart, and the one where rounding is nearest to going wrong
    assert len(E96) == 96 and {1.0, 1.02, 1.96, 2.49, 4.75, 4.99, 9.09, 9.76} <= set(E96)
    assert standard(500.0, E96, 3e-3) == 499.0
    assert standard(9.9e3, E96, 2e-2) == 10e3  # the next decade


def test_too_far_from_every_standard_value() -> None:
    with pytest.raises(DesignError, match=r"392, is off by \+0.51%"):
        standard(390.0, E96, 3e-3)


@given(st.floats(1e-11, 1e-7))
def test_two_capacitors_make_any_value(value: float) -> None:
    pair = parallel(value, 0.02)
    assert pair[0] >= pair[1]
    for part in pair:
        assert any(part == pytest.approx(step * 10.0**n) for step in E24 for n in range(-13, -6))
    assert sum(pair) == pytest.approx(value, rel=0.02)


def test_no_two_capacitors_near_enough() -> None:
    with pytest.raises(DesignError, match="two capacitors"):
        parallel(9.999e-9, 1e-6)
