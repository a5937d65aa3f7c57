"""docs/bench.md, typed line by line at a terminal of real Linux, with the virtual rig for a meter: `make bench-page`. One boot.

The drive's work is in the trace of its connector (docs/bus-trace.md), which is read here without our decoder: the figures are
compared with that.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattbell.capture import open_capture

from tests.sim.rig.rig_trace import RAIL, TLP_DOWN, records
from tests.slow import bench_page

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("box")]
SET_UP = (
    ".venv/bin/python -c \"from wattbell.rig import Rig; rig = Rig.open('/dev/hvc0,/dev/hvc1'); "
    'rig.set_interval(1e-5); rig.set_decimation(100); rig.close()"'
)
"""The rig as it is to be as a meter."""
SCRIPT = f"export HOME={Path.home()} PATH=$PATH:{os.environ['PATH']}\nmkdir -p /dev/pts; mount -t devpts devpts /dev/pts; python guest.py"
"""With the programs of this machine, wherever they are: `make setup` would fetch missing packages, and the guest has no network."""
KEPT = "cp -r quiet reads copy first states imported instrument *.fio *.json *.csv *.html /run/box/made/"
READ, GET_FEATURES, MARKER_FID = 0x02, 0x0A, 0xD0
CPLD, CPLD_HEADER, SQE = 0x4A, 12, 64
"""Format and type of a completion with data, its header and an SQE in bytes: the completion for a drive that reads one SQE or some. Lists
of pages come so, too, and begin with a zero; data that is written is left out of the trace."""
TRACE_BEGINS_TICK = 1_000_000_000
"""Ticks of a virtual rig's own counter, which is a second old then (docs/virtual-rig.md)."""


@dataclass(frozen=True)
class Typed:
    """Output of a line of the page; ``typed`` None: it was not."""

    line: str
    typed: str | None
    code: int = 0
    said: str = ""
    asked: int = 0
    seconds: float = 0.0


class Truth:
    """The drive's rail and the SQEs it read, by the trace's time in ns."""

    def __init__(self, trace: Path) -> None:
        rail, sqes = [], []
        for kind, _, time_ps, body in records(trace):
            if kind == RAIL:
                nanoamps, nanovolts = struct.unpack("<qq", body)
                rail.append((time_ps / 1000, nanoamps * nanovolts * 1e-18))
            elif kind == TLP_DOWN and body[0] == CPLD and (len(body) - CPLD_HEADER) % SQE == 0:
                for at in range(CPLD_HEADER, len(body), SQE):
                    sqes.append((time_ps / 1000, body[at], *struct.unpack_from("<II", body, at + 40)))
        self.rail, self.sqes = np.array(rail), np.array(sqes)

    def energy_j(self, first_ns: float, last_ns: float) -> float:
        """Between two instants: each value holds until the next."""
        times, watts = self.rail.T
        inside = (times > first_ns) & (times < last_ns)
        edges = np.concatenate([[first_ns], times[inside], [last_ns]])
        held = np.concatenate([[watts[np.searchsorted(times, first_ns, "right") - 1]], watts[inside]])
        return float((np.diff(edges) * held).sum() * 1e-9)

    def markers(self, value: int) -> np.ndarray:
        """When the drive read one of this value; a session's own number stands above it."""
        times, opcode, cdw10, cdw11 = self.sqes.T
        return times[(opcode == GET_FEATURES) & (cdw10 == MARKER_FID) & (cdw11.astype(np.int64) & 0xFFFF == value)]

    def reads(self, first_ns: float, last_ns: float) -> np.ndarray:
        """When it read one of a Read."""
        times, opcode, *_ = self.sqes.T
        return times[(opcode == READ) & (times >= first_ns) & (times <= last_ns)]


class Bench:
    """Files that the guest left."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, folder / "made"
        said = {found["line"]: found for found in json.loads((folder / "said.json").read_text())}
        self.typed = []
        for line in bench_page.lines():
            words = bench_page.typed(line)
            found = said[words] if words else {}
            self.typed.append(Typed(line, words, **{name: found[name] for name in ("code", "said", "asked", "seconds") if words}))

    @cached_property
    def truth(self) -> Truth:
        return Truth(self.folder / "trace.wbt")

    def origin_ns(self, capture: str) -> int:
        """Place of tick 0 of a capture of the rig in the trace."""
        return -int(open_capture(self.made / capture).meta["journal"]["tick_offsets"][0]) - TRACE_BEGINS_TICK

    def analysis(self, capture: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "wattbell", "analyze", str(self.made / capture), "--json"]
        found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return found


def entries() -> list[str]:
    """All that is typed, in turn."""
    found = [SET_UP]
    for line in bench_page.lines():
        words = bench_page.typed(line)
        if words is None:
            continue
        act = bench_page.ACTS.get(bench_page.EXPECTED[bench_page.begins(line)[0]].act)
        found += [act.before, words, act.behind] if act else [words]
    return [*found, KEPT]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """WATTBELL_BOX: a folder to keep it in, or one that an earlier run left."""
    kept = os.environ.get("WATTBELL_BOX")
    out = Path(kept) if kept else tmp_path_factory.mktemp("box")
    if not (out / "exit-code").is_file():
        (out / "made").mkdir(parents=True, exist_ok=True)
        (out / "lines.json").write_text(json.dumps({"folder": str(ROOT), "lines": entries()}))
        (out / "guest.py").write_bytes(Path(__file__).with_name("bench_page_guest.py").read_bytes())
        words = ["--slot", "16x4", "--rail-only", "--virtio", "--rig-arg=--fidelity", "--rig-arg=fast"]
        command = [sys.executable, str(ROOT / "sim/guest/box.py"), "--out", str(out), *words, "--script", SCRIPT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = Bench(out)
    print()
    for each in found.typed:
        (start,) = bench_page.begins(each.line)
        first = (each.typed or each.line).splitlines()[0]
        print(f"{each.seconds:6.0f} s  {first}" if each.typed else f"not typed: {first}: {bench_page.NOT_TYPED[start]}")
    return found


def test_every_line_that_can_be_typed_ends_with_exit_code_0(bench: Bench) -> None:
    assert {each.typed: each.code for each in bench.typed if each.code} == {}
    assert not any("Traceback" in each.said or "bug:" in each.said for each in bench.typed)


def test_what_is_said_is_what_the_page_promises(bench: Bench) -> None:
    missing = []
    for each in bench.typed:
        expected = bench_page.EXPECTED.get(bench_page.begins(each.line)[0])
        missing += [(each.typed, pattern) for pattern in (expected.says if expected else ()) if not re.search(pattern, each.said)]
    assert missing == []


def test_who_is_asked(bench: Bench) -> None:
    """A test that writes asks once; a test that only reads never does."""
    asked = {each.line: each.asked for each in bench.typed if each.asked}
    assert asked == {line: 1 for line in bench_page.lines() if (e := bench_page.EXPECTED.get(bench_page.begins(line)[0])) and e.asks}


def test_the_first_figure_is_what_the_drive_took(bench: Bench) -> None:
    """Between the two markers as the drive read them. Commands and bytes: as fio counted."""
    found = bench.analysis("reads")
    (phase,) = [phase for phase in found["phases"] if phase["name"] == "reads"]  # between two patterns of load
    number = phase["phase"] << 8 & 0xFFFF
    origin_ns = bench.origin_ns("reads")
    begin, end = (
        times[np.abs(times - origin_ns - near).argmin()]
        for times, near in ((bench.truth.markers(number | 1), phase["first_tick"]), (bench.truth.markers(number | 2), phase["last_tick"]))
    )
    energy, mean = phase["power"]["energy_j"], phase["power"]["mean_w"]
    truth_j = bench.truth.energy_j(begin, end)
    print(f"reads: {energy['value']:.4f} +- {energy['u']:.4f} J, in truth {truth_j:.4f}")
    assert abs(energy["value"] - truth_j) <= energy["u"]
    assert abs(mean["value"] - truth_j / (end - begin) * 1e9) <= mean["u"]
    assert found["fio"]["equal"] is True
    (row,) = [row for section in found["fio"]["sections"] for row in section["rows"]]
    reads = phase["commands"]["by_opcode"]["read"]
    assert (reads["count"], reads["bytes"]) == (row["fio_count"], row["fio_bytes"])
    assert len(bench.truth.reads(begin, end)) >= reads["count"]


def test_the_imported_figure_is_what_the_drive_took(bench: Bench) -> None:
    """From the first of fio's reads to the last, which are the drive's last while the instrument saved; the kernel's own, of the
    partition table, come before them."""
    (phase,) = bench.analysis("imported")["phases"]
    first_ns, saved = bench.origin_ns("instrument"), open_capture(bench.made / "instrument").meta["rail"]
    (job,) = json.loads((bench.made / "fio.json").read_text())["jobs"]
    reads = bench.truth.reads(first_ns, first_ns + saved["samples"] * saved["interval_ticks"])[-job["read"]["total_ios"] :]
    assert len(reads) == job["read"]["total_ios"]
    assert (reads[-1] - reads[0]) * 1e-6 == pytest.approx(job["job_runtime"], abs=300), "these are fio's, whose first I/O takes its time"
    truth_j = bench.truth.energy_j(reads[0], reads[-1])
    energy = phase["power"]["energy_j"]
    print(f"imported: {energy['value']:.4f} +- {energy['u']:.4f} J, in truth {truth_j:.4f}")
    assert abs(energy["value"] - truth_j) <= energy["u"]
