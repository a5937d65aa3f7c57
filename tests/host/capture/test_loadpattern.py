"""Patterns of load as a journal has them: they mean the same as all of their reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from wattbell.capture.loadpattern import Reads, from_json, to_json
from wattbell.clocks.pattern import Burst


@pytest.mark.parametrize("count", [1, 3, 8, 9, 400])
def test_a_burst_of_the_journal_is_that_of_all_its_reads(count: int) -> None:
    draw = np.random.default_rng(count)
    start = draw.integers(0, 10**8, count) + 7 * 10**15
    whole = [Reads(start, start + draw.integers(10**4, 10**7, count)) for _ in range(2)]
    kept = from_json(json.loads(json.dumps(to_json(whole))))
    assert [Burst.of(reads.start_ns, reads.end_ns) for reads in kept] == [Burst.of(reads.start_ns, reads.end_ns) for reads in whole]
    assert [reads.span_ns for reads in kept] == [reads.span_ns for reads in whole]
    assert all(len(reads.start_ns) <= 8 for reads in kept)
