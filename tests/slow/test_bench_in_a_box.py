"""A whole bench in a Linux guest: `wattbell run --drive` with real fio, nvme-cli and kernel drivers, on our modelled drive.

The reference is what the guest's kernel reports of the drive's settings before and after, and fio's own output.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from wattbell.capture import open_capture

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("box"), pytest.mark.timeout(900)]

MANIFEST = """
name = "box"
title = "What the box is tried with"
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
idle_s = 5.0
apst = true
aspm = "l1.2"
"""
JOB = """
[global]
filename=${WATTBELL_DRIVE}
ioengine=libaio
direct=1
rw=randread
bs=4k
size=16m
io_size=512k
stonewall
[qd1]
iodepth=1
[qd4]
iodepth=4
"""
SCRIPT = r"""
D=/dev/nvme0n1; S=WATTBELL660P0001
run() { wattbell run suite --yes --drive $D --rig /dev/ttyS1,/dev/ttyS2 --interval 0.001 "$@"; }
settings() {
    cat /sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us /sys/block/nvme0n1/queue/scheduler /sys/block/nvme0n1/queue/nomerges
    nvme get-feature /dev/nvme0 -f 2
}
python - > pyserial.txt 2>&1 <<'END'
import serial
with serial.Serial("/dev/ttyS2", 115200, timeout=60) as port:
    for question in (b"*IDN?", b"*CLS;*OPC?"):
        port.write(question + b"\n")
        print(port.readline().decode().strip())
END
settings > before.txt
run --out wrong --serial NOT-THIS-ONE 2> wrong.txt; echo $? >> wrong.txt
mkfs.ext4 -q $D 64M && mkdir -p /mnt/box && mount $D /mnt/box
run --out wrong --serial $S 2> mounted.txt; echo $? >> mounted.txt
umount /mnt/box
ls -d wrong > made.txt 2>&1
# Ctrl-C while the drive is read: by then its settings are changed
wattbell run suite --yes --drive $D --rig /dev/ttyS1,/dev/ttyS2 --interval 0.001 --out out --serial $S > first.txt 2>&1 &
n=0; until grep -q 'random-read/qd1' first.txt || [ $n -gt 1200 ]; do sleep 0.1; n=$((n + 1)); done
cat /sys/block/nvme0n1/queue/nomerges > during.txt
kill -INT $!; wait $!; echo $? > first-code
settings > after.txt
ls out > left.txt
run --out out --serial $S --resume > second.txt 2>&1; echo $? > second-code
settings > end.txt
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("box")
    (out / "suite").mkdir()
    (out / "suite/manifest.toml").write_text(MANIFEST)
    (out / "suite/read.fio").write_text(JOB)
    command = [sys.executable, str(ROOT / "sim/guest/box.py"), "--out", str(out), "--script", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert (out / "second-code").is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    return out


def text(box: Path, name: str) -> str:
    return (box / name).read_text()


def test_pyserial_speaks_to_the_rig_over_the_guests_serial_port(box: Path) -> None:
    identity, complete = text(box, "pyserial.txt").splitlines()
    assert identity.startswith("Wattbell,virtual-rig,BOX1,")
    assert complete == "1"


def test_the_wrong_drive_and_a_drive_in_use_are_refused_before_anything_is_written(box: Path) -> None:
    assert "NOT-THIS-ONE. Nothing was written." in text(box, "wrong.txt")
    assert "mounted on /mnt/box" in text(box, "mounted.txt")
    for name in ("wrong.txt", "mounted.txt"):
        assert text(box, name).endswith("\n1\n"), name
        assert "Traceback" not in text(box, name)
    assert "cannot access" in text(box, "made.txt")


def test_ctrl_c_puts_every_setting_back(box: Path) -> None:
    assert text(box, "during.txt") == "2\n", "the run had changed nothing: the test proves nothing"
    assert text(box, "before.txt").splitlines()[2] == "0"
    assert text(box, "after.txt") == text(box, "before.txt")
    assert text(box, "end.txt") == text(box, "before.txt")
    assert int(text(box, "first-code")) not in (0, 70)
    assert "interrupted; what was recorded" in text(box, "first.txt")
    assert "restore.json" not in text(box, "left.txt")
    assert "Traceback" not in text(box, "first.txt")
    interrupted = open_capture(next((box / "out/captures").glob("*-interrupted")))
    assert interrupted.commands.collect().height > 0


def test_an_interrupted_suite_goes_on(box: Path) -> None:
    assert text(box, "second-code").strip() == "0", text(box, "second.txt")
    results = json.loads(text(box, "out/results.json"))
    assert [test["test"] for test in results["tests"]] == ["random-read", "idle"]
    assert results["suite"] == "box"
    assert results["scaled"] is False
    assert results["drive"]["serial"] == "WATTBELL660P0001"
    assert results["lost"] == {} or all(n == 0 for n in results["lost"].values())


def test_the_rig_and_fio_count_the_same(box: Path) -> None:
    (capture,) = (path for path in (box / "out/captures").iterdir() if not path.name.endswith("-interrupted"))
    command = [sys.executable, "-m", "wattbell", "analyze", str(capture), "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["fio"]["equal"] is True
    assert found["fio"]["latency_ok"] is True


def test_idle_is_the_deepest_state_of_the_kernels_own_apst_table(box: Path) -> None:
    results = json.loads(text(box, "out/results.json"))
    idle = next(test for test in results["tests"] if test["test"] == "idle")
    settled = next(score["value"]["value"] for score in idle["scores"] if score["name"].startswith("settled"))
    assert 0.009 < settled < 0.011  # the 10 mW of the review that the profile follows
