"""Captures that are not as they should be: one clear line, or an honest picture of the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from wattbell.capture import CaptureWriter, hashes, meta
from wattbell.errors import CaptureError, UsageError
from wattbell.view.server import make_app
from wattbell.view.shown import Shown, align
from wattbell.zoom import pyramid

from tests.host.conftest import MS, Builder
from tests.host.view.conftest import MARKUP, build

NAMES = ("capture", "rail", "load", "commands", "events", "levels", "gaps", "span", "figures", "energy")


def told(shown: Shown) -> dict[str, Any]:
    """Every answer about a capture, which is a line of an error where there is nothing to tell."""
    client = TestClient(make_app([shown], "t" * 32), base_url="http://127.0.0.1")
    found = {}
    for name in (*NAMES, "find?what=command", "find?what=wake-up", "find?what=phase", "histogram?of=power", "histogram?of=latency"):
        answer = client.get(f"/{'t' * 32}/api/0/{name}")
        assert answer.status_code in (200, 409), (name, answer.text[:300])
        found[name] = answer.json()
        if answer.status_code == 409:
            assert "\n" not in found[name]["error"] and "bug" not in found[name]["error"]
    return found


def test_without_a_rail(tmp_path: Path) -> None:
    made = Builder(tmp_path / "capture")
    made.phase(1, 10 * MS, 20 * MS, "only")
    made.command(11 * MS, 100_000)
    made.write()
    found = told(Shown(tmp_path / "capture"))
    assert found["capture"]["has"]["rail"] is False and found["capture"]["rail"] is None
    assert found["rail"]["error"] == "The capture has no rail." and found["span"]["power"] is None
    assert sum(found["load"]["iops"]) > 0


def test_without_commands_and_phases(tmp_path: Path) -> None:
    made = Builder(tmp_path / "capture")
    made.power(0, 1.5)
    made.write(50 * MS)
    found = told(Shown(tmp_path / "capture"))
    assert found["capture"]["has"]["commands"] is False and found["capture"]["phases"] == [] and found["capture"]["classes"] == []
    assert found["commands"]["count"] == 0 and found["commands"]["rows"]["cqe"] == [] and found["find?what=command"] is None
    assert found["load"]["iops"].count(0.0) == len(found["load"]["iops"]) and found["span"]["commands"] == []
    assert found["span"]["power"]["mean"] == pytest.approx(1.5, rel=1e-4)


def test_without_anything(tmp_path: Path) -> None:
    Builder(tmp_path / "capture").write()
    found = told(Shown(tmp_path / "capture"))
    assert found["capture"]["end"] == 0 and found["capture"]["has"]["rail"] is False


def test_being_written_by_a_recorder_without_a_live_summary(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "capture") as writer:
        writer.journal_append(b"")
        with pytest.raises(CaptureError, match="being recorded"):
            Shown(tmp_path / "capture")


@pytest.mark.parametrize("name", ["commands.parquet", "rail.jls", "events.parquet", "gaps.parquet", "meta.json"])
@pytest.mark.parametrize("sealed", [True, False])
def test_a_file_that_is_cut(tmp_path: Path, name: str, sealed: bool) -> None:
    build(tmp_path / "capture").write(1000 * MS, lba=4096)
    path = tmp_path / "capture" / name
    if not sealed:
        about = meta.load(tmp_path / "capture")
        del about["files"]
        meta.save(tmp_path / "capture", about)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(CaptureError) as error:
        shown = Shown(tmp_path / "capture")
        answers = TestClient(make_app([shown], "t" * 32), base_url="http://127.0.0.1")
        answer = answers.get(f"/{'t' * 32}/api/0/capture")  # what is read only when it is asked for
        assert answer.status_code == 500 and "bug" not in answer.json()["error"]
        raise CaptureError(answer.json()["error"])
    assert name in str(error.value) and "\n" not in str(error.value)


def test_rebuilt(tmp_path: Path) -> None:
    build(tmp_path / "capture").write(1000 * MS, lba=4096)
    about = meta.load(tmp_path / "capture")
    about["state"] = "recovered"
    meta.save(tmp_path / "capture", about)
    assert told(Shown(tmp_path / "capture"))["capture"]["state"] == "recovered"


def test_of_another_version(tmp_path: Path) -> None:
    build(tmp_path / "capture").write(1000 * MS)
    path = tmp_path / "capture" / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 0}))
    with pytest.raises(CaptureError, match="capture format 0"):
        Shown(tmp_path / "capture")


def test_not_a_capture(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="not a directory"):
        Shown(tmp_path / "nothing")
    with pytest.raises(CaptureError, match="not a capture"):
        Shown(tmp_path)


def test_the_pyramid_of_another_capture_or_a_damaged_one_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyramid, "SMALL", 1)
    build(tmp_path / "one").write(1000 * MS)
    expected = told(Shown(tmp_path / "one"))
    path = tmp_path / "one" / pyramid.NAME
    whole = path.read_bytes()
    other = build(tmp_path / "two")  # as many commands
    other.command(500_000, 50)
    del other.rows[20]
    other.write(1000 * MS)
    Shown(tmp_path / "two")
    for bad in ((tmp_path / "two" / pyramid.NAME).read_bytes(), whole[: len(whole) // 2], b"", b"ARROW1\0\0" + b"\0" * 5000):
        path.write_bytes(bad)
        assert told(Shown(tmp_path / "one")) == expected
        assert path.read_bytes() == whole
    path.unlink()
    path.symlink_to(tmp_path / "mine")  # in a stranger's capture
    Shown(tmp_path / "one")
    assert not (tmp_path / "mine").exists() and path.read_bytes() == whole


def test_the_pyramid_is_no_part_of_what_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyramid, "SMALL", 1)
    build(tmp_path / "capture").write(1000 * MS)
    before = (tmp_path / "capture" / "meta.json").read_bytes()
    Shown(tmp_path / "capture")
    assert (tmp_path / "capture" / pyramid.NAME).exists()
    assert (tmp_path / "capture" / "meta.json").read_bytes() == before
    assert pyramid.NAME not in set(hashes.names(tmp_path / "capture"))


def test_a_capture_that_may_only_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyramid, "SMALL", 1)
    build(tmp_path / "capture").write(1000 * MS)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pyramid.tempfile, "NamedTemporaryFile", refuse)
    assert told(Shown(tmp_path / "capture"))["commands"]["count"] == 254
    assert not (tmp_path / "capture" / pyramid.NAME).exists()


def test_captures_are_laid_over_one_another(tmp_path: Path) -> None:
    for name, late in (("one", 0), ("two", 37 * MS)):
        made = Builder(tmp_path / name)
        made.power(0, 1)
        made.phase(1, 50 * MS + late, 90 * MS + late, MARKUP)
        made.write(200 * MS)
    shown = [Shown(tmp_path / "one"), Shown(tmp_path / "two")]
    for at in (MARKUP, "1", "marker"):
        align(shown, at)
        assert [one.align_ticks for one in shown] == [0, 37 * MS]
    with pytest.raises(UsageError, match="no phase and no event"):
        align(shown, "reads")


def test_the_command_says_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wattbell", "view", str(tmp_path / "nothing"), "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and "not a directory" in done.stderr
