"""A phase measured in pieces gives the same result as in one piece."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from wattbell.capture import Capture
from wattbell.capture.meta import seal
from wattbell.measure import source as module
from wattbell.measure.phase import InPieces, Whole, measure
from wattbell.measure.source import Source

MS = 1_000_000
US = 1_000


def busy(builder: Any, slowest: int) -> Capture:
    """Two phases of reads and writes at depth 8, with rests between bursts, errors, Flushes, one command of ``slowest``."""
    generator = random.Random(7)
    for phase, begin in ((1, 10 * MS), (2, 900 * MS)):
        builder.phase(phase, begin, begin + 800 * MS, f"t/{phase}")
        at = begin + MS
        for i in range(1500):
            at += generator.randrange(40 * US) + (15 * MS if i % 250 == 249 else 0)
            took = generator.randrange(50 * US, 300 * US)
            builder.command(
                at,
                slowest if i == 700 else took,
                opcode=generator.choice((1, 2, 2, 0)),
                slba=8 * i,
                status=generator.choice((0, 0, 0, 0, 0x281)),
            )
    builder.power(0, 1.5)
    capture: Capture = builder.write(end=2000 * MS)
    return capture


@pytest.mark.parametrize("slowest", [400 * US, 5_000_000 * US])
def test_figures_do_not_depend_on_the_pieces(builder: Any, monkeypatch: pytest.MonkeyPatch, slowest: int) -> None:
    capture = busy(builder, slowest)
    path = capture.path / "commands.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, row_group_size=64)
    source = Source(Capture(capture.path, seal(capture.path)))
    for phase in source.phases.values():
        monkeypatch.setattr(module, "WHOLE_ROWS", len(table))
        whole = measure(source, phase)
        monkeypatch.setattr(module, "WHOLE_ROWS", 0)
        monkeypatch.setattr(module, "PIECE_ROWS", 200)
        pieces = measure(source, phase)
        assert isinstance(whole, Whole) and isinstance(pieces, InPieces)
        sizes = [len(io) for io in source.io_pieces(phase)]
        assert len(sizes) > 5 and max(sizes) <= 200 and sum(sizes) == len(whole.io)
        assert (pieces.bytes, pieces.count) == (whole.bytes, whole.count)
        assert whole.span is not None and pieces.span is not None
        assert len(whole.span.bursts) > 2
        assert np.array_equal(pieces.span.bursts, whole.span.bursts)
        for opcode in (None, 1, 2):
            assert sorted(pieces.latency_ticks(opcode)) == sorted(whole.latency_ticks(opcode))
        assert all(np.array_equal(a, b) for a, b in zip(pieces.per_bin(10 * MS), whole.per_bin(10 * MS), strict=True))
        ours, theirs = pieces.point({}), whole.point({})
        for key, figure in theirs.figures.items():
            assert ours[key].value == pytest.approx(figure.value, rel=1e-12), key
            if key != "mean_latency_s":
                assert ours[key].u == pytest.approx(figure.u, rel=1e-12), key
            elif slowest < MS:  # otherwise it depends on the batch into which the slow one falls
                # batches of 47 commands differ by those in flight between two pieces
                assert ours[key].u == pytest.approx(figure.u, rel=0.2), key


def test_a_phase_reads_only_what_is_near_it(builder: Any) -> None:
    capture = busy(builder, 400 * US)
    path = capture.path / "commands.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=64)
    near = Capture(capture.path, seal(capture.path))
    first = near.command_rows(0, 700 * MS)
    assert 0 < first <= 1600
    with_markers = 3000 + 4
    assert near.command_rows(0, 2000 * MS) == with_markers == sum(len(p) for p in near.command_pieces(0, 2000 * MS, ["cqe_tick"], 1))
    assert near.command_rows(1900 * MS, 1950 * MS) == 0
