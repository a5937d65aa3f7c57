"""Results from commands, taken piece by piece, do not depend on where the pieces end."""

import random

import numpy as np
import polars as pl
import pytest
from wattbell.analysis import analyze, commandclass
from wattbell.analysis.alone import lone_commands
from wattbell.analysis.command_stats import tabulate
from wattbell.analysis.context import load
from wattbell.capture.marking import BY_FEATURE
from wattbell.measure import table
from wattbell.measure.depth import depth_of
from wattbell.measure.errormodel import ErrorModel
from wattbell.measure.table import load_apart
from wattbell_spec.wire import CommandFlag

MS = 1_000_000


@pytest.fixture
def busy(builder):
    """A phase of random reads and writes of three sizes in both orders, some lone, one that lasts over many others, some without doorbell
    or completion, idle times and event requests between."""
    chance = random.Random(5)
    builder.power(0, 1.0)
    builder.phase(1, 1 * MS, 900 * MS, "mixed")
    builder.command(3 * MS, 500_000, opcode=0x0C, qid=0)
    tick, slba = 2 * MS, 0
    for number in range(300):
        more = {"opcode": chance.choice((1, 2, 2)), "blocks": chance.choice((8, 8, 32, 256)), "slba": slba if number % 3 else 7 * number}
        if number % 40 == 7:
            more["flags"] = int(chance.choice((CommandFlag.ABORTED, CommandFlag.GUESS, CommandFlag.NO_SQE)))
        if number % 50 == 9:
            more["status"] = 0x281
        slba = more["slba"] + more["blocks"]
        builder.command(tick, 90 * MS if number == 120 else chance.randrange(20_000, 400_000), **more)
        tick += 30 * MS if number % 60 == 59 else 5 * MS if number % 17 in (3, 4) else chance.randrange(0, 200_000)
    return builder.write(1000 * MS)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_an_analysis_is_the_same_whatever_the_pieces(busy, monkeypatch, rows):
    whole = analyze(busy)
    assert whole["alone"]["classes"], "some stand alone"
    assert len(whole["commands"]["by_size"]) == 3
    monkeypatch.setattr(table, "PIECE_ROWS", rows)
    monkeypatch.setattr(commandclass, "PIECE_ROWS", rows)
    assert analyze(busy) == whole


@pytest.mark.parametrize("rows", [3, 1000])
def test_lone_commands_are_those_with_quiet_on_both_sides(busy, monkeypatch, rows):
    monkeypatch.setattr(table, "PIECE_ROWS", rows)
    context = load(busy)
    io = [i for i in range(301) if context.commands.qid[i] and not context.commands.flags[i] & int(CommandFlag.NO_SQE)]
    starts, ends = context.commands.start_tick, np.maximum(context.commands.cqe_tick, context.commands.start_tick)
    expected = []
    for k, i in enumerate(io):
        before = max((int(ends[j]) for j in io[:k]), default=context.first_tick)
        after = int(starts[io[k + 1]]) if k + 1 < len(io) else context.last_tick
        if starts[i] - before >= 2 * MS and after - max(before, int(ends[i])) >= 2 * MS:
            expected += [] if context.commands.flags[i] & int(CommandFlag.ABORTED) else [i]
    assert len(expected) > 10
    assert lone_commands(context).tolist() == expected


def test_a_subset_s_pieces_are_the_subset(busy, monkeypatch):
    monkeypatch.setattr(table, "PIECE_ROWS", 10)
    commands, markers = load_apart(busy.commands, {0: 512}, BY_FEATURE)
    assert len(markers) == 2 and len(commands) == 301
    odd = commands.take(np.arange(1, 301, 2))
    _ = odd.nbytes  # one of the columns is in memory already
    pieces = list(odd.pieces())
    assert [len(piece) for piece in pieces] == [10] * 15
    for name in ("nbytes", "cqe_tick", "status"):
        assert np.array_equal(np.concatenate([getattr(piece, name) for piece in pieces]), getattr(commands, name)[1::2])


def test_depth_at_a_start_counts_itself_and_none_that_is_over(busy):
    commands, _ = load_apart(busy.commands, {0: 512}, BY_FEATURE)
    start, end = commands.start_tick, np.maximum(commands.cqe_tick, commands.start_tick)
    expected = [sum(e > s for e in end[: i + 1].tolist()) for i, s in enumerate(start.tolist())]
    assert depth_of(commands).at_start.tolist() == expected


def test_groups_that_have_one_opcode_for_a_size_are_those_counted_anew(busy):
    """A size that only one opcode has takes the figures of that opcode and size."""
    commands, _ = load_apart(busy.commands, {0: 512}, BY_FEATURE)
    for keep in (commands.opcode > 0, (commands.opcode == 2) != (commands.nbytes == 4096)):
        mine = commands.take(np.flatnonzero(keep & (commands.qid > 0)))
        made = tabulate(mine, 1e-9, ErrorModel())
        sized = mine.take(~mine.has(CommandFlag.NO_SQE))
        for size, group in made["by_size"].items():
            alone = sized.take(sized.nbytes == int(size))
            again = tabulate(alone, 1e-9, ErrorModel())["all"]
            assert group == {key: value for key, value in again.items() if key not in ("flags", "splits_s")}


def test_instants_in_any_order_come_sorted_by_start(busy):
    shuffled = busy.commands.collect().sample(fraction=1.0, shuffle=True, seed=1)
    commands, markers = load_apart(shuffled.lazy(), {0: 512}, BY_FEATURE)
    straight, _ = load_apart(busy.commands, {0: 512}, BY_FEATURE)
    assert (np.diff(commands.start_tick) >= 0).all() and (markers.qid == 0).all()
    assert np.array_equal(np.sort(commands.cqe_tick), np.sort(straight.cqe_tick))
    assert pl.Series(commands.slba).sum() == pl.Series(straight.slba).sum()
