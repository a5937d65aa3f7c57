"""Programs in a Linux guest, at serial ports with a virtual rig behind them: pyserial, sigrok's `scpi-dmm`, `wattbell record`.

The ports are QEMU's 16550s under the kernel's 8250 driver. The rig plays a trace of the drive model.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from wattbell.capture import open_capture

from tests.clients.trace_samples import Truth, modelled
from tests.patience import PATIENCE_S
from tests.sim.rig.rig_process import ORIGIN_TICK, ROOT, Rig

pytestmark = [pytest.mark.xdist_group("real-linux")]

DATA, CONTROL = "/dev/ttyS1", "/dev/ttyS2"
SCRIPT = rf"""
python - > pyserial.txt 2>&1 <<'END'
import serial
with serial.Serial("{CONTROL}", 115200, timeout={PATIENCE_S}) as port:
    for question in (b"*IDN?", b"*CLS;*OPC?", b'SYST:LANG "34405A";:CONF:VOLT;:SENS:APER 1 MS;:READ?'):
        port.write(question + b"\n")
        print(port.readline().decode().strip())
END
for n in $(seq 40); do  # it waits a second for *IDN?, in which a busy machine may not simulate the core as far
    sigrok-cli -d scpi-dmm:conn={CONTROL} --samples 3 -O analog > dmm.txt 2> dmm.err
    test $(grep -c P1: dmm.txt) = 3 && break
done
python - > after.txt 2>&1 <<'END'
import serial
with serial.Serial("{CONTROL}", 115200, timeout={PATIENCE_S}) as port:
    port.write(b'SYST:LANG "WATTBELL";:SYST:LANG?;ERR?\n')
    print(port.readline().decode().strip())
END
date +%s.%N > times
wattbell record --rig {DATA},{CONTROL} --out capture --decimation 500 --keep-stream --json > record.json 2> record.err
echo "record $?" > codes
date +%s.%N >> times
"""


@dataclass
class Guest:
    """The files the guest left."""

    folder: Path
    truth: Truth

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    folder = tmp_path_factory.mktemp("line")
    trace, commands = modelled(folder)
    rig = Rig(folder, trace, "--serial", "LINE1", ports=False)
    rig.control.close()
    try:
        command = [sys.executable, ROOT / "sim/guest/box.py", "--no-drive", "--out", folder / "box", "--script", SCRIPT]
        command += ["--port", rig.entry["data"], "--port", rig.entry["control"]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        rig.close()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return Guest(folder / "box", Truth(trace, commands))


def test_pyserial_speaks_to_a_rig(guest: Guest) -> None:
    identity, complete, volts = guest.text("pyserial.txt").splitlines()
    assert identity.startswith("Wattbell,virtual-rig,LINE1,")
    assert complete == "1" and float(volts) > 0


def test_sigrok_reads_the_rail_over_the_serial_line(guest: Guest) -> None:
    """sigrok's `scpi-dmm` takes the rig for a 34405A. Here libsigrok's serial layer uses the kernel's tty, not a socket."""
    volts = float(guest.text("pyserial.txt").splitlines()[-1])
    readings = re.findall(r"P1: ([-0-9.]+) (m?)V DC", guest.text("dmm.txt"))
    assert len(readings) == 3, guest.text("dmm.txt") + guest.text("dmm.err")
    for number, milli in readings:
        assert float(number) * (1e-3 if milli else 1) == pytest.approx(volts, abs=0.05), "the rail gives way to what the drive draws"
    assert guest.text("after.txt").strip() == '"WATTBELL";0,"No error"'


def test_record_over_the_serial_line_loses_nothing(guest: Guest) -> None:
    assert guest.text("codes").split() == ["record", "0"]
    told = json.loads(guest.text("record.json"))
    assert told["ended"] == "the rig stopped"
    assert told["lossless"] is True, told["loss"]
    assert told["loss"]["bytes_in"] == (guest.folder / "capture/stream.wbs").stat().st_size
    wire = open_capture(guest.folder / "capture").commands.select(pl.col("doorbell_tick", "fetch_tick", "cqe_tick")).collect()
    for name in ("DOORBELL", "FETCH", "CQE"):
        ticks = np.unique(wire[f"{name.lower()}_tick"].to_numpy()) - ORIGIN_TICK
        assert np.array_equal(ticks, guest.truth.strobes[name])
    begun, ended = (float(line) for line in guest.text("times").splitlines())
    print(f"record: {ended - begun:.0f} s for {told['loss']['bytes_in']} bytes; now {time.strftime('%T')}")
