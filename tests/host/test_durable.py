"""Names that change in one step. tests/faults/test_power_cut.py has the disk's side."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from wattbell import durable


def test_a_file_that_fails_half_way_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.vcd").write_text("old")
    with pytest.raises(OSError, match="half"), durable.replacing(tmp_path / "a.vcd") as made:
        made.write_text("ne")
        raise OSError("half")
    assert (tmp_path / "a.vcd").read_text() == "old" and os.listdir(tmp_path) == ["a.vcd"]
    with durable.replacing(tmp_path / "a.vcd") as made:
        assert made.suffix == ".vcd"
        made.write_text("new")
    assert (tmp_path / "a.vcd").read_text() == "new" and os.listdir(tmp_path) == ["a.vcd"]


class _Libc:
    """A kernel or file system that cannot exchange names."""

    def renameat2(self, *_: object) -> int:
        ctypes.set_errno(22)
        return -1


@pytest.mark.parametrize("libc", [None, _Libc(), object()], ids=["this kernel", "a file system without", "a library without"])
def test_two_folders_change_places(libc: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if libc is not None:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_args, **_more: libc)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "is").write_text(name)
    durable.exchange(tmp_path / "one", tmp_path / "two")
    assert [(tmp_path / name / "is").read_text() for name in ("one", "two")] == ["two", "one"]
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_a_swap_with_something_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with pytest.raises(FileNotFoundError):
        durable.exchange(tmp_path / "one", tmp_path / "two")
    assert os.listdir(tmp_path) == ["one"]


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    durable.make_folder(tmp_path / "a/b/c")
    durable.make_folder(tmp_path / "a/b/c")
    assert (tmp_path / "a/b/c").is_dir()
