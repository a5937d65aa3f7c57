"""`wattbell view` opens the browser without showing its address to other users, and ends on request."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.host.conftest import Builder
from tests.patience import PATIENCE_S


def wait_for(path: Path) -> str:
    for _ in range(600):
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.1)
    raise AssertionError(f"{path} did not come")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_browser_is_led_to_the_page_by_a_private_file(tmp_path: Path, how: signal.Signals) -> None:
    made = Builder(tmp_path / "capture")
    made.power(0, 1)
    made.write(1_000_000)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told.new && mv {tmp_path}/told.new {tmp_path}/told\n')
    browser.chmod(0o700)
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "BROWSER": f"{browser} %s", "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-m", "wattbell", "view", str(tmp_path / "capture")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        told = wait_for(tmp_path / "told").strip()
        assert url.split("/")[3] not in told and told.startswith("file://")
        page = Path(told.removeprefix("file://"))
        assert url in page.read_text()
        assert stat.S_IMODE(page.stat().st_mode) == 0o600 and stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        with urllib.request.urlopen(f"{url}api/0/capture", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
    finally:
        process.send_signal(how)
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert not page.exists() and list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("there", ["file", "folder"])
def test_a_folder_that_is_in_use_is_refused_without_advice_that_does_not_apply(tmp_path: Path, there: str) -> None:
    """`wattbell record` has --force; `wattbell view` has not."""
    place = tmp_path / "out"
    if there == "folder":
        place.mkdir()
        (place / "notes").write_text("mine")
    else:
        place.write_text("mine")
    command = [sys.executable, "-m", "wattbell", "view", "/dev/null", "--out", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = " ".join(done.stderr.split())
    assert done.returncode == 2 and "exists already" in told and "another folder with --out" in told
    assert "--force" not in told and "Traceback" not in told
    assert (place / "notes" if there == "folder" else place).read_text() == "mine"
