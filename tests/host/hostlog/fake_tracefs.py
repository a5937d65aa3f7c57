"""A tracefs of ordinary files and pipes, for cases that a real kernel cannot be brought to on this machine. What its buffers hold is real.

``instances/NAME`` fills itself when it is made, as the kernel's does, and can be removed with all that is in it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.host.hostlog.recorded import EVENTS, recorded


class FakeTracefs:
    """``root``: the mount. ``cpus`` of each instance."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, cpus: int = 2) -> None:
        self.root, self.cpus = root, cpus
        for name in EVENTS:
            (root / "events/nvme" / name).mkdir(parents=True)
            (root / "events/nvme" / name / "format").write_bytes(recorded(f"{name}.format"))
        (root / "events/header_page").write_bytes(recorded("header_page"))
        (root / "instances").mkdir()
        mkdir = Path.mkdir

        def made(path: Path, *arguments: object, **options: object) -> None:
            mkdir(path, *arguments, **options)  # type: ignore[arg-type]
            if path.parent == root / "instances":
                self.fill(path)

        monkeypatch.setattr(Path, "mkdir", made)
        monkeypatch.setattr(Path, "rmdir", lambda path: shutil.rmtree(path))

    def fill(self, instance: Path) -> None:
        for name in EVENTS:
            os.makedirs(instance / "events/nvme" / name)
        os.makedirs(instance / "options")
        (instance / "trace_clock").write_text("[local] global counter uptime perf mono mono_raw boot tai x86-tsc\n")
        for cpu in range(self.cpus):
            os.makedirs(instance / f"per_cpu/cpu{cpu}")
            os.mkfifo(instance / f"per_cpu/cpu{cpu}/trace_pipe_raw")
            self.stats(instance, cpu)

    def stats(self, instance: Path, cpu: int, overrun: int = 0, commit_overrun: int = 0, dropped: int = 0) -> None:
        (instance / f"per_cpu/cpu{cpu}/stats").write_text(
            f"entries: 0\noverrun: {overrun}\ncommit overrun: {commit_overrun}\nbytes: 0\noldest event ts:     6.566417\n"
            f"now ts:    10.179441\ndropped events: {dropped}\nread events: 0\n"
        )

    def instance(self, controller: int = 0) -> Path:
        return self.root / f"instances/wattbell-nvme{controller}"

    def write(self, cpu: int, pages: bytes) -> None:
        """Pages that a reader of this CPU gets."""
        pipe = os.open(self.instance() / f"per_cpu/cpu{cpu}/trace_pipe_raw", os.O_WRONLY)
        with os.fdopen(pipe, "wb") as file:
            file.write(pages)
