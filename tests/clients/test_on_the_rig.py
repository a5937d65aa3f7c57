"""The same programs on the virtual rig: the firmware on its Verilated soft core, beside the Verilated instrument."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sim/rig"))

from rig_process import Rig
from rig_trace import encode, end, rail, sideband
from screen import Screen
from terminal import Bridged

pyvisa = pytest.importorskip("pyvisa")
pytestmark = pytest.mark.xdist_group("virtual-rig")


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The control port of a rig whose drive draws 0.5 A."""
    folder = tmp_path_factory.mktemp("rig")
    trace = folder / "quiet.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 0.5), sideband(10, 1, 1), end(100_000)]))
    rig = Rig(folder, trace, "--serial", "CLIENTS", ports=False)
    rig.control.close()
    yield str(rig.entry["control"])
    assert rig.process.poll() is None
    rig.close()


@pytest.fixture
def bridged(control: str) -> Iterator[Bridged]:
    one = Bridged(control)
    yield one
    one.stop()


@pytest.mark.parametrize("way", ["serial", "socket"])
def test_pyvisa(control: str, bridged: Bridged, way: str) -> None:
    host, port = bridged.address
    name = f"ASRL{control}::INSTR" if way == "serial" else f"TCPIP::{host}::{port}::SOCKET"
    manager = pyvisa.ResourceManager("@py")
    with manager.open_resource(name, read_termination="\n", write_termination="\n", timeout=60_000) as rig:
        assert rig.query("*IDN?").startswith("Wattbell,virtual-rig,CLIENTS,")
        assert rig.query("CAL:STAT?;*OPC?") == "1;1"
        rig.write("*CLS;:SENS:SWE:DEC 0")
        assert rig.query("SYST:ERR?").startswith("-222,")
        offset, gain = rig.query_ascii_values("CAL:CURR:DATA?", converter="d")
        assert abs(gain / 1048576000 - 1) < 0.02
        assert abs(offset) < 256 * 200
    manager.close()


@pytest.mark.skipif(not shutil.which("picocom") and not os.environ.get("CI"), reason="picocom is not installed")
def test_picocom(control: str) -> None:
    screen = Screen(control)
    screen.until("Terminal ready")
    screen.type("*idn?\r")
    screen.until(r"\nWattbell,virtual-rig,CLIENTS,")
    screen.type("oops\rsystem:error?\r")
    screen.until(r'\n-113,"Undefined header')
    screen.leave()


@pytest.mark.skipif(not shutil.which("sigrok-cli") and not os.environ.get("CI"), reason="sigrok-cli is not installed")
def test_sigrok_takes_it_for_the_multimeter_that_it_says_it_is(bridged: Bridged) -> None:
    host, port = bridged.address
    with socket.create_connection(bridged.address, timeout=60) as client:
        client.sendall(b'SYST:LANG "34405A";:SYST:LANG?\n')
        assert b"34405A" in client.recv(100)
    command = ["sigrok-cli", "-d", f"scpi-dmm:conn=tcp-raw/{host}/{port}", "--scan"]
    for _ in range(20):  # sigrok waits a second for *IDN?, and a busy machine may simulate the core more slowly than that
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        if done.stdout:
            break
    assert re.search(r"scpi-dmm - Agilent Technologies 34405A .*S/N: CLIENTS", done.stdout), done.stderr
    with socket.create_connection(bridged.address, timeout=60) as client:
        client.sendall(b'SYST:LANG "WATTBELL";:SYST:LANG?\n')
        assert b"WATTBELL" in client.recv(100)
