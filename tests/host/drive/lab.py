"""A drive and a rig as far as a session sees them: `nvme` and `fio` are scripts, the rig's stream is made as markers are sent."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from wattbell.campaign import real
from wattbell.capture import CaptureWriter
from wattbell.drive import bench, recording
from wattbell.drive.device import Device
from wattbell.drive.phase import to_json
from wattbell.drive.tools import Tools
from wattbell.errors import DriveError, RigError
from wattbell.suites.step import Step

from tests.host.wire import encoder as e

S = 1_000_000_000
STEP_S, SAMPLE_S = 1.0, 0.02
NVME = """#!/bin/sh
# get-feature DEVICE -f 0xd0 --cdw11=V: a marker, written down for the rig as opcode, selector and value. Refused as nvme-cli 2.13 says it,
# but not if its opcode and selector are in `accepts`; `trips` has others, for which there are other words
here=$(dirname "$0")
value=; which=
for word in "$@"; do case $word in
    --cdw11=*) value=${word#--cdw11=};; --cdw10=*) which="6 ${word#--cdw10=}";; 0x*) which="10 $word";;
esac; done
[ -n "$value" ] && echo "$which $value" >> "$here/markers" && echo "$which $value $(date +%s%N)" >> "$here/marked"
[ "$1" = format ] && echo "$@" >> "$here/formats"
[ "$1" = id-ctrl ] && echo '{"psds": [{"non-operational_state": 0}, {"non-operational_state": 1}]}'
[ "$1 $4" = "get-feature 0x2" ] && echo "get-feature:0x02 (Power Management), Current value:00000000"
[ "$1" = set-feature ] && echo "$@" >> "$here/set"
[ "$1" = version ] && echo "nvme version 2.3"
if [ -n "$value" ] && ! grep -qx "$which" "$here/accepts" 2> /dev/null; then
    if grep -qx "$which" "$here/trips" 2> /dev/null; then
        sh "$here/trip" >&2
    else
        echo "NVMe status: Invalid Field in Command: A reserved coded value or an unsupported value in a defined field(0x4002)" >&2
    fi
    exit 1
fi
exit 0
"""
FIO = """#!{python}
# what fio 3.33 says, as far as it is read: the n-th run has the n-th of the figures in `iops`
import json, pathlib, sys
here = pathlib.Path(__file__).parent
if sys.argv[1] == "--version":
    sys.exit(print("fio-3.33"))
words = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
done = here / "runs"
n = len(done.read_text().splitlines()) if done.exists() else 0
done.open("a").write(words["--section"] + "\\n")
(here / "worked").open("a").write(str(__import__("time").time_ns()) + "\\n")
figures = json.loads((here / "iops").read_text())
iops = figures[min(n, len(figures) - 1)]
none = {{"total_ios": 0, "io_bytes": 0, "iops": 0.0, "bw_bytes": 0, "lat_ns": {{"min": 0, "max": 0, "mean": 0.0}}}}
read = {{"total_ios": 100, "io_bytes": 409600, "iops": iops, "bw_bytes": int(iops * 4096),
        "lat_ns": {{"min": 1, "max": 9, "mean": 1e9 / iops}}}}
job = {{"jobname": words["--section"], "groupid": 0, "read": read, "write": none}}
pathlib.Path(words["--output"]).write_text("fio: a warning\\n" + json.dumps({{"fio version": "fio-3.33", "jobs": [job]}}))
"""


class Lab:
    """``power``: W at times in seconds after the last marker, None for a silent rig; ``commands``: whether it sees any. Each turn brings a
    second of the rail."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.power: Callable[[float], float] | None = lambda _t: 0.5
        for name, text in (("nvme", NVME), ("fio", FIO.format(python=sys.executable))):
            (root / name).write_text(text)
            (root / name).chmod(0o755)
        self.tools = Tools({"nvme": str(root / "nvme"), "fio": str(root / "fio")})
        self.device = Device("/dev/nvme9n2", "nvme9n2", "nvme9", "M", "S", "F", 1 << 40, 512, "", 7)
        self.said: list[str] = []
        self.commands = False
        self.mounted = ""
        self.deaf_from = 1 << 30
        """The number of the first marker that its rig does not see, of those sent."""
        self.markers_seen = 0
        self.marker_seen_ns = 0
        (root / "plans").mkdir()
        monkeypatch.setattr(recording, "record", self.record)
        monkeypatch.setattr(recording, "_POLL_S", 0.01)

    def record(self, _rig: object, writer: CaptureWriter, _limits: object, *, stop: threading.Event) -> str:
        tick, number, since = S, 2, S
        markers = self.root / "markers"
        writer.feed(e.status(0, tick, run=1) + e.events(1, tick, [(tick, 15, 1, 0, 0)]))
        if self.commands:
            writer.feed(e.commands(number, tick, [e.Command(tick + 1000, 1000, 900)]))
            number += 1
        while not stop.is_set():
            values = markers.read_text().splitlines() if markers.exists() else []
            blocks = b""
            for line in values[self.markers_seen : self.deaf_from]:
                opcode, selector, value = (int(word, 0) for word in line.split())
                if (opcode, selector) == (10, 0xD0):
                    blocks += e.events(number, tick, [(tick, 7, 0, 0, value)])
                else:  # to the rig a command as any other
                    seen = e.Command(tick + 900, 900, 800, opcode=opcode, qid=0, nsid=0, blocks=value, slba=selector, status=0x4002)
                    blocks += e.commands(number, tick, [seen])
                number, tick, since = number + 1, tick + 1000, tick
            self.markers_seen = len(values)
            power = self.power
            if power is not None:
                samples = []
                for k in range(round(STEP_S / SAMPLE_S)):
                    watts = power((tick - since) / S + k * SAMPLE_S)
                    samples.append((165_000, round(watts / 3.3 / 500e-9)))
                blocks += e.rail(number, tick, samples, interval=round(SAMPLE_S * S))
                number, tick = number + 1, tick + round(STEP_S * S)
            if blocks:
                writer.feed(blocks)
            time.sleep(0.005)
        writer.feed(e.events(number, tick, [(tick, 15, 0, 0, 0)]) + e.status(number + 1, tick, run=0))
        return "stopped by the user"

    def run(self, *steps: Mapping[str, Any], **more: Any) -> list[Any]:
        rig: Any = SimpleNamespace(description={"data_port": "none"}, conditions=dict)
        typed = msgspec.convert(steps, tuple[Step, ...])
        recorder = None if "meter" in more else rig
        phases = bench.run_session(
            self.device,
            recorder,
            typed,
            self.root / "plans",
            self.root / "capture",
            journal=self.root / "restore.json",
            description={},
            conditions={"notes": []},
            tools=self.tools,
            say=self.said.append,
            **more,
        )
        return list(to_json(phases))

    def on_the_bench(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In place of a real bench's drive and rig, for campaigns and for the command line."""
        self.commands = True
        rig = SimpleNamespace(
            description={"data_port": "none"},
            conditions=dict,
            port=SimpleNamespace(virtual=False, serial="LAB-1"),
            set_interval=lambda _: None,
            set_decimation=lambda _: None,
            control=SimpleNamespace(query=self.query),
        )
        monkeypatch.setenv("PATH", f"{self.root}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(real, "inspect", lambda _: self.device)
        monkeypatch.setattr(real, "refuse_in_use", self.refuse_in_use)
        monkeypatch.setattr(real.Rig, "open", lambda _: contextlib.nullcontext(rig))

    def query(self, command: str) -> str:
        """In place of a rig with firmware that does not know the switch."""
        raise RigError(f"-113, undefined header: {command}")

    def refuse_in_use(self, _device: Device) -> None:
        if self.mounted:
            raise DriveError(f"{self.device.path} is in use (mounted on {self.mounted}). Nothing was written; free it first.")

    def words(self, name: str) -> list[str]:
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []
