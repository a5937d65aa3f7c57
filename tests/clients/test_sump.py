"""`wattbell sump` at its port: arbitrary bytes, a reset at any time. For sigrok's view see test_sump_line.py."""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner
from wattbell import __version__
from wattbell.cli.app import app
from wattbell.errors import RigError, WattbellError
from wattbell.probes import PROBES
from wattbell.rig import Rig as HostRig
from wattbell.rig.discovery import at_ports
from wattbell.serve.sump import CaptureOptions, Server, Threshold, open_pty
from wattbell.serve.sump.protocol import IDENTITY, metadata

from tests.sim.rig.rig_process import PATIENCE_S, Rig, find, run, wait_until

pytestmark = pytest.mark.xdist_group("virtual-rig")

RESET, ARM, ID = bytes(5), b"\x01", b"\x02"


class Client(threading.Thread):
    """A server on a pseudo-terminal, and its client's end."""

    def __init__(self, open_rig: object, options: CaptureOptions) -> None:
        super().__init__(daemon=True)
        self.said: list[str] = []
        self.port = open_pty()
        self.server = Server(self.port, open_rig, options, self.said.append)  # type: ignore[arg-type]
        self.line = os.open(self.port.name, os.O_RDWR | os.O_NOCTTY)
        self.start()

    def run(self) -> None:
        self.server.serve()

    def send(self, data: bytes) -> None:
        os.write(self.line, data)

    def long(self, command: int, argument: int) -> None:
        self.send(struct.pack("<BI", command, argument))

    def read(self, size: int, patience_s: float = PATIENCE_S) -> bytes:
        """Read this many bytes, or as many as arrive in time."""
        got, deadline = b"", time.monotonic() + patience_s
        while len(got) < size and select.select([self.line], [], [], max(0.0, deadline - time.monotonic()))[0]:
            got += os.read(self.line, size - len(got))
        return got

    def close(self) -> None:
        self.server.stop()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        os.close(self.line)
        self.port.close()


def no_rig() -> HostRig:
    raise RigError("there is none")


@pytest.fixture(scope="module")
def alone() -> Iterator[Client]:
    """Start a server without a rig."""
    one = Client(no_rig, CaptureOptions())
    yield one
    one.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8))
def test_any_bytes_and_five_resets_leave_it_in_step(alone: Client, pieces: list[bytes]) -> None:
    termios.tcflush(alone.line, termios.TCIFLUSH)
    for piece in pieces:
        alone.send(piece)
    alone.send(RESET + ID + b"\x04")
    expected = IDENTITY + metadata(__version__, len(PROBES))
    got, deadline = b"", time.monotonic() + PATIENCE_S
    while not got.endswith(expected):
        assert time.monotonic() < deadline, got
        got += alone.read(1, 1)


def test_an_arm_without_a_rig_is_one_line(alone: Client) -> None:
    alone.send(RESET)
    alone.long(0x82, 0)
    alone.said.clear()
    alone.send(ARM)
    wait_until(lambda: bool(alone.said), "a word")
    assert alone.said == ["no capture: there is none"]
    assert alone.read(1, 0.2) == b""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("sump")
    (folder / "plan.toml").write_text('condition = "test-data"\n[[step]]\nname = "idle"\nidle_s = 0.5\n')
    trace = folder / "drive.wbt"
    run([find("wattbell-ssd"), "run", "--plan", folder / "plan.toml", "--trace", trace])
    one = Rig(folder, trace, "--serial", "SUMP2", ports=False)
    one.control.close()
    yield one
    assert one.process.poll() is None
    one.close()


@pytest.fixture
def client(rig: Rig) -> Iterator[Client]:
    where = at_ports(f"{rig.entry['data']},{rig.entry['control']}")
    one = Client(lambda: HostRig(where), CaptureOptions([Threshold("voltage", 3.0)]))
    yield one
    one.close()


def test_a_reset_ends_a_capture_and_frees_the_rig(rig: Rig, client: Client) -> None:
    client.send(RESET)
    client.long(0xC0, 1 << PROBES.index("PERST#"))
    client.long(0xC1, 0)
    client.long(0xC2, 1 << 27 | 3 << 16)  # level 3: nothing gets there
    client.long(0x80, 999)
    client.send(ARM)
    wait_until(lambda: rig.status()["state"] == "RUN", "the capture's begin")
    client.send(RESET + ID)
    assert client.read(4, 10) == IDENTITY, "the answer does not wait for the rig"
    wait_until(lambda: rig.status()["state"] == "READY", "its end")
    client.send(RESET)
    client.long(0x84, 24)
    client.long(0x83, 24)
    client.long(0x82, 0x30)
    client.send(ARM)
    words = struct.unpack("<100H", client.read(200))
    assert {word & ~31 for word in words} == {1 << len(PROBES)}, "3.3 V, and no command before the link is up"
    assert client.said == []
    wait_until(lambda: rig.status()["state"] == "READY", "its end")


def test_a_rig_that_captures_already_goes_on(rig: Rig, client: Client) -> None:
    with HostRig(at_ports(f"{rig.entry['data']},{rig.entry['control']}")) as other:
        other.start()
        client.send(RESET + ARM)
        wait_until(lambda: bool(client.said), "a refusal")
        assert "is another program" in client.said[0]
    client.said.clear()
    client.long(0x82, 0x38)
    client.long(0x80, 99)
    client.send(RESET + ARM)
    assert len(client.read(4)) == 4, "a group of 8 channels, 4 samples"
    assert rig.status()["state"] == "RUN"


def test_a_rig_that_is_lost_is_one_line(rig: Rig, tmp_path: Path) -> None:
    other = Rig(tmp_path, rig.process.args[2], "--serial", "SUMP3", ports=False)  # type: ignore[index]
    other.control.close()
    client = Client(lambda: HostRig(at_ports(f"{other.entry['data']},{other.entry['control']}")), CaptureOptions())
    client.long(0xC1, 1)
    client.long(0xC2, 1 << 27 | 3 << 16)
    client.send(ARM)
    wait_until(lambda: other.status()["state"] == "RUN", "the capture's begin")
    other.process.kill()
    wait_until(lambda: bool(client.said), "a word")
    client.send(RESET + ID)
    assert client.read(4) == IDENTITY
    client.send(ARM)
    wait_until(lambda: len(client.said) > 1, "another word")
    assert "was lost" in client.said[0] and "There is no port" in client.said[1]
    client.close()
    other.close()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--level", "heat=3"], "one of voltage, current, power"),
        (["--level", "current=nan"], "one of voltage, current, power"),
        (["--settle", "-1"], "from 0 to 10 s"),
        (["--port", "/dev/none"], "/dev/none cannot be opened"),
        ([f"--level=power={watts}" for watts in range(7)], "room for 6 levels"),
        (["--rig", "NONE"], "No rig NONE"),
    ],
)
def test_what_it_cannot_do_is_one_line(words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["sump", "--rig", "/dev/null,/dev/null", *words])
    assert isinstance(done.exception, WattbellError), done.output
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)


def test_the_program_on_a_serial_line_that_is_cut() -> None:
    near, far = os.openpty()
    tty.setraw(far)
    words = ["--rig", "/dev/null,/dev/null", "--port", os.ttyname(far), "--level", "power=2.5", "--json"]
    command = [sys.executable, "-m", "wattbell", "sump", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        assert one.stdout
        told = json.loads(one.stdout.readline())
        assert (told["port"], told["channels"][-1]) == (os.ttyname(far), "power>2.5W")
        os.close(far)
        os.write(near, RESET + ID)
        assert os.read(near, 4) == IDENTITY
        os.close(near)
        _, said = one.communicate()
    assert one.returncode == 1
    assert "was lost" in said and "Traceback" not in said
