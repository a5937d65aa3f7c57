"""`wattbell run SUITE --drive ... --meter RIG --commands trace` on real Linux, over a rig without a tap; and the same run as one with
a tap sees it.

One boot of the bench in a box. The events at the drive's connector are kept (trace.wbt) and shown to a second rig: another board, with
another error of its front end and a tap that sees all: the same commands, the same rail, on the same counter. So both campaigns are
scored by the same code, and whatever differs is the meter's, the kernel's log's, or the map's between the two clocks.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.analysis import analyze
from wattbell.campaign.ending import Ending
from wattbell.campaign.runner import SuiteOrder, run_suite
from wattbell.capture import Capture, open_capture
from wattbell.clocks.pairing import pair
from wattbell.hostlog.derived import command_log
from wattbell.suites.drive import Drive, from_profile
from wattbell.suites.session import Choice, Session
from wattbell.suites.step import Step
from wattbell.virtual.fidelity import Fidelity
from wattbell.virtual.replay import Replay, replay

from tests.slow.again import Quiet
from tools.jobfile import at_the_drive

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("box")]
SERIAL, RIG = "WATTBELL660P0001", "/dev/hvc0,/dev/hvc1"
INTERVAL_S, DECIMATION = 1e-5, 100
"""A rail sample a millisecond."""
WORK = os.environ.get("WATTBELL_BOX_WORK", "suite")
"""A suite: the one below, or ``quick``, which takes some times as long."""
MANIFEST = """
name = "box"
title = "What the bench is tried with"
session = "box"

[[test]]
id = "random-read"
name = "Random read"
kind = "queue-depths"
conditions = ["test-data"]
test_data = "16m"
jobs = "read.fio"
score_over = [1, 4]

[[test]]
id = "idle"
name = "Idle"
kind = "idle"
conditions = ["test-data"]
test_data = "16m"
idle_s = 3.0
apst = true
aspm = "l1.2"

[[test]]
id = "wake-up"
name = "Wake-up"
kind = "wake"
conditions = ["test-data"]
test_data = "16m"
repeat = 2
idle_s = 2.0
apst = true
aspm = "l1.2"
"""
JOB = at_the_drive("""\
rw=randread
bs=4k
size=16m
runtime=3
time_based
stonewall
[qd1]
iodepth=1
[qd4]
iodepth=4
""")
SCRIPT = f"""
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
wattbell run {WORK} --drive /dev/nvme0n1 --serial {SERIAL} --yes --out seen --meter rig:{RIG} --commands trace \
    --interval {INTERVAL_S} --decimation {DECIMATION} --no-store --no-page > run.txt 2>&1
echo $? > code
"""


@dataclass(frozen=True)
class Tapped:
    """A bench on which the recorded session of ``seen`` happens again, in front of a tap."""

    seen: Path
    trace: Path
    choice = Choice(real=True)
    virtual = True

    def inspect(self, *_: Any) -> Drive:
        return from_profile(ROOT / "sim/profiles/intel-660p-1tb.toml")

    def open(self) -> AbstractContextManager[object]:
        return nullcontext()

    def conditions(self) -> dict[str, Any]:
        return {}

    def versions(self) -> dict[str, str]:
        return {}

    def prepare(self, _session: Session) -> None: ...

    def run(
        self, _session: Session, plans: Path, capture: Path, _conditions: Mapping[str, Any], _on_step: Callable[[Step, bool], None]
    ) -> None:
        (recorded,) = (self.seen / "captures").iterdir()
        described = json.loads((recorded / "workload/phases.json").read_text())
        phases = plans.with_suffix(".json")
        phases.parent.mkdir(parents=True, exist_ok=True)
        phases.write_text(json.dumps([{name: value for name, value in phase.items() if name != "edge_u_s"} for phase in described]))
        order = Replay(
            capture,
            bus_trace=self.trace,
            phases=phases,
            workload=recorded / "workload",
            fidelity=Fidelity.fast,
            interval_s=INTERVAL_S,
            decimation=DECIMATION,
            overwrite=True,
        )
        replay(order, Quiet())

    def accept(self, _capture: Capture) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Both:
    """The run by the kernel's log and a rail, and by a tap."""

    host: Path
    tap: Path

    def captures(self) -> tuple[Capture, Capture]:
        host, tap = (next(iter((folder / "captures").iterdir())) for folder in (self.host, self.tap))
        return open_capture(host), open_capture(tap)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """WATTBELL_BOX: a folder to keep it in, or one that an earlier run left."""
    kept = os.environ.get("WATTBELL_BOX")
    out = Path(kept) if kept else tmp_path_factory.mktemp("box")
    (out / "suite").mkdir(parents=True, exist_ok=True)
    (out / "suite/manifest.toml").write_text(MANIFEST)
    (out / "suite/read.fio").write_text(JOB)
    if not (out / "code").is_file():
        command = [
            sys.executable,
            str(ROOT / "sim/guest/box.py"),
            "--out",
            str(out),
            "--slot",
            "16x4",
            "--rail-only",
            "--virtio",
        ]
        command += ["--rig-arg=--fidelity", "--rig-arg=fast", "--rig-arg=--seed", "--rig-arg=7", "--script", SCRIPT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (out / "code").is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    assert (out / "code").read_text().strip() == "0", (out / "run.txt").read_text()
    if not (out / "tapped/results.json").is_file():
        suite = WORK if WORK == "quick" else str(out / WORK)
        run_suite(SuiteOrder(suite, out / "tapped", force=True), Tapped(out / "seen", out / "trace.wbt"), Ending(None), Quiet())
    return Both(out / "seen", out / "tapped")


@pytest.fixture(scope="module")
def phases(both: Both) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The same phases, as `wattbell analyze` has them."""
    host, tap = (json.loads(json.dumps(analyze(capture)))["phases"] for capture in both.captures())
    assert [phase["name"] for phase in host] == [phase["name"] for phase in tap]
    return list(zip(host, tap, strict=True))


def numbers(results: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every point's figures and every score, by a name."""
    for test in json.loads((results / "results.json").read_text())["tests"]:
        for k, point in enumerate(test["points"]):
            yield from ((f"{test['test']} {k} {name}", of) for name, of in point.items() if isinstance(of, dict) and "value" in of)
        yield from ((f"{test['test']} {score['name']} ({score['unit']})", score["value"]) for score in test["scores"])


def within(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two figures agree within what both state (k = 2); where one states nothing it limits nothing."""
    if one["value"] is None or other["value"] is None:
        return one["value"] is other["value"]
    if one["u"] is None or other["u"] is None:
        return True
    return abs(one["value"] - other["value"]) <= math.hypot(one["u"], other["u"]) + 1e-12


def test_the_run_ends_whole(both: Both) -> None:
    host, tap = both.captures()
    assert host.state == tap.state == "complete"
    assert not any(json.loads((both.host / "results.json").read_text())["lost"].values())
    found = host.meta["conditions"]["host_log"]
    assert found["lost"] == [] and "load patterns" in found["clock_map"]["method"]


def test_counts_and_bytes_are_exactly_the_taps(phases: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    moved = 0
    for host, tap in phases:
        seen = [{name: (of["count"], of["bytes"]) for name, of in phase["commands"]["by_opcode"].items()} for phase in (host, tap)]
        assert seen[0] == seen[1], host["name"]
        moved += sum(nbytes or 0 for _, nbytes in seen[0].values())
    assert moved > 30e6


def test_the_meters_clock_is_where_it_says(both: Both) -> None:
    """Both rigs count from the same instant; the first one's ticks were moved to its start."""
    host, tap = both.captures()
    origin = -host.meta["journal"]["tick_offsets"][0]
    found = pair(command_log(host), command_log(tap)).clock
    ends = np.array((found.first_ns, found.last_ns))
    off_s = np.abs(found.to_reference(ends) + origin - ends).max() * 1e-9
    bound_s = host.meta["conditions"]["alignment_u_s"]
    assert off_s <= bound_s + found.bound_s
    assert 1e-3 < bound_s < 0.02


def test_rates_power_and_efficiency_agree_within_what_they_state(both: Both) -> None:
    # at which depth it is highest may differ on a busy machine
    host, tap = ({name: of for name, of in numbers(folder) if "highest, at" not in name} for folder in (both.host, both.tap))
    assert host.keys() <= tap.keys() and len(host) > 10
    latency = [name for name in host if "latency" in name or "longest" in name or "shortest" in name]  # a host's is longer, always
    wrong = {name: (host[name], tap[name]) for name in host if name not in latency and not within(host[name], tap[name])}
    assert not wrong


def test_mb_per_s_are_the_taps_to_half_a_percent(phases: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Over a phase from its first command to its last, host and tap agree to half a percent.

    The host's log may join two bursts that the tap separates, so over bursts they agree within the log's own uncertainty. This also
    holds above half a percent: on a busy machine the emulated processor needs long to the doorbell and from the CQE.
    """
    for host, tap in phases:
        if host["kind"] != "fio" or not host["rates"].get("bytes"):
            continue
        one, other = (phase["rates"]["mb_per_s_whole"] for phase in (host, tap))
        assert within(one, other), host["name"]
        if one["u"] <= 0.005 * one["value"]:
            assert one["value"] == pytest.approx(other["value"], rel=0.005), host["name"]


def test_energies_of_phases_agree_within_what_they_state(phases: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    for host, tap in phases:
        one, other = (phase["power"]["energy_j"] for phase in (host, tap))
        assert one["u"] is not None and within(one, other), (host["name"], one, other)
        assert host["kind"] != "fio" or one["u"] < 0.1 * one["value"], host["name"]


def test_a_wake_up_is_as_long_as_the_tap_says_and_the_host_adds(both: Both, phases: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """The host's begins before the doorbell and ends behind the CQE; and neither by more than the clocks' bound besides."""
    bound_s = both.captures()[0].meta["conditions"]["alignment_u_s"]
    wakes = [(host, tap) for host, tap in phases if host["kind"] == "wake"]
    assert len(wakes) == 2
    for host, tap in wakes:
        one, other = (phase["commands"]["all"]["latency_s"]["max"] for phase in (host, tap))
        assert 0.04 < other < one < host["described"]["host_latency_s"]
        assert one - other < 2 * bound_s
