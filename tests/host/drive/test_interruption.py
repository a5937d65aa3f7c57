"""Signals while a drive's settings are changed and restored, in real processes with other threads running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wattbell.drive.tools import Tools
from wattbell.errors import DriveError

from tests.patience import PATIENCE_S

# A session whose drive is a folder: sysfs files, a slow `nvme` that keeps its features in a file, no rig.
CHILD = r"""
import signal, sys, threading, time
from pathlib import Path
from types import SimpleNamespace

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and stays so
root = Path(sys.argv[1])
from wattbell.drive import bench, recording, settings
from wattbell.drive.device import Device
from wattbell.drive.tools import Tools
from wattbell.suites.step import Step

def recorded(rig, writer, limits, *, stop):
    while not (root / "first").exists() and not stop.wait(0.01):
        pass
    writer.markers.append((1, int((root / "first").read_text(), 0)))  # the session begins; no other marker is seen
    stop.wait()
    return "stopped"

recording.record = recorded
made = settings.HostSettings.__init__
settings.HostSettings.__init__ = lambda self, device, tools, journal: made(self, device, tools, journal, sys=root / "sys")
for _ in range(3):  # as numpy's and Polars' do: the kernel gives them what the main thread blocks
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
device = Device("/dev/nvme9n1", "nvme9n1", "nvme9", "M", "S", "F", 1 << 30, 512, "0000:01:00.0", 1)
rig = SimpleNamespace(description={"data_port": "none"}, conditions=dict)
steps = [Step(name="rest", idle_s=float(sys.argv[2]), ps=2, write_cache=False)]
class Lost:  # the interpreter swallows an exception that is raised in a finalizer
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def say(text):
    print(text, flush=True)
    if text.endswith("rest") and (root / "lose").exists():
        Lost()

bench.run_session(device, rig, steps, root / "plans", root / "capture", journal=root / "restore.json", description={}, conditions={},
                  tools=Tools({"nvme": str(root / "nvme")}), say=say)
"""
NVME = """#!/bin/bash
# bash, as dash unblocks signals while it waits for a child, which nvme-cli does not: one that came before it had a session would end it
# get-feature DEVICE -f N / set-feature DEVICE -f N --value=V
here=$(dirname "$0")
case $1 in
    get-feature)
        case $5 in --cdw11=*)
            [ -f "$here/first" ] || { echo "${5#--cdw11=}" > "$here/first.new"; mv "$here/first.new" "$here/first"; } ;;
        esac
        [ -f "$here/feature-$4" ] && echo "value:$(cat "$here/feature-$4")" ;;
    set-feature)
        echo "$1 $4 $5" >> "$here/log"
        sleep 0.4
        echo "${5#--value=}" > "$here/feature-$4" ;;
esac
"""


class Bench:
    """The folder, and what its settings were."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = {
            "sys/class/block/nvme9n1/queue/nomerges": "0",
            "sys/class/block/nvme9n1/queue/scheduler": "mq-deadline",
            "sys/bus/pci/devices/0000:01:00.0/power/control": "auto",
            "sys/bus/pci/devices/0000:01:00.0/link/l1_aspm": "1",
            "sys/class/nvme/nvme9/power/pm_qos_latency_tolerance_us": "100000",
            "feature-0x2": "0x0",
            "feature-0x6": "0x1",
        }
        for name, value in self.settings.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value)
        (root / "nvme").write_text(NVME)
        (root / "nvme").chmod(0o755)

    def now(self) -> dict[str, str]:
        return {name: (self.root / name).read_text().strip() for name in self.settings}

    def start(self, idle_s: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD, str(self.root), str(idle_s)]
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.until(process, lambda: "0x6" in self.log() and self.now()["feature-0x6"] == "0x0")
        changed = self.now()
        assert all(changed[name] != value for name, value in self.settings.items()), changed
        return process

    def log(self) -> str:
        path = self.root / "log"
        return path.read_text() if path.exists() else ""

    @staticmethod
    def until(process: subprocess.Popen[str], there: object) -> None:
        assert callable(there)
        deadline = time.monotonic() + PATIENCE_S
        while not there():
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.005)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_while_settings_are_put_back_change_nothing(bench: Bench, first: signal.Signals) -> None:
    process = bench.start(600)
    before = bench.log()
    process.send_signal(first)
    sent = 0
    while process.poll() is None:
        if bench.log() != before:  # settings are being restored
            number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[sent % 3]
            # to the whole group, like a terminal's Ctrl-C: the programs that restore settings must not get it
            os.killpg(process.pid, number) if sent % 2 else process.send_signal(number)
            sent += 1
        time.sleep(0.03)
    _, err = process.communicate()
    assert sent > 1, "the signals came too late: the test proves nothing"
    assert process.returncode != 0
    assert {n: v.lower() for n, v in bench.now().items()} == bench.settings, err
    assert not (bench.root / "restore.json").exists()
    assert "being put back; this ends by itself" in err
    # the first signal comes just before the phase begins or just after: either way the way out goes to its end
    phases = json.loads((bench.root / "capture/workload/phases.json").read_text())
    assert [phase["name"] for phase in phases] in ([], ["rest (broke off)"])


def test_a_signal_after_the_last_step_waits_for_the_settings(bench: Bench) -> None:
    process = bench.start(0.3)
    before = bench.log()
    bench.until(process, lambda: bench.log() != before)
    for _ in range(4):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    process.communicate()
    assert process.returncode != 0
    assert bench.now() == bench.settings
    assert [phase["name"] for phase in json.loads((bench.root / "capture/workload/phases.json").read_text())] == ["rest"]


def test_a_signal_whose_exception_is_lost_ends_the_session(bench: Bench) -> None:
    (bench.root / "lose").touch()
    process = bench.start(600)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert "Exception ignored in" in err
    assert process.returncode != 0
    assert bench.now() == bench.settings
    assert [phase["name"] for phase in json.loads((bench.root / "capture/workload/phases.json").read_text())] == ["rest (broke off)"]


def test_a_storm_of_signals_from_the_first_moment_on(bench: Bench) -> None:
    """Two signals a millisecond apart: the second arrives while the first is being handled."""
    process = bench.start(600)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.001)
    process.communicate()
    assert process.returncode != 0
    assert bench.now() == bench.settings


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_puts_settings_back_is_not_ended_by_a_signal_for_us(tmp_path: Path, number: signal.Signals) -> None:
    """A signal to the whole group may arrive before it has a session of its own."""
    (tmp_path / "nvme").write_text(f"#!/bin/sh\nkill -{int(number)} $$\necho done\n")
    (tmp_path / "nvme").chmod(0o755)
    assert Tools({"nvme": str(tmp_path / "nvme")}).run("nvme") == "done\n"


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    (tmp_path / "nvme").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "nvme").chmod(0o755)
    with pytest.raises(DriveError, match="did not end within 0.5 s"):
        Tools({"nvme": str(tmp_path / "nvme")}).run("nvme", timeout_s=0.5)


def test_nohup_stays_in_force(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom wattbell.drive.interruption import guarded\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with guarded() as gate, gate.open():\n    os.kill(os.getpid(), signal.SIGHUP)\nprint('went on')\n"
        "with guarded() as gate, gate.open():\n    os.kill(os.getpid(), signal.SIGTERM)\nprint('not here')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "went on\n"
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
