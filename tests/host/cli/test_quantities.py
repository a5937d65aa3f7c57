"""Quantities with their units on the command line."""

from __future__ import annotations

import pytest
from wattbell.cli import quantities
from wattbell.cli.quantities import CURRENT, HOURS, RATE, SIZE, TIME, VOLTAGE, QuantityParser, Unread


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (TIME, "60", 60.0),
        (TIME, "60s", 60.0),
        (TIME, "10us", 1e-5),
        (TIME, "10µs", 1e-5),
        (TIME, "0.1ms", 1e-4),
        (TIME, "1.5h", 5400.0),
        (TIME, "2 min", 120.0),
        (TIME, "1e-6", 1e-6),
        (TIME, "-10us", -1e-5),
        (TIME, "1d", 86400.0),
        (HOURS, "24", 24.0),
        (HOURS, "30min", 0.5),
        (SIZE, "4096", 4096),
        (SIZE, "4k", 4096),
        (SIZE, "4KiB", 4096),
        (SIZE, "1MiB", 1 << 20),
        (SIZE, "1MB", 1_000_000),
        (SIZE, "0x1000", 4096),
        (CURRENT, "500mA", 0.5),
        (CURRENT, "0.33uA", 3.3e-7),
        (VOLTAGE, "3.3V", 3.3),
        (RATE, "10MHz", 10_000_000),
        (RATE, "100k", 100_000),
    ],
)
def test_a_quantity_is_read_with_its_unit_or_in_the_options_own(kind: QuantityParser, text: str, value: float) -> None:
    found = kind(text)
    assert found == value
    assert isinstance(found, type(value))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TIME, ""),
        (TIME, "s"),
        (TIME, "nan"),
        (TIME, "inf"),
        (TIME, "5x"),
        (TIME, "1MiB"),
        (TIME, "1.2.3s"),
        (TIME, "M"),
        (TIME, "1Ms"),
        (SIZE, "0.5"),
        (SIZE, "512s"),
        (CURRENT, "1V"),
        (RATE, "1.5"),
        (TIME, "9" * 400),
    ],
)
def test_what_is_none_is_refused_with_an_example(kind: QuantityParser, text: str) -> None:
    assert kind(text) == Unread(text, kind.example)


def test_a_default_passes_as_it_is() -> None:
    assert TIME(1.5) == 1.5


def test_every_example_that_is_shown_is_taken() -> None:
    for kind in vars(quantities).values():
        if isinstance(kind, QuantityParser):
            for word in kind.example.replace(",", " ").replace("(", " ").split():
                if word[0].isdigit():
                    assert not isinstance(kind(word), Unread)
