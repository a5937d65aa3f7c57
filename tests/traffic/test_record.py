"""A long draw that ends early goes on where it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.traffic import record as recording
from tests.traffic.judge import Verdict
from tests.traffic.record import Record
from tests.traffic.session import Draw, Table, run

DRAW = Draw(77, ("base", "queues", "data_ca"), size=20)
COMMANDS = 500


def test_a_draw_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Its table equals one that was drawn at once, and no block is drawn twice, though the last line was cut short."""
    whole = run(COMMANDS, DRAW)
    first = Record(tmp_path, replace(DRAW, seed=0), DRAW.seed)
    blocks: list[int] = []

    def until_the_second(number: int, table: Table) -> None:
        first.count(number, table)
        if number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(COMMANDS, DRAW, count=until_the_second)
    first.path.write_bytes(first.path.read_bytes()[:-20])
    again = Record(tmp_path, DRAW, DRAW.seed)
    assert again.path == first.path and list(again.done) == [0]

    def count(number: int, table: Table) -> None:
        blocks.append(number)
        again.count(number, table)

    rest = run(COMMANDS, DRAW, done=again.done, count=count)
    assert list(rest.lines()) == list(whole.lines()) and (rest.failed, rest.traces, rest.supported) == (
        whole.failed,
        whole.traces,
        whole.supported,
    )
    assert blocks == list(range(1, whole.traces // 8))
    third = Record(tmp_path, DRAW, DRAW.seed)
    assert list(run(COMMANDS, DRAW, done=third.done).lines()) == list(whole.lines()) and len(third.done) == len(blocks) + 1


def test_a_seed_by_chance_is_kept(tmp_path: Path) -> None:
    """A draw without a seed goes on with the seed of the file; a draw with one has a file of its own."""
    one, two, other = (Record(tmp_path, DRAW, seed) for seed in (None, None, 5))
    assert one.seed == two.seed and one.path == two.path != other.path and other.seed == 5


def test_a_block_with_faults_comes_back_whole(tmp_path: Path) -> None:
    """Counts, the names of wrong instants, and the seeds of silent faults."""
    verdict = Verdict(right=3, wrong=2, names=Counter({"cqe": 2, "head": 1}))
    block = Table({"base": verdict}, {"base": [77]}, verdict, traces=8, commands=5)
    Record(tmp_path, DRAW, DRAW.seed).count(4, block)
    assert Record(tmp_path, DRAW, DRAW.seed).done == {4: block}


def test_another_judge_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file counts for the code that made it."""
    monkeypatch.setattr(recording, "digest", lambda fidelity: "000000000000")
    before = Record(tmp_path, DRAW, 5)
    monkeypatch.undo()
    assert Record(tmp_path, DRAW, 5).path != before.path and Record(tmp_path, replace(DRAW, fidelity="rtl"), 5).path != before.path
