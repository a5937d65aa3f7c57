"""A command of the user's, as `perf stat` runs one: with our terminal, folder and rights. Its use of the drive is its own affair."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..errors import DriveError
from .device import Device
from .phase import PhaseEntry

ENVIRONMENT = "WATTBELL_DRIVE"
"""Names the drive to the command, as to a job file."""
_ENDS_WITHIN_S = 5.0


def run_command(command: Sequence[str], device: Device, phase: PhaseEntry, stdout: int | None = None) -> None:
    """Run the command to its end, and note in ``phase`` how it ended. Raises DriveError when it cannot be started.

    The terminal's Ctrl-C is for the command, and ends the phase if the command ends. SIGTERM and SIGHUP end the command first, and then the
    run. A program that the command left in the background goes on.
    """
    with _left_to_the_command(signal.SIGINT):
        try:
            process = subprocess.Popen(command, env={**os.environ, ENVIRONMENT: device.path}, stdout=stdout)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise DriveError(f"{command[0]} cannot be started ({reason}).") from None
        try:
            process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
    phase.exit_code = process.returncode if process.returncode >= 0 else 128 - process.returncode


@contextmanager
def _left_to_the_command(number: signal.Signals) -> Iterator[None]:
    """A handler that does nothing, not SIG_IGN, which the command would inherit. Only the main thread is ever interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(number, before if before is not None else signal.SIG_DFL)
