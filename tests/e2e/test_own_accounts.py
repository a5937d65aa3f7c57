"""A modelled drive's own power meter and latency monitor, through the real commands: plan, recording, log pages, verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.virtual import MARKS, finished, wattbell

pytestmark = MARKS
ROOT = Path(__file__).resolve().parents[2]
PROFILE = (ROOT / "sim/profiles/intel-660p-1tb.toml").read_text()
OFFERS = "\n".join(
    f'{name} = {{ value = true, source = "assumed: test" }}' for name in ("power_measurement", "smart_power", "latency_monitor")
)
JOBS = """
[global]
direct=1
[read]
rw=randread
bs=4k
iodepth=32
size=1g
rate_iops=3000
runtime=4
time_based
[one]
stonewall
rw=write
bs=128k
iodepth=1
size=200g
io_size=64m
[four]
stonewall
rw=write
bs=128k
iodepth=4
size=200g
io_size=64m
[twelve]
stonewall
rw=randwrite
bs=128k
iodepth=12
size=200g
io_size=256m
"""
PLAN = """
condition = "full"
[[step]]
latency_monitor = {{ thresholds_ms = [5, 10, 20, 40], reports = "{reports}" }}
[[step]]
own_meter = "start"
[[step]]
fio = "load.fio"
[[step]]
read_logs = ["health"]
[[step]]
idle_s = 3.4
[[step]]
own_meter = "stop"
[[step]]
read_logs = ["power_measurement", "latency_monitor", "health"]
"""
POWER = ("mean", "largest", "count", "histogram", "time")
LATENCY = ("counters", "latency", "stamp")
HEALTH = ("SMART-ENERGY", "SMART-POWER")


def verdicts(folder: Path, faults: str, reports: str) -> tuple[dict[str, str], int]:
    """Record a drive with these faults and judge its pages; the verdicts by the last part of the row's id, and the exit code."""
    (folder / "load.fio").write_text(JOBS)
    (folder / "plan.toml").write_text(PLAN.format(reports=reports))
    (folder / "drive.toml").write_text(PROFILE.replace("[offer]\n", f"[offer]\n{OFFERS}\n", 1) + faults)
    capture = folder / "capture"
    common = ("--virtual", folder / "drive.toml", "--fidelity", "fast", "--interval", "1e-4", "--out", capture)
    finished(wattbell(folder, "run", folder / "plan.toml", *common))
    pages = ("--power-log", capture / "workload/log-25h.bin", "--latency-log", capture / "workload/log-c3h.bin")
    for name in ("log-02h.bin", "log-02h-2.bin"):
        pages += ("--health-log", capture / "workload" / name)
    process = wattbell(folder, "judge", capture, "--requirements", "nvme,ocp", *pages, "--json")
    out, err = process.communicate()
    assert process.returncode in (3, 4), err
    found: dict[str, Any] = json.loads(out)
    rows = {row["id"]: row["verdict"] for row in found["drives"][0]["verdicts"]}
    power = {name: rows["POWER-MEASUREMENT" + ("" if name == "mean" else f"-{name}")] for name in POWER}
    latency = {name: rows["LATENCY-MONITOR" + ("" if name == "counters" else f"-{name}")] for name in LATENCY}
    return power | latency | {name: rows[name] for name in HEALTH}, process.returncode


def faulty(table: str, **values: object) -> str:
    return f"\n[{table}]\n" + "".join(f'{key} = {{ value = {json.dumps(one)}, source = "assumed: test" }}\n' for key, one in values.items())


def test_an_honest_drive_passes(tmp_path: Path) -> None:
    assert verdicts(tmp_path, "", "first")[0] == dict.fromkeys(POWER + LATENCY + HEALTH, "pass")


def test_a_gain_beyond_its_claim_and_a_counter_off_by_one_fail(tmp_path: Path) -> None:
    """15 % too much, and 5 % claimed. Each counter has one command too many, but its latency is right."""
    faults = faulty("own_meter", gain=1.15, claimed_error_percent=5) + faulty("own_monitor", extra=1)
    found, code = verdicts(tmp_path, faults, "largest")
    assert (found["largest"], found["histogram"], found["counters"], found["latency"]) == ("fail", "fail", "fail", "pass")
    assert found["mean"] in ("fail", "conditional fail") and found["SMART-POWER"] == "fail" and code == 3


def test_a_dropped_second_and_stamps_of_other_commands_are_found(tmp_path: Path) -> None:
    """The drive does not say that a second is missing; its stamps are of each bucket's last command."""
    faults = faulty("own_meter", dropped_s=[4], tells_gaps=False) + faulty("own_monitor", stamps_last=True)
    found, code = verdicts(tmp_path, faults, "first")
    assert (found["count"], found["counters"], found["stamp"]) == ("fail", "pass", "fail")
    assert found["mean"] == "not measured" and code == 3


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ('own_meter = "begin"', "own_meter `begin` is none of start, stop"),
        ('own_meter = "stop"\nown_meter_min = 3', "own_meter_min goes with"),
        ('read_logs = ["smart"]', "smart"),
        ("latency_monitor = { thresholds_ms = [5, 10, 7, 40] }", "multiples of 5 from 5 to 1280, not 7"),
        ("latency_monitor = { thresholds_ms = [5, 20, 10, 40] }", "must ascend"),
        ('own_meter = "start"', "the plan needs offer.power_measurement, which the drive does not offer"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(tmp_path: Path, step: str, said: str) -> None:
    (tmp_path / "plan.toml").write_text(f"[[step]]\n{step}\n")
    process = wattbell(
        tmp_path, "run", tmp_path / "plan.toml", "--virtual", "intel-660p-1tb", "--fidelity", "fast", "--out", tmp_path / "c"
    )
    _, err = process.communicate()
    assert process.returncode in (1, 2) and said in " ".join(err.split()) and "Traceback" not in err
