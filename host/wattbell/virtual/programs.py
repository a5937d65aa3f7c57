"""The programs of the simulation, started as processes: the host package never imports ``sim/``."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .. import door
from ..children import ending_with_us
from ..errors import RigError, SimError
from .simulator import find_program

if TYPE_CHECKING:
    from ..rig import RigPort

_LOG = logging.getLogger(__name__)

_START_TIMEOUT_S = 600.0


@dataclass
class Program:
    """A running child with its stderr in a file."""

    name: str
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    _read: int = 0

    def warnings(self) -> list[str]:
        """Return the warnings since the last call, without the program's name: whole lines of its stderr that begin as a warning."""
        # The child writes where its own copy of the descriptor stands, which is this one's place too: read without moving it.
        said = os.pread(self.errors.fileno(), 1 << 16, self._read)
        whole = said[: said.rfind(b"\n") + 1]
        self._read += len(whole)
        begin = f"{self.name}: warning: "
        return [line.removeprefix(begin) for line in whole.decode("utf-8", "replace").splitlines() if line.startswith(begin)]

    def failed(self) -> SimError | None:
        """An error with the child's own message if it failed."""
        if self.process.poll() in (None, 0, -signal.SIGTERM):
            return None
        self.errors.seek(0)
        words = self.errors.read().decode("utf-8", "replace").strip().splitlines()
        # programs begin with their own name or "error:", which this message has already
        words = [word.removeprefix(f"{self.name}: ").removeprefix("error: ") for word in words]
        words = [word for at, word in enumerate(words) if not any(word in before for before in words[:at])]
        said = " ".join(words[-3:]) or f"it said nothing (exit code {self.process.returncode})"
        return SimError(f"{self.name} failed: {said}")

    def ended_badly(self, patience_s: float) -> SimError | None:
        """Wait up to ``patience_s`` for its end; an error with the child's own message if it failed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience_s)
        return self.failed()

    def check(self) -> None:
        """Raise if the child failed."""
        error = self.failed()
        if error:
            raise error

    def wait(self) -> None:
        """Wait for its end; raise if it failed."""
        self.process.wait()
        self.check()

    def end(self) -> None:
        """Stop it if it is still running."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.errors.close()


@contextmanager
def program(name: str, *arguments: str | Path, stdin: int | None = None) -> Iterator[Program]:
    """Run a simulation program for as long as the block lasts; Ctrl-C is ours to handle, so it gets its own session."""
    command = [*ending_with_us(), str(find_program(name)), *map(str, arguments)]
    _LOG.info("%s", shlex.join(command))
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        start_new_session=True,
    )
    child = Program(name, process, errors)
    try:
        yield child
    finally:
        child.end()


def version(name: str) -> str:
    """Return the version with a hash: ``0.2.0 (sha256 0123456789ab)``. Raises SimError when the program fails.

    The version is the program's own answer, and the hash is over its file.
    """
    path = find_program(name)
    try:
        told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        with door.open_file(path, door.RECORDING) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, subprocess.SubprocessError) as error:
        raise SimError(f"{path} does not run ({error}); build it anew with `make sim`.") from None
    return f"{told.removeprefix(name).strip() or 'unknown'} (sha256 {digest[:12]})"


def run_program(name: str, *arguments: str | Path) -> None:
    """Run a simulation program to its end; SimError with its words when it fails."""
    with program(name, *arguments) as child:
        child.wait()


@contextmanager
def virtual_rig(trace: Path, serial: str, options: list[str], producer: Program | None = None) -> Iterator[tuple[RigPort, Program]]:
    """Run a virtual rig that plays `trace` (a file or a FIFO) and ends at its end; yield its ports and its process."""
    with program("wattbell-rig", "play", trace, "--serial", serial, "--exit-on-done", *options) as child:
        yield wait_for_rig(serial, child, producer), child


def wait_for_rig(serial: str, child: Program, producer: Program | None = None) -> RigPort:
    """The rig's ports once it has registered. Raises SimError when it, or its producer, ends before that."""
    from ..rig import discovery

    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            return discovery.find(serial)
        except RigError:
            pass
        child.check()
        if producer:
            producer.check()
        if child.process.poll() is not None:
            raise SimError(f"{child.name} ended before it opened its ports.")
        time.sleep(0.02)
    raise SimError(f"{child.name} did not open its ports within {_START_TIMEOUT_S:g} s.")
