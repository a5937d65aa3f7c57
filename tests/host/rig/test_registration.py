"""A virtual rig's registration is trusted by its types, its owner and its folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.errors import RigError
from wattbell.rig import discovery

from tests.host.fuzzing import examples


def register(folder: Path, serial: str) -> None:
    (folder / "rigs").mkdir(exist_ok=True, mode=0o700)
    entry = {"serial": serial, "data": "/dev/null", "control": "/dev/null", "pid": os.getpid()}
    (folder / "rigs" / f"{serial}.json").write_text(json.dumps(entry))
    (folder / "rigs" / f"{serial}.json").chmod(0o600)


@pytest.mark.parametrize(
    "change",
    [
        {"pid": 2**31},
        {"pid": 10**30},
        {"pid": -1},
        {"pid": 0},
        {"pid": "1"},
        {"pid": True},
        {"pid": 1.5},
        {"pid": None},
        {"serial": ""},
        {"serial": 7},
        {"serial": "x" * 1000},
        {"data": None},
        {"data": ["/dev/null"]},
        {"control": {}},
        {"status": 3},
    ],
    ids=str,
)
def test_a_registration_of_the_wrong_types_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    monkeypatch.setenv("WATTBELL_RUNTIME", str(tmp_path))
    register(tmp_path, "A")
    entry = {"serial": "B", "data": "/dev/null", "control": "/dev/null", "pid": os.getpid(), **change}
    (tmp_path / "rigs" / "B.json").write_text(json.dumps(entry))
    assert [port.serial for port in discovery.virtual_rigs()] == ["A"]


def test_a_registration_that_is_no_file_of_ours_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATTBELL_RUNTIME", str(tmp_path))
    register(tmp_path, "A")
    rigs = tmp_path / "rigs"
    good = (rigs / "A.json").read_text()
    (tmp_path / "elsewhere.json").write_text(good.replace('"A"', '"LINK"'))
    (rigs / "link.json").symlink_to(tmp_path / "elsewhere.json")
    (rigs / "folder.json").mkdir()
    os.mkfifo(rigs / "pipe.json")
    (rigs / "large.json").write_text(good.replace('"A"', '"LARGE"') + " " * (1 << 17))
    (rigs / "shared.json").write_text(good.replace('"A"', '"SHARED"'))
    (rigs / "shared.json").chmod(0o666)
    assert [port.serial for port in discovery.virtual_rigs()] == ["A"]


@pytest.mark.parametrize(("folder", "mode"), [("", 0o777), ("", 0o1777), ("rigs", 0o770), ("rigs", 0o702)])
def test_a_folder_that_others_can_write_holds_no_rigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, mode: int) -> None:
    monkeypatch.setenv("WATTBELL_RUNTIME", str(tmp_path))
    register(tmp_path, "A")
    assert discovery.refused() is None
    (tmp_path / folder).chmod(mode)
    assert discovery.virtual_rigs() == []
    with pytest.raises(RigError, match=f"{(tmp_path / folder)} can be written by others; `chmod go-w` it"):
        discovery.find()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_another_user_registered_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATTBELL_RUNTIME", str(tmp_path))
    register(tmp_path, "A")
    register(tmp_path, "B")
    os.chown(tmp_path / "rigs" / "B.json", 12345, -1)
    assert [port.serial for port in discovery.virtual_rigs()] == ["A"]
    os.chown(tmp_path / "rigs", 12345, -1)
    assert discovery.virtual_rigs() == []
    with pytest.raises(RigError, match="belongs to user 12345; set WATTBELL_RUNTIME"):
        discovery.find("A")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("/dev/null") | st.just(os.getpid()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["serial", "data", "control", "pid", "status"])


@examples(300)
@given(entry=st.dictionaries(KEYS, JSON), data=st.binary(max_size=40), cut=st.integers(0, 200))
def test_any_registration_is_taken_or_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], data: bytes, cut: int
) -> None:
    monkeypatch.setenv("WATTBELL_RUNTIME", str(tmp_path))
    (tmp_path / "rigs").mkdir(exist_ok=True)
    whole = json.dumps({"serial": "A", "data": "/dev/null", "control": "/dev/null", "pid": os.getpid(), **entry}).encode()
    (tmp_path / "rigs" / "a.json").write_bytes(whole[:cut] + data + whole[cut:])
    for port in discovery.virtual_rigs():
        assert port.serial and os.path.exists(port.data) and port.control
        assert isinstance(port.pid, int) and 0 < port.pid < 2**31
