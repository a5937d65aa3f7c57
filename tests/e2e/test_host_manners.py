"""Hosts and drives with other manners on the virtual rig: SGLs, polled queues, lists that are read too far, function level resets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wattbell.analysis.bystanders import bystanders
from wattbell.capture import Capture, open_capture
from wattbell_spec.wire import CommandFlag

from tests.e2e.virtual import MARKS, finished, wattbell
from tests.sim.ssd.second_account import profile_tables, profile_text

pytestmark = MARKS
JOBS = """[global]
ioengine=libaio
direct=1
size=256m
iodepth=4
stonewall
[pages]
rw=randrw
bs=4k
number_ios=60
[lists]
rw=randrw
bsrange=12k-128k
number_ios=60
"""


def recorded(folder: Path, fidelity: str, keys: str = "", steps: str = "", **figures: dict[str, Any]) -> tuple[Any, Capture]:
    """Run the jobs on a drive with other ``figures``, under a host with the plan's ``keys``, with more ``steps``."""
    tables = profile_tables("intel-660p-1tb")
    for table, changed in figures.items():
        tables.setdefault(table, {}).update(changed)
    (folder / "drive.toml").write_text(profile_text(tables))
    (folder / "jobs.fio").write_text(JOBS)
    (folder / "plan.toml").write_text(f'{keys}\n[[step]]\nfio = "jobs.fio"\n{steps}')
    out = folder / "capture"
    command = ("run", folder / "plan.toml", "--virtual", folder / "drive.toml", "--fidelity", fidelity, "--out", out, "--json")
    result = json.loads(finished(wattbell(folder, *command, "--interval", "1e-5"))[0])
    return result["truth"]["commands"], open_capture(out)


def records_are_right(truth: Any, capture: Capture) -> None:
    assert truth["pass"] and truth["paired"] == truth["truth"] > 100
    others = bystanders(capture)
    assert (others.unmatched, others.unmatched_reads) == (0, 0)
    flags = capture.commands.collect()["flags"].to_list()
    assert not any(f & CommandFlag.DATA_PARTIAL for f in flags)


FLR = '[[step]]\nreset = "flr"\n[[step]]\nname = "after"\nfio = "jobs.fio"\n'


def test_sgls(tmp_path: Path) -> None:
    records_are_right(*recorded(tmp_path, "fast", "sgls = true", offer={"sgls": True}))


def test_lists_read_too_far(tmp_path: Path) -> None:
    records_are_right(*recorded(tmp_path, "fast", controller={"list_read_bytes": 512}))


def test_polled_queues(tmp_path: Path) -> None:
    truth, capture = recorded(tmp_path, "fast", "interrupts = false")
    records_are_right(truth, capture)
    assert truth["instants"]["msix"]["compared"] < truth["paired"] - 100  # of admin commands alone


def test_function_level_reset(tmp_path: Path) -> None:
    records_are_right(*recorded(tmp_path, "fast", steps=FLR))


def test_all_of_them_on_the_rtl(tmp_path: Path) -> None:
    other = {"offer": {"sgls": True}, "controller": {"list_read_bytes": 512}}
    records_are_right(*recorded(tmp_path, "rtl", "sgls = true\ninterrupts = false", FLR, **other))


def test_a_drive_without_sgls_is_refused_for_a_plan_with_them(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("sgls = true\n[[step]]\nidle_s = 0.001\n")
    command = ("run", tmp_path / "plan.toml", "--virtual", "intel-660p-1tb", "--fidelity", "fast", "--out", tmp_path / "capture")
    _, err = finished(wattbell(tmp_path, *command), code=1)
    assert "SGLs, which the drive does not offer" in err
