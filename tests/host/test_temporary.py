"""Temporary folders: a folder without its process goes, a folder in use or not ours stays."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from wattbell import temporary

HOLD = "import sys; from wattbell import temporary\nwith temporary.folder() as path:\n    print(path, flush=True); sys.stdin.read()"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_with_what_it_holds(place: Path) -> None:
    with temporary.folder() as path, temporary.folder() as other:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700 and path.parent == place and path != other
        (path / "a").mkdir()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("step", ["mkdir", "open", "flock"])
def test_an_interrupt_while_it_is_made_leaves_nothing(place: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises a signal once the step is done."""
    owner = {"mkdir": Path, "open": os, "flock": fcntl}[step]
    does = getattr(owner, step)

    def interrupted(*arguments: Any, **options: Any) -> None:
        does(*arguments, **options)
        monkeypatch.undo()  # the removal is not interrupted again
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, step, interrupted)
    with pytest.raises(KeyboardInterrupt), temporary.folder():
        pytest.fail("it was not interrupted")
    assert list(place.iterdir()) == []


def test_a_killed_process_leaves_nothing_for_long(place: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        theirs = Path(process.stdout.readline().strip())
        (theirs / "file").write_text("x")
        with temporary.folder():
            assert theirs.is_dir(), "in use"
        process.kill()
        process.wait()
        assert theirs.is_dir()
        with temporary.folder():
            assert not theirs.exists()


def test_links_files_and_folders_of_other_names_stay(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").touch()
    (place / "wattbell-temporary-link").symlink_to(elsewhere)
    (place / "wattbell-temporary-file").touch()
    (place / f"wattbell-{os.geteuid()}").mkdir()
    before = sorted(place.iterdir())
    with temporary.folder():
        pass
    assert sorted(place.iterdir()) == before and (elsewhere / "kept").exists()
