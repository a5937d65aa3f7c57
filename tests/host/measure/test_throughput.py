"""Active time as a tap and as a host see it: the host's is longer, and says by how much at most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from wattbell.measure.errormodel import ErrorModel
from wattbell.measure.pieces import active_span, tally
from wattbell.measure.throughput import rate

GAP = 1000


def commands(start: Any, end: Any) -> Any:
    order = np.argsort(start, kind="stable")
    n = len(order)
    start, end = np.asarray(start, np.int64)[order], np.asarray(end, np.int64)[order]
    return SimpleNamespace(
        start_tick=start,
        doorbell_tick=start,
        cqe_tick=end,
        nbytes=np.full(n, 4096),
        opcode=np.full(n, 2, np.uint8),
        status=np.zeros(n, np.uint16),
        flags=np.zeros(n, np.uint8),
        has=lambda _flag: np.zeros(n, bool),
    )


def seen(rng: np.random.Generator, depth: int, off: int = 600) -> tuple[Any, Any]:
    """The same commands on the wire and by a host that is early and late by up to ``off`` ticks; now and then there is nothing to do."""
    start = np.sort(np.cumsum(rng.integers(1, 400, 300)) + np.cumsum(rng.uniform(size=300) < 0.05) * 1500)
    end = start + rng.integers(50, 100 * depth, 300)
    early, late = rng.integers(1, off, (2, 300))
    return commands(start, end), commands(start - early, end + late)


@pytest.mark.parametrize(("depth", "off"), ((1, 600), (8, 600), (1, 20)))
def test_the_true_active_time_is_between_the_least_and_the_hosts(depth: int, off: int) -> None:
    rng = np.random.default_rng(depth)
    for _ in range(50):
        wire, host = seen(rng, depth, off)
        truth, found = active_span(wire, GAP), active_span(host, GAP, True)
        assert truth is not None and found is not None and truth.least_ticks is None and found.least_ticks is not None
        assert found.least_ticks <= truth.active_ticks <= found.active_ticks
        assert off > 20 or found.least_ticks > 0.9 * truth.active_ticks, "a quick host knows well"
        slow = rate(1e6, found.active_ticks, "MB/s", ErrorModel(), 0, found.least_ticks)
        assert abs(slow.known - 1e6 / truth.active_ticks) <= (slow.u or np.inf)


def test_pieces_give_the_span_of_the_whole() -> None:
    _, host = seen(np.random.default_rng(3), 4)
    whole = active_span(host, GAP, True)
    parts = [commands(host.start_tick[k : k + 70], host.cqe_tick[k : k + 70]) for k in range(0, 300, 70)]
    span = tally(parts, GAP, True).span
    assert whole is not None and span is not None
    assert np.array_equal(span.bursts, whole.bursts) and span.least_ticks == whole.least_ticks
    assert tally(parts, GAP).span.least is None  # type: ignore[union-attr]


def test_a_single_command_has_no_least_time_and_so_no_uncertainty() -> None:
    span = active_span(commands([100], [900]), GAP, True)
    assert span is not None and (span.active_ticks, span.least_ticks) == (800, 0)
    assert rate(1.0, 800e-9, "MB/s", ErrorModel(), 0, 0.0).u is None
