"""Real Linux and real fio against the whole chain: drive, bus trace, Verilated gateware, recorder, analysis.

The truth is fio's JSON and fio's log of every I/O. Both ways run the same jobs: QEMU's own NVMe device, with its trace log turned
into a bus trace, and our SSD model over vfio-user.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from wattbell.analysis import analyze
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture.hostcommands import HostCommands
from wattbell.clocks.map import ClockMap
from wattbell.hostlog.events import Pairing, WantedCommands
from wattbell.hostlog.files import read_log
from wattbell.hostlog.pages import PageReader

ROOT = Path(__file__).resolve().parents[2]
GUEST = ROOT / "sim/guest"
JOBS = GUEST / "jobs"
DIRECTION = {"read": "read", "write": "write", "trim": "dsm", "sync": "flush"}
BLOCK = 512
TICK_S = 1e-9

pytestmark = [pytest.mark.xdist_group("real-linux")]


def call(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@dataclass
class Run:
    """A guest run, its capture and the output of `wattbell analyze --json`."""

    folder: Path
    capture: Path
    analysis: dict[str, Any]

    def phases(self) -> list[dict[str, Any]]:
        return [p for p in json.loads((self.folder / "phases.json").read_text()) if p["kind"] == "fio"]

    def fio(self, phase: dict[str, Any]) -> dict[str, Any]:
        """Return fio's commands and bytes of a phase, by the resulting opcode."""
        jobs = json.loads((self.folder / phase["fio"]).read_text())["jobs"]
        out = {}
        for direction, opcode in DIRECTION.items():
            count = sum(job[direction]["total_ios"] for job in jobs)
            if count:
                out[opcode] = (count, sum(job[direction].get("io_bytes", 0) for job in jobs))
        return out

    def analysed(self, phase: dict[str, Any]) -> dict[str, Any]:
        return next(p for p in self.analysis["phases"] if p["phase"] == phase["phase"])

    def wire(self, phase: dict[str, Any]) -> dict[str, Any]:
        found = self.analysed(phase)["commands"]["by_opcode"]
        return {name: (entry["count"], entry["bytes"]) for name, entry in found.items()}


def make(folder: Path, way: str, source: str, jobs: list[Path], *options: str) -> Run:
    run, capture = folder / "run", folder / "capture"
    call(sys.executable, GUEST / "run.py", "--drive", way, "--out", run, "--jobs", *jobs, *options)
    trace = run / ("qemu.log" if source == "--qemu-log" else "trace.wbt")
    cli = [sys.executable, "-m", "wattbell"]
    # 20 kSPS: power states last milliseconds, and simulating a million conversions per second would take minutes
    call(*cli, "sim", "replay", source, trace, "--workload", run, "--out", capture, "--interval", "0.00005")
    return Run(run, capture, json.loads(call(*cli, "analyze", capture, "--json")))


@pytest.fixture(scope="module")
def qemu(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("qemu"), "qemu", "--qemu-log", [JOBS / "ci"], "--io-log")


@pytest.fixture(scope="module")
def vfio(tmp_path_factory: pytest.TempPathFactory) -> Run:
    jobs = [JOBS / "log/00-begin.sh", JOBS / "ci", JOBS / "idle", JOBS / "log/99-end.sh"]
    return make(tmp_path_factory.mktemp("vfio"), "vfio", "--bus-trace", jobs, "--io-log")


@pytest.fixture(params=["qemu", "vfio"])
def either(request: pytest.FixtureRequest) -> Run:
    found: Run = request.getfixturevalue(request.param)
    return found


def test_commands_and_bytes_by_opcode_equal_fios_in_every_job(either: Run) -> None:
    differ = {p["name"]: (either.wire(p), either.fio(p)) for p in either.phases() if either.wire(p) != either.fio(p)}
    assert len(either.phases()) == 11
    assert differ == {}


def test_nothing_is_lost_on_the_way(either: Run) -> None:
    loss = either.analysis["loss"]
    assert loss["rig"] == {}
    assert loss["commands"] == 0
    assert loss["meta"].get("lossless") is True


@pytest.mark.parametrize(("name", "opcode"), [("randread-4k-qd1", 2), ("randwrite-4k-qd1", 1)])
def test_every_latency_at_queue_depth_1_is_at_most_fios_of_the_same_io(either: Run, name: str, opcode: int) -> None:
    phase = next(p for p in either.phases() if p["name"] == name)
    span = either.analysed(phase)
    commands = pl.read_parquet(either.capture / "commands.parquet").filter(
        (pl.col("qid") > 0) & pl.col("cqe_tick").is_between(span["first_tick"], span["last_tick"])
    )
    log = (either.folder / f"fio-{phase['phase']}_lat.1.log").read_text().splitlines()
    ios = [[int(word) for word in line.split(",")] for line in log]
    assert commands["opcode"].unique().to_list() == [opcode]
    assert (commands["slba"] * BLOCK).to_list() == [io[4] for io in ios]
    assert commands["doorbell_tick"].null_count() == 0
    bus_ns = ((commands["cqe_tick"] - commands["doorbell_tick"]) * TICK_S * 1e9).to_list()
    slower = [(bus, io[1]) for bus, io in zip(bus_ns, ios, strict=True) if bus > io[1]]
    assert len(bus_ns) == 300
    assert slower == []


def test_qemus_drive_has_no_rail_and_no_figure_of_power(qemu: Run) -> None:
    assert "absent" in qemu.analysis["power"]
    assert any("1 us" in warning for warning in qemu.analysis["warnings"])


def test_linux_itself_sends_our_drive_to_its_deepest_state(vfio: Run) -> None:
    """The guest's kernel programmed APST: the idle phase draws milliwatts, and the read after it waits."""
    apst = (vfio.folder / "apst.txt").read_text()
    assert "APSTE): Enabled" in apst
    idle = next(p for p in vfio.analysis["phases"] if p["kind"] == "idle")
    lowest = min(vfio.analysis["idle"]["levels"], key=lambda level: level["mean_w"]["value"])
    assert 0.009 < lowest["mean_w"]["value"] < 0.011  # the 10 mW of the review on which the profile is based
    assert idle["name"] in lowest["phases"]
    states = pl.read_parquet(vfio.capture / "commands.parquet").filter(pl.col("qid") == 0)
    # 54.8 ms in the profile; the host sees it only when it ends an idle period
    assert ((states["cqe_tick"] - states["doorbell_tick"]) * TICK_S).max() > 0.05  # type: ignore[operator]


def test_shadow_doorbells_are_told_and_latency_falls_back(tmp_path: Path) -> None:
    jobs = [JOBS / "ci" / f"{name}.fio" for name in ("10-randread-4k-qd1", "21-randwrite-4k-qd4", "50-trim")]
    run = make(tmp_path, "qemu", "--qemu-log", jobs, "--dbcs", "on")
    assert {p["name"]: run.wire(p) for p in run.phases()} == {p["name"]: run.fio(p) for p in run.phases()}
    assert any("shadow doorbells" in warning for warning in run.analysis["warnings"])
    for entry in run.analysis["commands"]["by_opcode"].values():
        assert entry["latency_s"]["from"] == "fetch"


def kernel_log(run: Run) -> HostCommands:
    """Return the commands of the driver's tracepoints, from the pages of the kernel's buffer, without a gap."""
    folder = run.folder
    formats = [(folder / f"script-log-{name}").read_text() for name in ("header_page", "nvme_setup_cmd", "nvme_complete_rq")]
    events, missing = PageReader(*formats).read(0, (folder / "script-log-cpu0").read_bytes())
    assert missing == [] and "overrun: 0\ncommit overrun: 0\n" in (folder / "script-log-cpu0-stats").read_text()
    pairing = Pairing(WantedCommands(0, 1, ("nvme0n1",)))
    log = pairing.add(events)
    assert pairing.notes() == []
    return log


def log_and_tap(run: Run) -> pl.DataFrame:
    """Return commands between the first and the last marker, one row a command, from the driver's tracepoints (columns ``*_log``)
    and the tap.

    The n-th command of a queue and CID is the n-th on the other side.
    """
    log = kernel_log(run)
    # the first phase begins the log, the last ends it
    markers = pl.read_parquet(run.capture / "events.parquet").filter(pl.col("name") == "marker")[1:-1]
    assert [value for _, value in log.markers] == markers["arg32"].to_list()
    first, last = markers["tick"].min(), markers["tick"].max()
    tap = pl.read_parquet(run.capture / "commands.parquet").filter(pl.col("doorbell_tick").is_between(first, last))
    edges = log.markers[0][0], log.markers[-1][0]
    found = pl.DataFrame(pl.from_arrow(log.table)).filter(pl.col("doorbell_tick").is_between(*edges))
    key = ["qid", "cid"]
    sides = [side.sort("cqe_tick").with_columns(pl.int_range(pl.len()).over(key).alias("nth")) for side in (tap, found)]
    return sides[0].join(sides[1], on=[*key, "nth"], how="full", suffix="_log")


def test_the_kernels_log_has_every_command_of_the_tap_and_no_other(vfio: Run) -> None:
    both = log_and_tap(vfio)
    assert len(both) > 1000 and both["qid"].n_unique() == 2
    assert both["cqe_tick"].null_count() == both["cqe_tick_log"].null_count() == 0
    for column in ("opcode", "status"):
        assert both[column].to_list() == both[f"{column}_log"].to_list(), column
    ranges = (pl.col("qid") > 0) & (pl.col("opcode") == 9)
    assert both.filter(ranges).height > 0
    # the list of ranges is in memory; no tracepoint reads it
    assert both.filter(ranges)["flags_log"].unique().to_list() == [0x80]
    others = both.filter(~ranges)
    for column in ("slba", "blocks", "flags"):
        assert others[column].to_list() == others[f"{column}_log"].to_list(), column


def test_the_drivers_latency_is_never_below_the_taps(vfio: Run) -> None:
    """Set-up comes before the doorbell and completion after the CQE. The two clocks' rates are equal to some ppm."""
    both = log_and_tap(vfio)
    longer = (both["cqe_tick_log"] - both["doorbell_tick_log"]) - (both["cqe_tick"] - both["doorbell_tick"])
    assert longer.null_count() == 0 and longer.min() > 0  # type: ignore[operator]


def test_the_kernels_text_of_the_same_trace_gives_the_same_commands(vfio: Run) -> None:
    raw, text = log_and_tap(vfio), read_log(vfio.folder / "script-log.txt")
    table = pl.DataFrame(pl.from_arrow(text.table)).filter(pl.col("doorbell_tick").is_between(text.markers[0][0], text.markers[-1][0]))
    raw = raw.sort("cqe_tick_log", "cid")
    off = table.sort("cqe_tick", "cid")["cqe_tick"].sort() - raw["cqe_tick_log"].sort()
    assert len(table) == len(raw) and off.abs().max() <= 500  # type: ignore[operator]
    for column in ("opcode", "slba", "blocks", "status"):
        assert sorted(table[column].to_list()) == sorted(raw[f"{column}_log"].to_list()), column


def test_a_capture_of_the_log_alone_has_fios_counts_and_bytes(vfio: Run, tmp_path: Path) -> None:
    log = kernel_log(vfio)
    first, last = log.markers[0][0], log.markers[-1][0]
    with CaptureWriter(tmp_path / "c", lba_size_bytes=BLOCK, journal=False, conditions={"virtual": False}) as writer:
        log.onto(ClockMap(first, 0, 0.0, 1e-6, "the log's own", first, last), 1000).put(writer)
        writer.meta["workload"]["phases"] = json.loads((vfio.folder / "phases.json").read_text())[1:-1]
        (tmp_path / "c/workload").mkdir(exist_ok=True)
        for phase in vfio.phases():
            (tmp_path / "c/workload" / phase["fio"]).write_bytes((vfio.folder / phase["fio"]).read_bytes())
    found = analyze(open_capture(tmp_path / "c"))
    assert found["fio"] is not None and len(found["fio"]["sections"]) == 11
    assert found["fio"]["equal"] and found["fio"]["latency_ok"]
    assert {phase["commands"]["all"]["latency_s"]["from"] for phase in found["phases"] if phase["kind"] == "fio"} == {"set-up"}
