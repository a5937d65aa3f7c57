"""Length of the fuzz tests: short by default, and WATTBELL_FUZZ times as long where that is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, settings


def multiplier() -> int:
    """The number in ``WATTBELL_FUZZ``, at least 1; 1 without it. Raises ValueError if it is not an integer."""
    return max(1, int(os.environ.get("WATTBELL_FUZZ") or "1"))


def examples(n: int) -> Any:
    """Settings of a fuzz test of ``n`` examples: the same examples in each short run, others in each long one."""
    times = multiplier()
    return settings(
        max_examples=n * times,
        derandomize=times == 1,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def seeds(n: int) -> Iterator[int]:
    """``n`` numbers, or ``WATTBELL_FUZZ`` times as many (and others) in a long run; prints their count (tools/soak.py reads it)."""
    total = n * multiplier()
    yield from range(total)
    print(f"\nfuzz: {total} inputs")
