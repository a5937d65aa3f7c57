"""Steps with real fio on a file in place of the drive: the steps that run are the steps that were checked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from wattbell.drive.device import Device
from wattbell.drive.rounds import value
from wattbell.drive.runner import Runner
from wattbell.drive.settings import HostSettings
from wattbell.drive.settle import Seen
from wattbell.drive.tools import Tools
from wattbell.errors import WattbellError
from wattbell.measure.fiojson import load_jobs
from wattbell.suites.step import Rest, Step

from tests import needs

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
    needs.program("fio")
    drive = tmp_path / "drive"
    drive.write_bytes(bytes(1 << 20))
    nvme = tmp_path / "nvme"
    nvme.write_text("#!/bin/sh\nexit 0\n")
    nvme.chmod(0o755)
    device = Device(str(drive), "nvme9n1", "nvme9", "M", "S", "F", 1 << 20, 512, "", 1)
    tools = Tools({"nvme": str(nvme)})
    files, results = tmp_path / "plans", tmp_path / "plans/results"
    results.mkdir(parents=True)
    (files / "j.fio").write_text(JOB)
    settings = HostSettings(device, tools, tmp_path / "restore.json", tmp_path / "sys")

    def no_rig(_marker: int, _rest: Rest) -> Seen:
        raise AssertionError("nothing is to be watched")

    return Runner(device, tools, settings, files, results, lambda _: None, no_rig)


def test_jobs_run_one_group_a_phase(runner: Runner) -> None:
    runner.run([Step(name="t", fio="j.fio")])
    assert [phase.name for phase in runner.phases] == ["t/a", "t/b", "t/c"]
    counts = [json.loads((runner.results / phase.fio).read_text())["jobs"][0]["read"]["total_ios"] for phase in runner.phases]
    assert counts == [3, 5, 7]


def test_what_fio_says_of_a_round(runner: Runner) -> None:
    """fio's own JSON: 100 reads at 200 a second."""
    (runner.files / "j.fio").write_text(JOB.partition("[b]")[0].replace("number_ios=3", "number_ios=100\nrate_iops=200"))
    runner.run([Step(name="t", fio="j.fio")])
    jobs = load_jobs(runner.results / runner.phases[0].fio)
    read = json.loads((runner.results / runner.phases[0].fio).read_text())["jobs"][0]["read"]
    assert read["total_ios"] == 100
    assert value(jobs, "iops") == pytest.approx(100 / (read["runtime"] * 1e-3), rel=0.01)  # fio says the runtime in whole ms
    assert value(jobs, "mb_per_s") == pytest.approx(value(jobs, "iops") * 4096e-6, rel=0.02)
    assert 1e-7 < value(jobs, "mean_latency_s") < 0.5


def test_a_rest_goes_by_what_fio_did_and_not_by_its_start(runner: Runner, tmp_path: Path) -> None:
    """Real fio, a second late: 100 reads at 200 a second are half a second of work, so a duty cycle of 50 % is over before any rest."""
    slow = tmp_path / "fio"
    slow.write_text(f'#!/bin/sh\nsleep 1\nexec {shutil.which("fio")} "$@"\n')
    slow.chmod(0o755)
    runner.tools = Tools({"nvme": str(tmp_path / "nvme"), "fio": str(slow)})
    (runner.files / "j.fio").write_text(JOB.partition("[b]")[0].replace("number_ios=3", "number_ios=100\nrate_iops=200"))
    runner.run([Step(name="t", fio="j.fio", duty=0.5), Step(name="u", fio="j.fio", duty=0.2)])
    half, fifth = runner.phases
    for phase in (half, fifth):
        assert phase.busy_s == pytest.approx(0.5, abs=0.25)
    assert half.idle_after_s == 0.0
    assert fifth.busy_s is not None and fifth.idle_after_s is not None
    assert fifth.idle_after_s < fifth.busy_s * 4 - 0.9, "the second before counts as rest"


def test_a_rest_behind_a_phase_has_no_marker_at_its_end(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host asks for a state, marks begin and end of the phase at once, and leaves the drive alone until it asks for the next state."""
    log = tmp_path / "log"
    (tmp_path / "nvme").write_text(f'#!/bin/sh\necho "$1 $*" | cut -d" " -f1,4- >> {log}\necho value:0\n')
    monkeypatch.setattr(runner.presence, "wait", lambda seconds: log.open("a").write(f"wait {seconds}\n"))
    runner.run([Step(name=f"t#{k}", idle_s=0.0, ps=ps, rest_s=0.25) for k, ps in enumerate((3, 0))])
    words = [line.split()[0] for line in log.read_text().splitlines()]
    assert words == ["get-feature", *["set-feature", "get-feature", "wait", "get-feature", "wait"] * 2]
    assert [line for line in log.read_text().splitlines() if line.startswith("wait")] == ["wait 0.0", "wait 0.25"] * 2
    assert [phase.idle_after_s for phase in runner.phases] == [0.25, 0.25]


def test_a_rest_is_no_longer_than_the_longest(runner: Runner) -> None:
    (runner.files / "j.fio").write_text(JOB.partition("[b]")[0].replace("number_ios=3", "number_ios=20\nrate_iops=200"))
    runner.run([Step(name="t", fio="j.fio", duty=0.01, duty_idle_max_s=0.3)])
    (phase,) = runner.phases
    assert phase.idle_after_s is not None and 0 <= phase.idle_after_s < 0.3


@pytest.mark.parametrize(
    "option", ["filename=VICTIM", "exec_prerun=touch VICTIM-2", "exec_postrun=touch VICTIM-2", "write_bw_log=VICTIM-2"]
)
def test_fio_is_not_started_on_what_was_changed_since_it_was_checked(runner: Runner, tmp_path: Path, option: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    job = JOB.replace("rw=randread", "rw=write") + option.replace("VICTIM", str(victim)) + "\n"
    (runner.files / "j.fio").write_text(job)
    with pytest.raises(WattbellError, match=r"j\.fio:15: option "):
        runner.run([Step(name="t", fio="j.fio")])
    assert victim.read_text() == "mine"
    assert not list(tmp_path.glob("victim-2*")) and [path.name for path in runner.results.iterdir()] == ["health.json"]
    assert runner.phases == []


def test_a_job_without_the_drive_makes_no_file_here(runner: Runner) -> None:
    (runner.files / "j.fio").write_text(JOB.replace("filename=${WATTBELL_DRIVE}\n", "").replace("randread", "write"))
    with pytest.raises(WattbellError, match="names no drive"):
        runner.run([Step(name="t", fio="j.fio")])
    assert [path.name for path in runner.results.iterdir()] == ["health.json"]
