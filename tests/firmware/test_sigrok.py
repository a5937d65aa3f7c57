"""sigrok's scpi-dmm driver, which nobody here wrote, reads the rail through a raw TCP socket."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading

import pytest
from rig import Rig

pytestmark = pytest.mark.skipif(not shutil.which("sigrok-cli"), reason="sigrok-cli is not installed")


class Server(threading.Thread):
    """Bytes of one client after the other, to the firmware and back."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(daemon=True)
        self.rig, self.seen = rig, b""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client:
                while data := client.recv(4096):
                    self.seen += data
                    self.rig.send(data)
                    self.rig.settle()
                    client.sendall(self.rig.read())


@pytest.mark.parametrize(("setup", "unit", "value"), [("CONF:VOLT", "V", 3.3), ("CONF:CURR", "A", 0.5)])
def test_sigrok_reads_the_rail(rig: Rig, setup: str, unit: str, value: float) -> None:
    rig.do(f'SYST:LANG "34405A";:{setup};:SENS:APER 10 MS;:INIT')
    server = Server(rig)
    server.start()
    try:
        command = ["sigrok-cli", "-d", f"scpi-dmm:conn=tcp-raw/127.0.0.1/{server.port}", "--samples", "3", "-O", "analog"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    finally:
        server.socket.close()
    # sigrok-cli 0.7.2 ends with 1 and a complaint of its own (g_atomic_ref_count_dec) after a SCPI device, whatever it answered
    assert done.returncode in (0, 1), done.stderr
    readings = re.findall(rf"P1: ([-+0-9.]+) (m?){unit} DC", done.stdout)
    assert len(readings) == 3, done.stdout + done.stderr
    for number, milli in readings:
        assert float(number) * (1e-3 if milli else 1) == pytest.approx(value, abs=2e-4)
    assert b"*IDN?" in server.seen and b"READ?" in server.seen
    assert rig.peek("CONTROL") == 1  # sigrok's ABORT left the capture alone
