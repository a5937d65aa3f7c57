"""Shared by the converter's tests: the built program, and logs recorded from real runs."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

ISO = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})Z ")


@pytest.fixture(scope="session")
def guest_binary() -> Path:
    folder = os.environ.get("WATTBELL_SIM_BIN")
    path = (Path(folder) if folder else HERE.parents[2] / "sim/target/release") / "wattbell-guest"
    assert path.is_file(), f"{path} is not built: run `make sim`"
    return path


@pytest.fixture(scope="session")
def convert(guest_binary: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run qemu2bus on a log; the caller checks the exit code."""

    def run(log: Path, out: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [guest_binary, "qemu2bus", log, "--out", out, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def log_lines(name: str) -> list[str]:
    """Return the lines of a recorded log; its name ends with the version of the QEMU that wrote it."""
    return gzip.decompress((HERE / "data" / f"{name}.log.gz").read_bytes()).decode().splitlines()


def as_10_0(lines: list[str]) -> list[str]:
    """Return the same lines with QEMU 10.0's prefix: thread, seconds, microseconds."""

    def old(match: re.Match[str]) -> str:
        seconds = int(datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp())
        return f"24601@{seconds}.{match[2]}:"

    return [ISO.sub(old, line) for line in lines]


def write_log(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path
