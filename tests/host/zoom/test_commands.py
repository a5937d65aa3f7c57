"""Commands over any span: rows, their number, their density, statistics by class, search. Compared with the file read by Polars."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from wattbell.zoom import CommandFilter, Zoom
from wattbell.zoom.find import find_command, find_wake_up

from tests.host.zoom.conftest import spans, truth

CHOICES = (
    (CommandFilter(), pl.lit(True)),
    (CommandFilter(opcode=2, admin=False), (pl.col("opcode") == 2) & (pl.col("qid") > 0)),
    (CommandFilter(opcode=1), pl.col("opcode") == 1),
    (CommandFilter(admin=True), pl.col("qid") == 0),
    (CommandFilter(qid=3, status=-1), (pl.col("qid") == 3) & (pl.col("status") != 0)),
    (CommandFilter(above_ticks=2_000_000), pl.col("timed") & (pl.col("cqe_tick") - pl.col("start") > 2_000_000)),
    (CommandFilter(cid=77), pl.col("cid") == 77),
)


@pytest.mark.parametrize("wanted, expression", CHOICES)
def test_rows_and_their_number(busy: Zoom, wanted: CommandFilter, expression: pl.Expr) -> None:
    rows = truth(busy).filter(expression)
    for begin, end in spans(busy, 20):
        inside = rows.filter((pl.col("start") <= end) & (pl.col("end") >= begin)).sort("cqe_tick", "index")
        count, found = busy.rows(begin, end, 10**6, wanted)
        assert count == len(inside)
        assert found is not None and found["index"].to_list() == inside["index"].to_list()
        assert busy.rows(begin, end, count - 1, wanted) == (count, None) or count == 0


@pytest.mark.parametrize("wanted, expression", CHOICES)
def test_density(busy: Zoom, wanted: CommandFilter, expression: pl.Expr) -> None:
    aer = (pl.col("qid") == 0) & (pl.col("opcode") == 12)
    rows = truth(busy).filter(expression & pl.col("timed") & ~aer)
    for begin, end in spans(busy, 12):
        found = busy.density(begin, end, wanted)
        if wanted.cid is not None:  # by rows that overlap the span
            rows = truth(busy).filter(expression & pl.col("timed") & ~aer & (pl.col("start") <= end) & (pl.col("cqe_tick") >= begin))
        edges, height = found.t_edges, len(found.latency_edges_s) - 1
        latency = (rows["cqe_tick"] - rows["start"]).to_numpy() * busy.tick_s
        bucket = np.clip(np.searchsorted(found.latency_edges_s, latency, side="right") - 1, 0, height - 1)
        inside = (rows["cqe_tick"].to_numpy() >= edges[0]) & (rows["cqe_tick"].to_numpy() < edges[-1])
        column = np.searchsorted(edges, rows["cqe_tick"].to_numpy(), side="right") - 1
        wanted_counts = np.zeros((len(edges) - 1, height), np.int64)
        np.add.at(wanted_counts, (column[inside], bucket[inside]), 1)
        np.testing.assert_array_equal(found.counts.sum(axis=1), wanted_counts.sum(axis=1))
        # a latency on an edge may fall to either side of it: of 128 buckets, that a tick of 1 ns meets one is rare
        assert np.abs(found.counts - wanted_counts).sum() <= 4


def test_statistics_by_class(busy: Zoom) -> None:
    rows = truth(busy)
    approximate = 0
    for begin, end in spans(busy, 20):
        inside = rows.filter((pl.col("cqe_tick") >= begin) & (pl.col("cqe_tick") < end))
        found = {(row.opcode, row.admin): row for row in busy.command_span(begin, end)}
        kinds = {(opcode, admin) for opcode, admin in inside.select("opcode", pl.col("qid") == 0).iter_rows()}
        assert set(found) == kinds
        for (opcode, admin), row in found.items():
            mine = inside.filter((pl.col("opcode") == opcode) & ((pl.col("qid") == 0) == admin))
            timed = mine.filter(pl.col("good") & pl.col("timed"))
            ticks = np.sort((timed["cqe_tick"] - timed["start"]).to_numpy())
            assert (row.count, row.good, row.bytes) == (len(mine), mine["good"].sum(), mine["moved"].sum())
            if len(ticks):
                assert row.min_s == pytest.approx(ticks[0] * 1e-9) and row.max_s == pytest.approx(ticks[-1] * 1e-9)
                assert row.p50_s == pytest.approx(ticks[int(np.ceil(0.5 * len(ticks))) - 1] * 1e-9, rel=row.p_u + 1e-12)
            assert (row.p99_s is None) == (len(ticks) < 377)
            if row.p99_s is not None:
                assert row.p99_s == pytest.approx(ticks[int(np.ceil(0.99 * len(ticks))) - 1] * 1e-9, rel=row.p_u + 1e-12)
            approximate += row.p_u > 0
    assert approximate, "some spans were answered from the pyramid"


def test_histogram_of_latencies(busy: Zoom) -> None:
    rows = truth(busy).filter(pl.col("good") & pl.col("timed"))
    for begin, end in spans(busy, 12):
        inside = rows.filter((pl.col("cqe_tick") >= begin) & (pl.col("cqe_tick") < end))
        edges, counts = busy.latencies(begin, end, 40)
        assert counts.sum() == len(inside) and len(counts) <= 40
        if len(inside):
            assert edges[0] <= (inside["cqe_tick"] - inside["start"]).min() * 1e-9 * 1.0001
            assert edges[-1] >= (inside["cqe_tick"] - inside["start"]).max() * 1e-9 * 0.9999


@pytest.mark.parametrize("wanted, expression", CHOICES)
@pytest.mark.parametrize("forward", [True, False])
def test_search_meets_every_command_once(busy: Zoom, wanted: CommandFilter, expression: pl.Expr, forward: bool) -> None:
    order = truth(busy).filter(expression).sort("start", "index", descending=not forward)
    at, beside = (busy.bounds[0] - 1, None) if forward else (busy.bounds[1], None)
    for start, index in order.select("start", "index").head(40).iter_rows():
        row = find_command(busy.commands, at, forward, wanted, beside)
        assert row is not None and (row["start_tick"], row["index"]) == (start, index)
        at, beside = start, index
    if len(order):
        start, index = order.select("start", "index").row(-1)
        assert find_command(busy.commands, start, forward, wanted, index) is None


def test_search_by_block(busy: Zoom) -> None:
    row = truth(busy).filter((pl.col("opcode") == 2) & (pl.col("qid") > 0) & (pl.col("flags") == 0)).row(1234, named=True)
    found = find_command(busy.commands, busy.bounds[0] - 1, True, CommandFilter(slba=row["slba"] + row["blocks"] - 1))
    assert found is not None and found["index"] == row["index"]
    assert find_command(busy.commands, busy.bounds[0] - 1, True, CommandFilter(slba=1 << 50)) is None


@pytest.mark.parametrize("forward", [True, False])
def test_wake_ups_are_the_times_without_a_command_in_flight(busy: Zoom, forward: bool) -> None:
    rows = truth(busy)
    short = rows.with_columns(pl.when(pl.col("end") - pl.col("start") > 10**9).then("end").otherwise("start").alias("begin")).sort("begin")
    ended = short["end"].cum_max().to_numpy()
    begin = short["begin"].to_numpy()
    idle = [(int(a), int(b)) for a, b in zip(ended[:-1], begin[1:]) if b - a >= 20_000_000]
    assert len(idle) > 20
    at = busy.bounds[0] - 1 if forward else busy.bounds[1] + 1
    met = []
    while (found := find_wake_up(busy.commands, at, forward, 20_000_000)) is not None:
        met.append(found)
        at = found[1]
    assert met == (idle if forward else idle[::-1])
