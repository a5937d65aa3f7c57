"""The same programs on the virtual rig: the firmware on its Verilated soft core, the Verilated instrument, and a modelled drive on
the rail.
"""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.clients.screen import Screen
from tests.clients.terminal import Bridged
from tests.patience import PATIENCE_S
from tests.sim.rig.rig_process import Rig, find, run
from tests.sim.rig.rig_trace import RAIL, records

pyvisa = needs.library("pyvisa")
pytestmark = pytest.mark.xdist_group("virtual-rig")


class Drive:
    """A rig with the SSD model as its drive: power-on, 0.12 s of idling, some I/O, idling."""

    def __init__(self, folder: Path) -> None:
        job, trace = folder / "job.fio", folder / "drive.wbt"
        job.write_text("[mix]\nrw=randrw\nbs=4k\ndirect=1\niodepth=4\nsize=16m\ntime_based=1\nruntime=2ms\n")
        run([find("wattbell-ssd"), "run", "--job", job, "--trace", trace, "--fio-json", folder / "fio.json"])
        self.rig = Rig(folder, trace, "--serial", "CLIENTS", ports=False)
        self.rig.control.close()
        self.port = str(self.rig.entry["control"])
        self._steps = [(time_ps * 1e-3, *struct.unpack("<qq", body)) for kind, _, time_ps, body in records(trace) if kind == RAIL]

    def now_ns(self) -> float:
        """Return the time in the trace."""
        return float(self.rig.status()["tick"] - self.rig.entry["origin_tick"])

    def mean(self, start_ns: float, stop_ns: float) -> tuple[float, float, float]:
        """Return the model's mean V, A and W."""
        total = [0.0, 0.0, 0.0]
        for (at, amps, volts), (until, *_) in zip(self._steps, [*self._steps[1:], (float("inf"),)]):
            part = max(0.0, min(until, stop_ns) - max(at, start_ns)) / (stop_ns - start_ns)
            for n, value in enumerate((volts * 1e-9, amps * 1e-9, volts * 1e-9 * amps * 1e-9)):
                total[n] += part * value
        return total[0], total[1], total[2]


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drive]:
    one = Drive(tmp_path_factory.mktemp("rig"))
    yield one
    assert one.rig.process.poll() is None
    one.rig.close()


@pytest.fixture
def control(drive: Drive) -> str:
    """Return the rig's control port."""
    return drive.port


@pytest.fixture
def bridged(control: str) -> Iterator[Bridged]:
    one = Bridged(control)
    yield one
    until = time.monotonic() + PATIENCE_S
    while one.said and not one.said[-1].endswith("is gone"):  # otherwise late answers would reach the next test
        assert time.monotonic() < until, one.said
        time.sleep(0.01)
    one.stop()


@pytest.mark.parametrize("way", ["serial", "socket"])
def test_pyvisa(control: str, bridged: Bridged, way: str) -> None:
    host, port = bridged.address
    name = f"ASRL{control}::INSTR" if way == "serial" else f"TCPIP::{host}::{port}::SOCKET"
    manager = pyvisa.ResourceManager("@py")
    with manager.open_resource(name, read_termination="\n", write_termination="\n", timeout=PATIENCE_S * 1000) as rig:
        assert rig.query("*IDN?").startswith("Wattbell,virtual-rig,CLIENTS,")
        assert rig.query("CAL:STAT?;*OPC?") == "1;1"
        rig.write("*CLS;:SENS:SWE:DEC 0")
        assert rig.query("SYST:ERR?").startswith("-222,")
        offset, gain = rig.query_ascii_values("CAL:CURR:DATA?", converter="d")
        assert abs(gain / 1048576000 - 1) < 0.02
        assert abs(offset) < 256 * 200
    manager.close()


def test_pyvisa_reads_what_the_drive_draws(drive: Drive, control: str) -> None:
    manager = pyvisa.ResourceManager("@py")
    with manager.open_resource(f"ASRL{control}::INSTR", read_termination="\n", write_termination="\n", timeout=PATIENCE_S * 1000) as rig:
        rig.write("SENS:APER 10 MS")
        before = drive.now_ns()
        amps = rig.query_ascii_values("MEAS:CURR?")[0]
        assert before < 6e6 < before + 10e6, "the drive's step from starting to idling lies in it"
        volts, watts = rig.query_ascii_values("FETC:VOLT?;:FETC:POW?", separator=";")
        assert (volts, amps, watts) == pytest.approx(drive.mean(before, before + 10e6), rel=2e-3)
        rig.write("SENS:APER 1 MS;FUNC 'POW'")
        before = drive.now_ns()
        assert rig.query_ascii_values("READ?")[0] == pytest.approx(drive.mean(before, before + 1e6)[2], rel=1e-3)
        joules, quality = rig.query("FETC:ENER?;:FETC:QUAL?").split(";")
        seconds = float(quality.split(",")[1])
        assert float(joules) == pytest.approx(drive.mean(before, before + 1e6)[2] * seconds, rel=1e-3)
    manager.close()


@pytest.mark.needs("picocom")
def test_picocom(control: str) -> None:
    screen = Screen(control)
    screen.until("Terminal ready")
    screen.type("*idn?\r")
    screen.until(r"\nWattbell,virtual-rig,CLIENTS,")
    screen.type("oops\rsystem:error?\r")
    screen.until(r'\n-113,"Undefined header')
    screen.leave()


@pytest.mark.needs("sigrok-cli")
def test_sigrok_takes_it_for_the_multimeter_that_it_says_it_is(drive: Drive, bridged: Bridged) -> None:
    """sigrok finds the rig and reads the rail."""
    host, port = bridged.address
    with socket.create_connection(bridged.address, timeout=PATIENCE_S) as client:
        client.sendall(b'SYST:LANG "34405A";:CONF:CURR;:SENS:APER 1 MS;:SYST:LANG?\n')
        assert b"34405A" in client.recv(100)
    command = ["sigrok-cli", "-d", f"scpi-dmm:conn=tcp-raw/{host}/{port}", "--scan"]
    for _ in range(20):  # sigrok waits a second for *IDN?, and a busy machine may simulate the core more slowly than that
        done = subprocess.run(command, capture_output=True, text=True)
        if done.stdout:
            break
    assert re.search(r"scpi-dmm - Agilent Technologies 34405A .*S/N: CLIENTS", done.stdout), done.stderr
    for _ in range(20):
        before = drive.now_ns()
        done = subprocess.run([*command[:-1], "--samples", "3", "-O", "analog"], capture_output=True, text=True)
        readings = re.findall(r"P1: ([0-9.]+) (m?)A DC", done.stdout)
        if len(readings) == 3:
            break
    idle = drive.mean(before, drive.now_ns())[1]
    for number, milli in readings:
        assert float(number) * (1e-3 if milli else 1) == pytest.approx(idle, rel=1e-3)
    assert len(readings) == 3, done.stdout + done.stderr
    with socket.create_connection(bridged.address, timeout=PATIENCE_S) as client:
        client.sendall(b'SYST:LANG "WATTBELL";:SYST:LANG?\n')
        assert b"WATTBELL" in client.recv(100)
