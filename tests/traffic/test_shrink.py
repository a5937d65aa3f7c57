"""A failing trace becomes small, and the program names its draws."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.traffic import session
from tests.traffic.__main__ import main
from tests.traffic.generate import Traffic, generate
from tests.traffic.judge import Fault, Stream, Verdict, judge
from tests.traffic.kinds import draw
from tests.traffic.link import decode
from tests.traffic.shrink import cut, shrink
from tests.traffic.truth import Deed


def test_shrink_keeps_the_fault_and_little_else() -> None:
    """A verdict that dislikes every write of 16 KiB: one such command is left, at the trace's end."""

    def dislikes(traffic: Traffic, folder: Path, fidelity: str) -> Verdict:
        bad = [deed for deed in traffic.deeds if deed.qid and deed.opcode == 1 and deed.blocks == 32 and deed.cqe]
        return Verdict(right=len(traffic.deeds) - len(bad), wrong=len(bad), faults=[Fault("wrong", deed, None) for deed in bad])

    setup = replace(draw(3, ("one_queue",), 300), lengths=(4096, 16384))
    small = shrink(generate(setup), judged=dislikes)
    assert len([deed for deed in small.deeds if deed.blocks == 32 and deed.qid and deed.opcode == 1 and deed.cqe]) == 1
    assert len(small.deeds) < 60


def test_cut_has_nothing_behind_its_end() -> None:
    """Records and instants end at the cut; commands that have not begun are gone."""
    traffic = generate(draw(3, ("one_queue",), 50))
    end = sorted(deed.cqe for deed in traffic.deeds if deed.cqe)[30]
    part = cut(traffic, end)
    assert max(record[0] for record in part.records) == end
    assert sum(deed.cqe is not None for deed in part.deeds) == 31
    assert len(part.deeds) < len(traffic.deeds)


def test_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints seed and table, and writes the smallest failing trace with its truth. A judge with another truth finds the fault."""
    arguments = ["--commands", "60", "--seed", "900", "--kinds", "base", "--size", "60", "--smallest", str(tmp_path / "small.wbt")]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 900\n") and "| base |" in said and "0.000% of" in said
    assert not list(tmp_path.iterdir())

    def late(deeds: list[Deed], stream: Stream) -> Verdict:
        return judge([replace(deed, cqe=deed.cqe and deed.cqe + 1_000_000) if deed.opcode == 1 else deed for deed in deeds], stream)

    monkeypatch.setattr(session, "judge", late)
    assert main([*arguments, "--show", "1"]) == 1
    said, wrong = capsys.readouterr()
    assert "seed 900, base: wrong: SQ " in said and "base has silent faults: seeds 900" in wrong
    truth = json.loads((tmp_path / "small.truth.json").read_text())
    assert truth["kinds"] == ["base"]
    assert len(decode(tmp_path / "small.wbt")) > 20


def test_an_unknown_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the kind and where to find the names."""
    with pytest.raises(SystemExit):
        main(["--kinds", "base,nonsense"])
    assert "no such kind: nonsense; --list names them" in capsys.readouterr().err
