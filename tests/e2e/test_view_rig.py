"""`wattbell view RIG` records the rig in a separate process, shows it meanwhile, and completes the capture when the view ends."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wattbell.capture import open_capture

from tests.e2e import stream_maker as maker
from tests.e2e.test_record import Bench, wait_for
from tests.patience import PATIENCE_S


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


def ask(url: str, name: str) -> Any:
    try:
        with urllib.request.urlopen(f"{url}api/0/{name}", timeout=PATIENCE_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def test_a_rig_is_recorded_and_shown(bench: Bench, tmp_path: Path) -> None:
    stream = b"".join(maker.stream(2000))
    bench.feeder(stream, "--rate", str(len(stream) / 60))
    view = bench.wattbell("view", "FEED1", "--out", str(tmp_path / "cap"), "--no-browser")
    assert view.stdout is not None
    url = view.stdout.readline().strip()
    assert ask(url, "capture")["state"] == "recording" and "being recorded" in ask(url, "span")["error"]
    wait_for(lambda: ask(url, "latest").get("samples"), "samples")
    assert ask(url, "rail?points=10")["power"]["mean"]
    view.send_signal(signal.SIGINT)
    _, err = view.communicate()
    assert view.returncode == 0 and "Traceback" not in err, err
    capture = open_capture(tmp_path / "cap")
    assert capture.state in ("complete", "incomplete") and capture.rail is not None
    assert not (tmp_path / "cap" / "live.bin").exists()


def test_a_rig_that_stops_is_shown_to_the_end(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(500)))
    view = bench.wattbell("view", "FEED1", "--out", str(tmp_path / "cap"), "--no-browser")
    assert view.stdout is not None
    url = view.stdout.readline().strip()
    wait_for(lambda: ask(url, "capture")["state"] == "complete", "the end")
    assert ask(url, "capture")["commands"] == 500 * maker.COMMANDS_A_BLOCK
    view.send_signal(signal.SIGINT)
    view.communicate()
    assert view.returncode == 0


def test_a_rig_that_cannot_be_recorded_is_told_of(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(1)))
    (tmp_path / "file").touch()
    view = bench.wattbell("view", "FEED1", "--out", str(tmp_path / "file" / "cap"), "--no-browser")
    out, err = view.communicate()
    assert view.returncode == 1 and out == ""
    assert err.count("error:") == 2 and "the reason stands above" in " ".join(err.split()) and "Traceback" not in err


def test_a_folder_in_use_is_refused_and_left_alone(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(b"".join(maker.stream(1)))
    (tmp_path / "cap").mkdir()
    (tmp_path / "cap" / "something").touch()
    view = bench.wattbell("view", "FEED1", "--out", str(tmp_path / "cap"), "--no-browser")
    out, err = view.communicate()
    assert view.returncode == 2 and out == "" and "name another folder" in " ".join(err.split())
    assert [file.name for file in (tmp_path / "cap").iterdir()] == ["something"]
