"""Changes that a dry run announces, against changes by a run, on the same tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wattbell.drive.rehearsal import Rehearsal
from wattbell.drive.settings import HostSettings
from wattbell.errors import DriveError
from wattbell.suites.step import Step

from tests.host.drive.slot import DRIVE, PORT, Slot

STEPS = [Step(name="a", idle_s=1.0, apst=True, aspm="l1"), Step(name="b", idle_s=1.0, ps=1, write_cache=False)]


def bench(root: Path) -> tuple[Slot, dict[str, Path], str]:
    """A slot, the files of sysfs that a run changes, and an nvme that has feature values and writes down its arguments."""
    slot = Slot(root)
    files = {
        "nomerges": slot.sys / "class/block/nvme9n1/queue/nomerges",
        "scheduler": slot.sys / "class/block/nvme9n1/queue/scheduler",
        "latency": slot.sys / "class/nvme/nvme9/power/pm_qos_latency_tolerance_us",
    }
    for name, text in {"nomerges": "0", "scheduler": "[mq-deadline] none", "latency": "25000"}.items():
        files[name].parent.mkdir(parents=True, exist_ok=True)
        files[name].write_text(f"{text}\n")
    nvme = root / "nvme"
    nvme.write_text(f'#!/bin/sh\necho "$1" >> {root}/asked\necho "value:00000001"\n')
    nvme.chmod(0o755)
    return slot, files, str(nvme)


def tree(slot: Slot) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in slot.sys.rglob("*") if path.is_file()}


def test_a_rehearsal_names_all_that_a_run_changes_and_changes_nothing(tmp_path: Path) -> None:
    slot, files, nvme = bench(tmp_path)
    before = tree(slot)
    rehearsal = Rehearsal(slot.device, slot.tools(nvme=nvme), slot.sys)
    rehearsal.rehearse(STEPS, link_speed_gt_s=5.0)
    assert tree(slot) == before
    assert set((tmp_path / "asked").read_text().split()) == {"get-feature"}
    assert "=" not in slot.log.read_text(), "setpci only reads"
    told = rehearsal.told()
    assert told[str(files["nomerges"])] == ("0", ["2"]) and told[str(files["scheduler"])] == ("mq-deadline", ["none"])
    assert told[str(files["latency"])] == ("25000", ["100000", "0"])
    assert told[f"Target Link Speed of {PORT}"] == ("16 GT/s", ["5 GT/s"])
    assert told[f"ASPM Control of {DRIVE}"] == ("00b", ["10b", "00b"])
    assert "feature 02h" not in told and told["feature 06h"] == ("1", ["0"]), "power state 1 is what it has"

    with HostSettings(slot.device, slot.tools(nvme=nvme), tmp_path / "restore.json", slot.sys) as settings:
        settings.prepare()
        settings.link_speed(5.0)
        for step in STEPS:
            settings.power(apst=step.apst, aspm=step.aspm, power_state=step.ps)
            if step.write_cache is not None:
                settings.write_cache(step.write_cache)
        saved = {(setting["kind"], setting["where"]) for setting in json.loads((tmp_path / "restore.json").read_text())["saved"]}
    words = {"sysfs": "{}", "feature": "feature 0{}h", "link_speed": "Target Link Speed of {}", "setpci": "ASPM Control of {}"}
    assert {words[kind].format(where) for kind, where in saved} == set(told) | {"feature 02h"}


@pytest.mark.parametrize("more", [{"link_speed_gt_s": 3.0}, {"governor": "performance"}])
def test_what_cannot_be_set_is_an_error_before_the_run(tmp_path: Path, more: dict[str, Any]) -> None:
    slot, _, nvme = bench(tmp_path)
    with pytest.raises(DriveError):
        Rehearsal(slot.device, slot.tools(nvme=nvme), slot.sys).rehearse(STEPS, **more)


def test_a_command_changes_nothing_unless_asked(tmp_path: Path) -> None:
    slot, _, nvme = bench(tmp_path)
    for step, where in (
        (Step(name="c", command=("x",), apst=None, aspm=None), []),
        (Step(name="c", command=("x",), apst=False, aspm=None), ["latency"]),
    ):
        rehearsal = Rehearsal(slot.device, slot.tools(nvme=nvme), slot.sys)
        rehearsal.rehearse([step])
        assert [Path(path).name for path in rehearsal.told()] == (["pm_qos_latency_tolerance_us"] if where else [])
