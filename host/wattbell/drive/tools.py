"""The programs that work with a real drive: fio, nvme-cli, setpci."""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ..errors import DriveError

_LOG = logging.getLogger(__name__)
_FOR_US = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PACKAGES = {"fio": "fio", "nvme": "nvme-cli", "setpci": "pciutils"}

WHICH_NVME = "what nvme-cli 2.x prints is read here; `nvme version` tells which there is"
"""For an error about output of nvme-cli that is not understood, which may have any cause."""


class Tools:
    """Runs them. DriveError, naming the package, when one is missing."""

    def __init__(self, commands: Mapping[str, str] | None = None) -> None:
        self._commands = dict(commands or {})

    def find(self, name: str) -> str:
        """Path of a program. Raises DriveError when it is not installed."""
        if name not in self._commands:
            found = shutil.which(name)
            if found is None:
                raise DriveError(f"{name} is not installed; on Debian: apt-get install {_PACKAGES.get(name, name)}.")
            self._commands[name] = found
        return self._commands[name]

    def has(self, name: str) -> bool:
        """Whether a program is installed."""
        return name in self._commands or shutil.which(name) is not None

    def ending_with_us(self, name: str) -> list[str]:
        """Return the first words of a command line for a program that ends when we are killed.

        This needs util-linux's setpriv (PR_SET_PDEATHSIG of prctl(2)); without it, the program may outlive us.
        """
        words = [self.find("setpriv"), "--pdeathsig", "TERM", "--"] if self.has("setpriv") else []
        return [*words, self.find(name)]

    def run(self, name: str, *arguments: str | Path, timeout_s: float = 120, stdin: bytes = b"") -> str:
        """Return standard output of the program. Raises DriveError with its message when it fails or hangs."""
        done = self.attempt(name, *arguments, timeout_s=timeout_s, stdin=stdin)
        if done.returncode:
            said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            words = " ".join(map(str, arguments))
            raise DriveError(f"{name} {words} failed (exit {done.returncode}): {said[-1] if said else 'no message'}")
        return done.stdout.decode(errors="replace")

    def attempt(self, name: str, *arguments: str | Path, timeout_s: float = 120, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Runs the program, whatever its exit code. Raises DriveError when it hangs or cannot be started."""
        command = [self.find(name), *map(str, arguments)]
        _LOG.info("%s", shlex.join(command))
        # A session of its own: Ctrl-C is for us, and must not kill the program that puts settings back. A signal to our group may come
        # before it has that session, so it also has these signals blocked, from its first moment.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_US)
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise DriveError(f"{command[0]} cannot be started ({error.strerror}).") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        with process:
            try:
                out, err = process.communicate(stdin, timeout_s)
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise DriveError(f"{' '.join(command)} did not end within {timeout_s:g} s; does the drive still answer?") from None
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)
