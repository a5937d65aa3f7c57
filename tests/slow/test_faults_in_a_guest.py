"""Fourteen faults of a drive's own accounts amid real Linux traffic: the judge finds each, and accuses nothing else.

One boot asks the drive with unmodified nvme-cli (tests/e2e/test_guest_accounts.py). The faults are put into what the guest read and into
the bus trace, by code that the judge does not share (studies/faults). Four more boots have the fault in the drive.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from studies.faults import admin, bustrace, pages
from tests.e2e.test_guest_accounts import JOB, KINDS, LARGEST, THRESHOLDS_MS, Guest, monitored, reported, write_profile
from tests.e2e.test_guest_accounts import capture as capture  # fixtures
from tests.e2e.test_guest_accounts import guest as guest

ROOT = Path(__file__).resolve().parents[2]
METER, MONITOR, EVENT, GENERATION = "POWER-MEASUREMENT", "LATENCY-MONITOR", "POWER-THRESHOLD", "METER-GENERATION"
UNSURE = (METER, f"{METER}-largest")
"""Rows that may pass conditionally: several begins of the drive's seconds may fit a load."""

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("real-linux")]


def verdicts(guest: Guest, capture: Path, power_log: Path | None = None, latency_log: Path | None = None) -> dict[str, str]:
    """Return the verdict of each row about the drive's own accounts, from pages other than the guest's."""
    power, latency = logs_of(guest)
    powers = ("--power-log", guest.run / "script-page-before.bin", "--power-log", power_log or power)
    logs = (*powers, "--latency-log", latency_log or latency)
    words = [sys.executable, "-m", "wattbell", "judge", capture, "--requirements", "nvme,ocp", *logs, "--json"]
    done = subprocess.run([str(one) for one in words], capture_output=True, text=True, check=False)
    assert done.returncode in (3, 4), done.stderr
    rows = {row["id"]: row["verdict"] for row in json.loads(done.stdout)["drives"][0]["verdicts"]}
    return {name: verdict for name, verdict in rows.items() if name.startswith((METER, MONITOR, EVENT, GENERATION))}


def failed(rows: dict[str, str]) -> set[str]:
    return {name for name, verdict in rows.items() if verdict == "fail"}


def logs_of(guest: Guest) -> tuple[Path, Path]:
    return guest.run / "script-log-25h.bin", guest.run / "script-log-c3h.bin"


def account(guest: Guest) -> pages.MeterAccount:
    """Return the right account of the measured seconds."""
    seconds = guest.measured_seconds
    return pages.MeterAccount.of(list(guest.seconds_w[seconds.start : seconds.stop]))


def sure_bucket(guest: Guest) -> tuple[int, int, list[tuple[float, int]]]:
    """Return opcode, bucket, and latencies in ms and ends in ps, where latencies are farthest from any threshold: their count is sure."""

    def margin_ms(found: list[tuple[float, int]]) -> float:
        return min(abs(latency_ms - threshold) for latency_ms, _ in found for threshold in THRESHOLDS_MS)

    full = {key: found for key, found in monitored(guest).items() if len(found) > 3}
    (kind, bucket), found = max(full.items(), key=lambda one: margin_ms(one[1]))
    assert margin_ms(found) > 2
    return KINDS[kind], bucket, found


def _wrong_command(guest: Guest, page: bytes) -> bytes:
    """The stamp of another command than the one with the largest latency."""
    opcode, bucket, found = sure_bucket(guest)
    _, stamped_ps = reported(found, LARGEST >> (3 * bucket + pages.KINDS[opcode]) & 1 == 1)
    other_ps = max((end for _, end in found), key=lambda end: abs(end - stamped_ps))
    assert abs(other_ps - stamped_ps) > 200 * bustrace.MS
    return pages.stamped(page, bucket, opcode, round((other_ps - stamped_ps) / bustrace.MS))


def _one_more(guest: Guest, page: bytes) -> bytes:
    opcode, bucket, _ = sure_bucket(guest)
    return pages.recounted(page, bucket, opcode, 1)


def _other_latency(guest: Guest, page: bytes) -> bytes:
    opcode, bucket, _ = sure_bucket(guest)
    return pages.reported(page, bucket, opcode, 7)


OF_METER: dict[str, tuple[Callable[[pages.MeterAccount], pages.MeterAccount], set[str]]] = {
    "every reading 15 % high, and 5 % claimed": (lambda own: own.gained(1.15), {METER, f"{METER}-largest"}),
    "every reading 15 % low": (lambda own: own.gained(0.85), {METER, f"{METER}-largest"}),
    "a second dropped, and the page does not say so": (lambda own: own.dropped(1), {METER, f"{METER}-count", f"{METER}-histogram"}),
    "all seconds one bin too high": (lambda own: own.shifted(range(len(own.seconds)), 1), {f"{METER}-histogram"}),
    "the stamp of the largest second 6 s late": (lambda own: replace(own, late_ms=6000), {f"{METER}-time"}),
}
OF_MONITOR: dict[str, tuple[Callable[[Guest, bytes], bytes], set[str]]] = {
    "a counter has one command more": (_one_more, {MONITOR}),
    "a latency is 7 ms off": (_other_latency, {f"{MONITOR}-latency"}),
    "the stamp of another command": (_wrong_command, {f"{MONITOR}-stamp"}),
}


def test_without_a_fault_nothing_fails(guest: Guest, capture: Path) -> None:
    rows = verdicts(guest, capture)
    assert not failed(rows), rows
    assert {rows[name] for name in rows if name not in UNSURE} == {"pass"}, rows


@pytest.mark.parametrize("fault", OF_METER)
def test_a_fault_of_the_meter(fault: str, guest: Guest, capture: Path, tmp_path: Path) -> None:
    change, due = OF_METER[fault]
    power, _ = logs_of(guest)
    page = tmp_path / "page.bin"
    page.write_bytes(change(account(guest)).page(power.read_bytes()))
    found = failed(verdicts(guest, capture, page))
    assert found & due and found <= {name for name in found if name.startswith(METER)}, found


def test_a_generation_that_stands_still(guest: Guest, capture: Path, tmp_path: Path) -> None:
    """The page behind the measurement has the generation of the page before its start."""
    page = bytearray(logs_of(guest)[0].read_bytes())
    page[1] = (guest.run / "script-page-before.bin").read_bytes()[1]
    (tmp_path / "page.bin").write_bytes(page)
    assert failed(verdicts(guest, capture, tmp_path / "page.bin")) == {GENERATION}


@pytest.mark.parametrize("fault", OF_MONITOR)
def test_a_fault_of_the_monitor(fault: str, guest: Guest, capture: Path, tmp_path: Path) -> None:
    change, due = OF_MONITOR[fault]
    _, latency = logs_of(guest)
    page = tmp_path / "page.bin"
    page.write_bytes(change(guest, latency.read_bytes()))
    assert failed(verdicts(guest, capture, latency_log=page)) == due


def test_an_event_without_a_cause(guest: Guest, tmp_path: Path) -> None:
    """The host sets 60 W, and an event comes. A tap does not see which kind of event, so the row fails conditionally."""
    trace = bustrace.read(guest.run / "trace.wbt")
    low = next(one for one in admin.features(trace, 0x24) if one.cdw11 == 0x8001_0032)
    changed = replayed(guest, admin.edited(trace, low, cdw11=0x8002_1770), tmp_path)
    rows = verdicts(guest, changed)
    assert not failed(rows) and rows[f"{EVENT}-extra"] == "conditional fail", rows


def replayed(guest: Guest, trace: bustrace.BusTrace, folder: Path) -> Path:
    """Return the capture of a changed trace."""
    bustrace.write(trace, folder / "trace.wbt")
    words = ("--bus-trace", folder / "trace.wbt", "--workload", guest.run, "--out", folder / "capture", "--interval", "1e-4")
    command = [sys.executable, "-m", "wattbell", "sim", "replay", *map(str, words), "--fidelity", "fast"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "capture"


IN_THE_DRIVE = {
    "gain": ("[own_meter]\ngain = 1.15", {METER, f"{METER}-largest"}),
    "dropped": ("[own_meter]\ndropped_s = [2]\ntells_gaps = false", {METER, f"{METER}-count", f"{METER}-histogram"}),
    "stamps": ("[own_monitor]\nstamps_last = true", {f"{MONITOR}-stamp"}),
    "extra": ("[own_monitor]\nextra = 1", {MONITOR}),
}


@pytest.mark.parametrize("fault", IN_THE_DRIVE)
def test_a_fault_in_the_drive(fault: str, tmp_path: Path) -> None:
    """Linux and nvme-cli read a faulty drive: the model itself has the fault."""
    table, due = IN_THE_DRIVE[fault]
    profile = write_profile(tmp_path / "drive.toml")
    table = re.sub(r"^(\w+) = (.*)$", r'\1 = { value = \2, source = "assumed: test" }', table, flags=re.MULTILINE)
    profile.write_text(f"{profile.read_text()}\n{table}\n")
    words = ("--drive", "vfio", "--profile", profile, "--jobs", JOB, "--out", tmp_path / "run")
    done = subprocess.run([sys.executable, ROOT / "sim/guest/run.py", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    faulty = Guest(tmp_path / "run")
    seen = replayed(faulty, bustrace.read(faulty.run / "trace.wbt"), tmp_path)
    found = failed(verdicts(faulty, seen))
    kind = METER if table.startswith("[own_meter]") else MONITOR
    assert found & due and all(name.startswith(kind) for name in found), found
