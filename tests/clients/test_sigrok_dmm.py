"""sigrok's scpi-dmm driver reads the rail through the bridge."""

from __future__ import annotations

import re
import socket
import subprocess

import pytest
from wattbell.rig import ScpiConnection

from tests.clients.terminal import Bridged, Terminal
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.needs("sigrok-cli")


@pytest.mark.parametrize(("setup", "unit", "value"), [("CONF:VOLT", "V", 3.3), ("CONF:CURR", "A", 0.5)])
def test_sigrok_reads_the_rail(terminal: Terminal, bridged: Bridged, setup: str, unit: str, value: float) -> None:
    rig = ScpiConnection(terminal.control)
    rig.command(f'SYST:LANG "34405A";:{setup};:SENS:APER 10 MS;:INIT')
    rig.close()
    host, port = bridged.address
    command = ["sigrok-cli", "-d", f"scpi-dmm:conn=tcp-raw/{host}/{port}", "--samples", "3", "-O", "analog"]
    done = subprocess.run(command, capture_output=True, text=True)
    # after a SCPI device, sigrok-cli 0.7.2 always ends with 1 and its own complaint (g_atomic_ref_count_dec)
    assert done.returncode in (0, 1), done.stderr
    readings = re.findall(rf"P1: ([-+0-9.]+) (m?){unit} DC", done.stdout)
    assert len(readings) == 3, done.stdout + done.stderr
    for number, milli in readings:
        assert float(number) * (1e-3 if milli else 1) == pytest.approx(value, abs=2e-4)
    with socket.create_connection(bridged.address, timeout=PATIENCE_S) as client:
        client.sendall(b"STAT:RIG?\n")
        assert b"state=RUN" in client.recv(4096), "sigrok's ABORT leaves the capture alone"
