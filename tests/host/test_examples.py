"""Hypothesis settings common to all tests (tests/conftest.py)."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host.fuzzing import examples

SLOW_S = 0.3
"""Longer than Hypothesis's own limit for an example: 0.2 s."""


@settings(max_examples=2)
@given(st.booleans())
def test_an_example_may_take_as_long_as_the_machine_is_busy(_: bool) -> None:
    time.sleep(SLOW_S)


@examples(2)
@given(st.booleans())
def test_one_of_a_fuzz_test_too(_: bool) -> None:
    time.sleep(SLOW_S)
