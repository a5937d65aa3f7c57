"""The live log of the kernel's tracepoints on real Linux: `open_log` in the bench in a box, with fio's own counts as truth. One boot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("box")]

PROGRAM = r"""
import json, os, subprocess
from wattbell.errors import WattbellError
from wattbell.hostlog.log import open_log
from wattbell.capture.hostcommands import joined
from wattbell.hostlog.target import target_of
from wattbell.hostlog.tracefs import TraceLog

DRIVE, INSTANCES = "/dev/nvme0n1", "/sys/kernel/tracing/instances"

def fio(ios, *options):
    words = ["fio", "--name=r", f"--filename={DRIVE}", "--clocksource=clock_gettime", "--direct=1", "--ioengine=libaio", "--rw=randrw",
             "--bs=4k", "--iodepth=8", "--size=64m", f"--number_ios={ios}", "--output-format=json", *(f"--{o}" for o in options)]
    done = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (job,) = json.loads(done[done.index("{"):])["jobs"]
    return {"read": job["read"]["total_ios"], "write": job["write"]["total_ios"]}

def io(found):
    pairs = [(o, q) for o, q in zip(found.table["opcode"].to_pylist(), found.table["qid"].to_pylist()) if q]
    return {"read": sum(o == 2 for o, _ in pairs), "write": sum(o == 1 for o, _ in pairs)}

def refusal(log):
    try:
        log.start()
    except WattbellError as error:
        return str(error)

out = {"unmounted": refusal(open_log("trace", DRIVE))}
subprocess.run(["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"], check=True)
with open_log("trace", DRIVE) as log:
    subprocess.run(["nvme", "get-feature", "/dev/nvme0", "-f", "0xd0", "--cdw11=0x101"], stdin=subprocess.DEVNULL, capture_output=True)
    first = fio(400)
    part = log.take()
    second = fio(400)
    out["second"] = refusal(open_log("trace", DRIVE))
    found = joined([part, log.stop()])
out |= {"fio": [first, second], "log": io(found), "markers": [v for _, v in found.markers], "lost": len(found.lost),
        "notes": log.about["notes"], "left": os.listdir(INSTANCES)}
os.mkdir(f"{INSTANCES}/wattbell-nvme0")
small = TraceLog(target_of(DRIVE), buffer_kib=4)
small._run = lambda: None  # nobody reads while fio runs
with small as log:
    told = fio(400)
    found = log.stop()
out |= {"told": sum(told.values()), "kept": len(found), "gaps": sum(gap.count for gap in found.lost), "over": log.about["notes"]}
try:
    with open_log("trace", DRIVE):
        raise RuntimeError
except RuntimeError:
    out["after"] = os.listdir(INSTANCES)
with open_log("fio", DRIVE, __import__("pathlib").Path("/run/box/logs")) as log:
    told = fio(50, *log.fio_options())
    out["fio log"] = [told, io(log.stop())]
json.dump(out, open("/run/box/out.json", "w"))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("box")
    (out / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(ROOT / "sim/guest/box.py"), "--out", str(out), "--smp", "2", "--script", "python program.py"]
    command += ["--rig-arg=--fidelity", "--rig-arg=fast"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (out / "out.json").is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    answer: dict[str, Any] = json.loads((out / "out.json").read_text())
    return answer


def test_every_io_of_fio_is_logged_once(found: dict[str, Any]) -> None:
    assert found["log"] == {name: found["fio"][0][name] + found["fio"][1][name] for name in ("read", "write")}
    assert found["markers"] == [0x101] and found["lost"] == 0 and found["notes"] == []
    told, logged = found["fio log"]
    assert told == logged


def test_nothing_is_left_behind_and_one_log_is_enough(found: dict[str, Any]) -> None:
    assert found["left"] == found["after"] == []
    assert "Another run" in found["second"] and "mount -t tracefs" in found["unmounted"]


def test_what_overran_is_counted(found: dict[str, Any]) -> None:
    """A command that lost its set-up alone is there, one that lost its completion alone is not: half of the events is near the truth."""
    assert found["kept"] < found["told"] == 400 and "a trace instance that a killed run had left was removed" in found["over"]
    assert abs(found["kept"] + found["gaps"] - found["told"]) <= 16
