"""The SUMP server at its port, without a rig: floods of commands, clients that do not read, any bytes."""

from __future__ import annotations

import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell import __version__
from wattbell.errors import RigError
from wattbell.probes import PROBES
from wattbell.serve.sump import CaptureOptions, Server, open_pty
from wattbell.serve.sump.protocol import IDENTITY, ArmSettings, Parser, metadata

from tests.host.fuzzing import examples
from tests.patience import PATIENCE_S

RESET, ARM, ID, METADATA = bytes(5), b"\x01", b"\x02", b"\x04"


class Rigs:
    """Fails to open after a while; counts how many were being opened at a time."""

    def __init__(self) -> None:
        self.asked = self.most = self._now = 0
        self._lock, self.go = threading.Lock(), threading.Event()

    def open(self) -> Any:
        with self._lock:
            self.asked += 1
            self._now += 1
            self.most = max(self.most, self._now)
        assert self.go.wait(PATIENCE_S)
        with self._lock:
            self._now -= 1
        raise RigError("there is none")


class Served:
    """A server on a pseudo-terminal, and its client's end."""

    def __init__(self, open_rig: Callable[[], Any]) -> None:
        self.said: list[str] = []
        self.port = open_pty()
        self.server = Server(self.port, open_rig, CaptureOptions(), self.said.append)
        self.line = os.open(self.port.name, os.O_RDWR | os.O_NOCTTY)
        self.thread = threading.Thread(target=self.server.serve, daemon=True)
        self.thread.start()

    def send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.line, data) :]

    def read_until(self, end: bytes) -> bytes:
        got, deadline = b"", time.monotonic() + PATIENCE_S
        while not got.endswith(end):
            assert time.monotonic() < deadline, got[-100:]
            if select.select([self.line], [], [], 1)[0]:
                got += os.read(self.line, 1)
        return got

    def close(self) -> None:
        self.server.stop()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        os.close(self.line)
        self.port.close()


def captures() -> int:
    return sum(thread.name == "wattbell-sump" for thread in threading.enumerate())


def test_ten_thousand_arms_are_one_capture_and_one_thread() -> None:
    rigs = Rigs()
    served = Served(rigs.open)
    served.send(ARM * 10_000 + ID)
    served.read_until(IDENTITY)  # all were executed
    assert captures() == 1
    rigs.go.set()
    deadline = time.monotonic() + PATIENCE_S
    while captures() or len(served.said) < 2:
        assert time.monotonic() < deadline, served.said
        time.sleep(0.01)
    served.close()
    assert (rigs.most, rigs.asked) == (1, 2), "the first, and the newest of those that replaced it"
    assert served.said == ["no capture: there is none"] * 2


def test_a_reset_takes_back_an_arm_that_waits() -> None:
    rigs = Rigs()
    served = Served(rigs.open)
    served.send(ARM * 2 + RESET + ID)
    served.read_until(IDENTITY)
    rigs.go.set()
    served.send(ID)
    served.read_until(IDENTITY)
    served.close()
    assert rigs.asked == 1
    assert captures() == 0


def test_a_client_that_does_not_read_does_not_fill_the_memory() -> None:
    served = Served(Rigs().open)
    served.send(METADATA * 100_000)
    got, deadline = b"", time.monotonic() + PATIENCE_S
    while not got.endswith(IDENTITY):
        assert time.monotonic() < deadline
        served.send(ID)
        if select.select([served.line], [], [], 1)[0]:
            got += os.read(served.line, 1 << 16)
    served.close()
    assert got.startswith(metadata(__version__, len(PROBES)))
    assert len(got) < 1 << 17, "of three megabytes of answers it kept a few"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    rigs = Rigs()
    rigs.go.set()
    one = Served(rigs.open)
    yield one
    one.close()


@examples(60)
@given(st.lists(st.binary(min_size=1, max_size=60), max_size=8))
def test_any_bytes_and_five_resets_leave_it_in_step(served: Served, pieces: list[bytes]) -> None:
    for piece in pieces:
        served.send(piece)
        assert captures() <= 1
    served.send(RESET + ID + METADATA)
    served.read_until(IDENTITY + metadata(__version__, len(PROBES)))


@examples(300)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_commands_do_not_depend_on_how_bytes_come(data: bytes, cuts: list[int]) -> None:
    whole = Parser().feed(data)
    parser, found, at = Parser(), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += parser.feed(data[at:cut])
        at = max(at, min(cut, len(data)))
    assert found == whole
    assert sum(5 if command & 0x80 else 1 for command, _ in whole) + 4 >= len(data), "at most the argument of a command waits"


@examples(300)
@given(st.lists(st.tuples(st.integers(0x80, 0xFF), st.integers(0, 2**32 - 1)), max_size=12))
def test_any_settings_are_a_capture_of_bounded_size(commands: list[tuple[int, int]]) -> None:
    settings = ArmSettings()
    for command, argument in commands:
        settings.apply(command, argument)
    assert 1 <= settings.samples <= 1 << 22
    assert settings.samples * len(settings.groups) <= 1 << 22
    assert settings.period_ticks >= 5
    assert all(isinstance(text, str) for text in settings.refusals())


def test_the_port_is_for_this_user_alone() -> None:
    port = open_pty()
    assert stat.S_IMODE(os.stat(port.name).st_mode) == 0o600
    port.close()
