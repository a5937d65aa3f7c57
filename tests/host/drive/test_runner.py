"""Steps with real fio on a file in place of the drive: what is run is what was checked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from wattbell.drive.device import Device
from wattbell.drive.runner import Runner
from wattbell.drive.settings import Settings
from wattbell.drive.tools import Tools
from wattbell.errors import WattbellError

JOB = """[global]
filename=${WATTBELL_DRIVE}
ioengine=psync
rw=randread
bs=4k
size=1m
[a]
number_ios=3
[b]
stonewall
number_ios=5
[c]
wait_for_previous
number_ios=7
"""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    if shutil.which("fio") is None and not os.environ.get("CI"):
        pytest.skip("needs fio")
    drive = tmp_path / "drive"
    drive.write_bytes(bytes(1 << 20))
    nvme = tmp_path / "nvme"
    nvme.write_text("#!/bin/sh\nexit 0\n")
    nvme.chmod(0o755)
    device = Device(str(drive), "nvme9n1", "nvme9", "M", "S", "F", 1 << 20, 512, "")
    tools = Tools({"nvme": str(nvme)})
    files, results = tmp_path / "plans", tmp_path / "plans/results"
    results.mkdir(parents=True)
    (files / "j.fio").write_text(JOB)
    return Runner(device, tools, Settings(device, tools, tmp_path / "restore.json", tmp_path / "sys"), files, results, lambda _: None)


def test_jobs_run_one_group_a_phase(runner: Runner) -> None:
    runner.run([{"name": "t", "fio": "j.fio"}])
    assert [phase["name"] for phase in runner.phases] == ["t/a", "t/b", "t/c"]
    counts = [json.loads((runner.results / phase["fio"]).read_text())["jobs"][0]["read"]["total_ios"] for phase in runner.phases]
    assert counts == [3, 5, 7]


@pytest.mark.parametrize(
    "option", ["filename=VICTIM", "exec_prerun=touch VICTIM-2", "exec_postrun=touch VICTIM-2", "write_bw_log=VICTIM-2"]
)
def test_fio_is_not_started_on_what_was_changed_since_it_was_checked(runner: Runner, tmp_path: Path, option: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    job = JOB.replace("rw=randread", "rw=write") + option.replace("VICTIM", str(victim)) + "\n"
    (runner.files / "j.fio").write_text(job)
    with pytest.raises(WattbellError, match=r"j\.fio:15: option "):
        runner.run([{"name": "t", "fio": "j.fio"}])
    assert victim.read_text() == "mine"
    assert not list(tmp_path.glob("victim-2*")) and not list(runner.results.iterdir())
    assert runner.phases == []


def test_a_job_without_the_drive_makes_no_file_here(runner: Runner) -> None:
    (runner.files / "j.fio").write_text(JOB.replace("filename=${WATTBELL_DRIVE}\n", "").replace("randread", "write"))
    with pytest.raises(WattbellError, match="names no drive"):
        runner.run([{"name": "t", "fio": "j.fio"}])
    assert not list(runner.results.iterdir())
