"""Output of nvme-cli and journals of settings: understood, or one clear error; never trusted blindly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.drive.device import Device
from wattbell.drive.identity import declared, power_states
from wattbell.drive.runner import sanitize_state
from wattbell.drive.settings import restore_left_over
from wattbell.drive.tools import Tools
from wattbell.errors import DriveError

from tests.host.capture.test_identify import controller, namespace
from tests.host.fuzzing import examples

DEVICE = Device("/dev/nvme9n1", "nvme9n1", "nvme9", "M", "S1", "F", 1 << 30, 512, "0000:01:00.0", 1)


def test_power_states_of_nvme_cli() -> None:
    said = {
        "mn": "x",
        "psds": [
            {"max_power": 400, "non-operational_state": 0},
            {"non-operational_state": 1, "entry_lat": 4000, "exit_lat": 10000},
            {"non-operational_state": True},
        ],
    }
    assert power_states(json.dumps(said)) == [(True, 0.0, 0.0), (False, 4000.0, 10000.0), (False, 0.0, 0.0)]


def test_power_states_of_nvme_cli_before_2_6_and_of_a_drive_with_odd_bytes_in_its_name() -> None:
    """``flags`` (NOPS is bit 1) in place of the two words, and control characters as they are (linux-nvme/nvme-cli#1598)."""
    assert power_states('{"sn": "S\x01\x02", "mn": "x", "psds": [{"flags": 0}, {"flags": 1}, {"flags": 3}, {"flags": 2}]}') == [
        (True, 0.0, 0.0),
        (True, 0.0, 0.0),
        (False, 0.0, 0.0),
        (False, 0.0, 0.0),
    ]


@pytest.mark.parametrize(
    "said",
    [
        '{"psds": [{"flags": 2}]}',
        '{"psds": [{"flags": 256}]}',
        '{"psds": [{"max_power": 3}]}',
        "",
        "nonsense",
        "[]",
        "{}",
        '{"psds": []}',
        '{"psds": 3}',
        '{"psds": [3]}',
        '{"psds": [{}]}',
        '{"psds": [{"non-operational_state": "0"}]}',
        '{"psds": [{"non-operational_state": 2}]}',
        '{"psds": [{"non-operational_state": 1}]}',
        '{"psds": [{"non-operational_state": NaN}]}',
        json.dumps({"psds": [{"non-operational_state": 0}] * 33}),
        "[" * 100_000,
    ],
)
def test_what_are_no_power_states_is_told(said: str) -> None:
    with pytest.raises(DriveError, match="nvme-cli 2.x") as error:
        power_states(said)
    # the user may well have it
    assert "installed" not in str(error.value)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ('{"sstat": 257}', 1),
        ('{"nvme0": {"sprog": 65535, "sstat": 2}}', 2),
        ('{"nvme0": {"sstat": {"status": 3}}}', 3),
        # nvme-cli 2.13, in the guest
        ('{"nvme0":{"sprog":65535,"sstat":{"global_erased":1,"status":"(0) NVM Subsystem has never been sanitized."}}}', 0),
        ('{"nvme0":{"sprog":3037,"sstat":{"global_erased":0,"status":"(2) Sanitize in Progress."}}}', 2),
        ('{"nvme0":{"sstat":{"status":"(1) Most Recent Sanitize Command Completed Successfully."}}}', 1),
    ],
)
def test_the_state_of_a_sanitize(said: str, state: int) -> None:
    assert sanitize_state(said) == state


@pytest.mark.parametrize(("bytes_of_it", "known"), [(4096, True), (4000, False), (0, False)])
def test_the_drive_as_it_describes_itself(tmp_path: Path, bytes_of_it: int, known: bool) -> None:
    """Raw bytes of nvme-cli; a drive that gives none is not identified, and no run ends for that."""
    (tmp_path / "id-ctrl").write_bytes(controller()[:bytes_of_it])
    (tmp_path / "id-ns").write_bytes(namespace())
    nvme = tmp_path / "nvme"
    nvme.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ -s {tmp_path}/$1 ] && cat {tmp_path}/$1\n')
    nvme.chmod(0o755)
    drive = declared(DEVICE, Tools({"nvme": str(nvme)}))
    if not known:
        assert drive is None
        return
    assert drive is not None and (drive["source"], drive["model"]) == ("nvme-cli", "INTEL SSDPEKNW010T8")
    assert [state["exit_latency_s"] for state in drive["power_states"]] == [0, 0, 0, 0.005, 0.009]
    assert drive["namespaces"][0]["lba_size_bytes"] == 4096
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["id-ctrl /dev/nvme9 --output-format=binary", "id-ns /dev/nvme9 --namespace-id=1 --output-format=binary"]


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.sampled_from(["(1) Most", "(", "(9999999999999) x"])
        | st.dictionaries(st.sampled_from(["psds", "non-operational_state", "sstat", "status", "nvme0"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@examples(300)
@given(tree=TREES, cut=st.integers(0, 9))
def test_anything_that_nvme_cli_says_is_understood_or_an_error(tree: Any, cut: int) -> None:
    said = json.dumps(tree)[: -cut or None]
    try:
        states = power_states(said)
        assert states and states[0][0]
    except DriveError as error:
        assert "nvme-cli" in str(error)
    try:
        assert 0 <= sanitize_state(said) <= 7
    except DriveError as error:
        assert "nvme-cli" in str(error)


class Left:
    """A folder of results with a journal, a sysfs, and an nvme that logs its arguments."""

    def __init__(self, root: Path) -> None:
        self.root, self.sys, self.journal = root, root / "sys", root / "out/restore.json"
        self.nomerges = self.sys / "class/block/nvme9n1/queue/nomerges"
        self.nomerges.parent.mkdir(parents=True)
        self.nomerges.write_text("2")
        self.journal.parent.mkdir()
        (root / "nvme").write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/log"\n')
        (root / "nvme").chmod(0o755)

    def restore(self, *saved: dict[str, Any], serial: str = "S1") -> bool:
        self.journal.write_text(json.dumps({"device": "/dev/nvme9n1", "serial": serial, "saved": list(saved)}))
        return self.again()

    def again(self) -> bool:
        return restore_left_over(
            self.journal, DEVICE, Tools({"nvme": str(self.root / "nvme"), "setpci": str(self.root / "nvme")}), self.sys
        )

    @property
    def log(self) -> str:
        path = self.root / "log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def test_what_a_killed_run_left_is_put_back_the_last_first(left: Left) -> None:
    assert left.restore(
        {"kind": "sysfs", "where": str(left.nomerges), "value": "0"},
        {"kind": "feature", "where": "2", "value": "0"},
        {"kind": "setpci", "where": "0000:01:00.0", "value": "0042"},
    )
    assert left.nomerges.read_text() == "0"
    assert left.log == "-s 0000:01:00.0 CAP_EXP+10.w=0042\nset-feature /dev/nvme9 -f 0x2 --value=0x0\n"
    assert not left.journal.exists() and not left.again()


@pytest.mark.parametrize(
    ("kind", "where", "value"),
    [
        ("sysfs", "VICTIM", "mine"),
        ("sysfs", "SYS/class/block/nvme9n1/queue/../../../../../victim", "mine"),
        ("sysfs", "SYS/class/block/sda/queue/scheduler", "none"),
        ("sysfs", "SYS/class/block/nvme9n1/queue/nomerges", "x\ny"),
        ("sysfs", "SYS/kernel/uevent_helper", "x"),
        ("feature", "0x80", "1"),
        ("feature", "2", "0 --force"),
        ("setpci", "0000:01:00.0 -x", "0042"),
        ("setpci", "0000:01:00.0", "0042 04.w=0"),
        ("shell", "x", "y"),
    ],
)
def test_a_journal_from_elsewhere_changes_nothing(left: Left, kind: str, where: str, value: str) -> None:
    victim = left.root / "victim"
    victim.write_text("yours")
    path = where.replace("VICTIM", str(victim)).replace("SYS", str(left.sys))
    with pytest.raises(DriveError, match="which no run changes"):
        left.restore({"kind": "sysfs", "where": str(left.nomerges), "value": "0"}, {"kind": kind, "where": path, "value": value})
    assert (victim.read_text(), left.nomerges.read_text(), left.log) == ("yours", "2", "")
    assert left.journal.exists()


@pytest.mark.parametrize("serial", ["S2", ""])
def test_a_journal_of_another_drive_is_refused(left: Left, serial: str) -> None:
    with pytest.raises(DriveError, match="not S1"):
        left.restore({"kind": "sysfs", "where": str(left.nomerges), "value": "0"}, serial=serial)
    assert left.nomerges.read_text() == "2"


@examples(200)
@given(content=st.binary(max_size=40) | TREES.map(lambda tree: json.dumps({"device": "d", "serial": "S1", "saved": tree}).encode()))
def test_a_damaged_journal_is_told(tmp_path: Path, content: bytes) -> None:
    journal = tmp_path / "restore.json"
    journal.write_bytes(content)
    try:
        assert restore_left_over(journal, DEVICE, Tools({}), tmp_path / "sys")
    except DriveError as error:
        assert "restore.json" in str(error)


def test_one_setting_that_cannot_be_put_back_does_not_keep_the_others(left: Left) -> None:
    gone = left.sys / "class/block/nvme9n1/queue/scheduler"
    gone.mkdir()  # takes no text
    with pytest.raises(DriveError, match=r"scheduler = none.*listed in .*restore\.json"):
        left.restore({"kind": "sysfs", "where": str(left.nomerges), "value": "0"}, {"kind": "sysfs", "where": str(gone), "value": "none"})
    assert left.nomerges.read_text() == "0"
    assert left.journal.exists()
