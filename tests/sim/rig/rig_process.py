"""Runs ``wattbell-rig`` and speaks to its ports."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import serial
from wattbell.wire.decode import Batch, StreamDecoder

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
ORIGIN_TICK = 1_000_000_000
"""Tick of the trace's beginning (docs/virtual-rig.md)."""
"""The longest time a test waits for something that must happen; generous, for busy machines."""


def find(program: str) -> Path:
    """Return a program of sim/; the error says how to build it."""
    folder = Path(os.environ.get("WATTBELL_SIM_BIN", ROOT / "sim/target/release"))
    path = folder / program
    assert path.exists(), f"{path} is missing: run `make sim rtl`"
    return path


def run(command: list[object], **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; if it fails, the message contains its output."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done


def play(trace: Path, out: Path, *options: object) -> bytes:
    """Plays `trace` at once into a file and returns the stream."""
    stream = out / f"{len(list(out.glob('*.wbs')))}.wbs"
    environment = {**os.environ, "WATTBELL_RUNTIME": str(out / "runtime")}
    command = [find("wattbell-rig"), "play", trace, "--output", stream, "--autostart", "--exit-on-done", *options]
    run(command, env=environment)
    return stream.read_bytes()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something that must happen eventually."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.01)


class Rig:
    """A running rig with both ports open."""

    def __init__(self, folder: Path, trace: object, *options: object, ports: bool = True, **kwargs: Any) -> None:
        self.runtime = folder / "runtime"
        environment = {**os.environ, "WATTBELL_RUNTIME": str(self.runtime)}
        command = [str(part) for part in (find("wattbell-rig"), "play", trace, *options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=False, **kwargs)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode() if self.process.stderr else ""
        self.entry = json.loads(line)
        self.data: serial.Serial | None = None
        if ports:
            self.open_data()
        self.control = serial.Serial(self.entry["control"], 115200, timeout=PATIENCE_S)

    def open_data(self) -> None:
        """Opens the data port (again)."""
        self.data = serial.Serial(self.entry["data"], 115200, timeout=0.2)

    def send(self, line: str) -> None:
        """Sends a line that is not a query."""
        self.control.write(line.encode() + b"\n")

    def ask(self, line: str) -> str:
        """Sends a line and returns its answer."""
        self.send(line)
        answer = self.control.readline()
        assert answer.endswith(b"\n"), f"no answer to {line}"
        return answer.decode().rstrip("\n")

    def status(self) -> dict[str, Any]:
        """Return the process' status; ``trace_tick`` is its ``tick`` counted from the beginning of the trace."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(self.entry["status"].replace("@", "\0", 1))
            status: dict[str, Any] = json.loads(line.makefile().readline())
        return {**status, "trace_tick": status["tick"] - self.entry["origin_tick"]}

    def read_all(self) -> bytes:
        """Return the stream until the rig is done and nothing is left to read."""
        assert self.data is not None
        got = bytearray()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            piece = self.data.read(1 << 16)
            got += piece
            if not piece and self.status()["state"] == "DONE" and not self.data.in_waiting:
                return bytes(got)
            assert time.monotonic() < deadline, "the stream does not end"

    def read_to_exit(self) -> bytes:
        """Return the stream until the rig ends by itself."""
        assert self.data is not None
        got = bytearray()
        while self.process.poll() is None:
            try:
                got += self.data.read(1 << 16)
            except serial.SerialException:  # the port went away with the rig
                self.process.wait(PATIENCE_S)
        return bytes(got)

    def close(self) -> int:
        """Stops the rig as a user would and returns its exit status."""
        for port in (self.data, self.control):
            if port is not None:
                port.close()
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


def decode(stream: bytes) -> tuple[list[Batch], StreamDecoder]:
    """Decodes a whole stream with the host's decoder."""
    decoder = StreamDecoder()
    batches = decoder.feed(stream)
    return batches + decoder.finish(), decoder


def column(batches: list[Batch], kind: str, name: str) -> list[int]:
    """Return one column of all records of a kind, as plain numbers."""
    values: list[int] = []
    for batch in batches:
        table = getattr(batch, kind)
        if table is not None:
            source = getattr(table, name) if hasattr(table, name) else table.columns[name]
            values += [int(value) for value in source]
    return values
