"""Figures of a recording while it goes on, and its log."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from wattbell.capture import CaptureWriter, blocks, open_capture
from wattbell.capture.live import Latest
from wattbell.capture.record import Progress
from wattbell.capture.statistics import COLUMNS
from wattbell.cli import console, livefigures
from wattbell.cli.livefigures import Figures, Looking, clock
from wattbell.errors import UsageError

SECOND = 1_000_000_000
LATEST = Latest(
    tick=3 * SECOND,
    seconds=3.0,
    w=2.34567,
    a=0.71083,
    v=3.29987,
    read_mb_per_s=1567.6,
    write_mb_per_s=428.99,
    iops=130_201.4,
    depth=31.97,
    p99_s=98.3e-6,
    energy_j=29.61,
    charge_c=9.0,
    missing_s=0.0,
    read_bytes=1e9,
    written_bytes=1e9,
    commands=12_345_678,
    samples=3_000_000,
    lost=(),
    left_s=57.0,
    waiting=False,
    lba_size_known=True,
)


def printed(what: object, width: int) -> str:
    plain = console.PlainConsole(width=width, file=io.StringIO(), record=True)
    plain.print(what)
    return plain.export_text()


@pytest.mark.parametrize("width", range(24, 200, 9))
def test_every_figure_is_whole_at_every_width(width: int) -> None:
    text = printed(Figures(LATEST), width)
    assert max(map(cell_len, text.splitlines())) <= width
    for figure in (
        "2.346 W",
        "0.7108 A",
        "3.300 V",
        "29.61 J",
        "MB/s",
        "130\u202f201",
        "32.0",
        "98.3 µs",
        "12\u202f345\u202f678",
        "nothing lost",
    ):
        assert any(figure in line for line in text.splitlines()), figure


def test_what_is_not_recorded_is_not_shown() -> None:
    rail = printed(Figures(replace(LATEST, commands=0)), 100)
    assert "IOPS" not in rail
    assert "2.346 W" in rail
    load = printed(Figures(replace(LATEST, samples=0, w=None, a=None, v=None)), 100)
    assert " W " not in load
    assert "IOPS" in load


def test_loss_is_said() -> None:
    text = printed(Figures(replace(LATEST, lost=("3 gaps (rail)",), missing_s=0.25)), 100)
    assert "lost: 3 gaps (rail)" in text
    assert "rail missing 250.0 ms" in text
    assert "nothing lost" not in text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3725, "1:02:05")])
def test_times(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_an_unplugged_rig_and_its_return_are_told_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(console, "say", lambda text: said.append(str(text)))
    with livefigures.recording("B1") as show:
        for waiting in (False, True, True, False, False):
            show(Progress(1.0, 0, 0, 0, waiting, True, LATEST))
    assert [text.split(";")[0] for text in said] == ["Rig B1 is gone", "Rig is back"]


def fed(path: Path, attach: Any) -> None:
    """A capture of 2.5 s at 4 V and 0.5 A."""
    with CaptureWriter(path, journal=False) as writer:
        attach(writer)
        for k in range(5):
            writer.add_rail_source(blocks(k * SECOND // 2, 1_000_000, np.full(500, 4, np.float32), np.full(500, 0.5, np.float32)))
            writer.begin_live().flush()


def test_the_log_is_csv_or_json_lines(tmp_path: Path) -> None:
    for name in ("log.csv", "log.jsonl"):
        with livefigures.statistics(1.0, tmp_path / name) as attach:
            fed(tmp_path / f"{name}.capture", attach)
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert tuple(rows[0]) == tuple(lines[0]) == COLUMNS
    assert [row["time_s"] for row in rows] == ["1", "2", "2.499"]
    assert [line["energy_total_j"] for line in lines] == [2.0, 4.0, 5.0]
    assert rows[0]["power_mean_w"] == "2"
    assert (rows[0]["p99_s"], lines[0]["p99_s"]) == ("", None)


def test_a_line_is_there_as_soon_as_its_period_is_over(tmp_path: Path) -> None:
    """For whoever follows the file with ``tail -f``."""
    file = tmp_path / "log.csv"
    with livefigures.statistics(1.0, file) as attach, CaptureWriter(tmp_path / "c", journal=False) as writer:
        attach(writer)
        writer.add_rail_source(blocks(0, 1_000_000, np.full(1500, 4, np.float32), np.full(1500, 0.5, np.float32)))
        writer.begin_live().flush()
        for _ in range(10_000):
            if file.read_text().count("\n") == 2:
                break
            os.sched_yield()
        else:
            pytest.fail("only at the end")


def test_a_log_that_cannot_be_written_does_not_end_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(console, "say", lambda text: said.append(str(text)))
    with livefigures.statistics(1.0, Path("/dev/full")) as attach:
        fed(tmp_path / "c", attach)
    assert open_capture(tmp_path / "c").state == "complete"
    assert len(said) == 1
    assert "No space left" in said[0]
    with pytest.raises(UsageError, match="--statistics-out"), livefigures.statistics(1.0, tmp_path / "none" / "log.csv"):
        pass


def test_a_run_shows_what_is_recorded_below_its_folder(tmp_path: Path) -> None:
    looking = Looking(tmp_path)
    assert printed(looking, 80).strip() == ""
    looking._next = 0.0
    (tmp_path / "captures").mkdir()
    with CaptureWriter(tmp_path / "captures" / "one", journal=False) as writer:
        writer.begin_live()
        writer.add_rail_source(blocks(0, 1_000_000, np.full(1500, 4, np.float32), np.full(1500, 0.5, np.float32)))
        writer.begin_live().flush()
        assert "2.000 W" in printed(looking, 80)
    assert printed(looking, 80).strip() == ""
