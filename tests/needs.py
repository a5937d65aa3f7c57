"""Programs and files that a test needs besides Python and this tree. Where ``tools/setup.sh dev`` has brought it, a test that misses it
fails.

Elsewhere the test is skipped. ``pytest.mark.needs("chromium")`` names programs. Within a test, :func:`program` gives the path of one.
:func:`library` imports a module of the extra ``dev``. ``pytest.mark.needs_built(function, command)`` is for what ``make`` builds.
"""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "bash": "",
    "chromium": "chromium",
    "clang": "clang",
    "fio": "fio",
    "iverilog": "iverilog",
    "openssl": "openssl",
    "lspci": "pciutils",
    "mkfs.btrfs": "btrfs-progs",
    "picocom": "picocom",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
    "setpci": "pciutils",
    "sigrok-cli": "sigrok-cli",
    "strace": "strace",
}
"""Programs that tests may need, and the Debian package of each; empty where every Debian has it."""
_STAMP = ROOT / "build" / "setup" / "venv"


def set_up() -> bool:
    """Whether everything must be here: in CI, and in a tree that ``tools/setup.sh dev`` set up."""
    return bool(os.environ.get("CI")) or (_STAMP.is_file() and _STAMP.read_text().endswith(" dev"))


def find(name: str) -> str | None:
    """Path of a program of :data:`PACKAGES`; None where it is missing. KeyError for one that is not among them."""
    PACKAGES[name]
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")


def program(name: str) -> str:
    """Path of a program. Without it the test fails or is skipped."""
    return find(name) or _without(f"{name} is missing: apt-get install {PACKAGES[name] or name}")


NOT_SET_UP = {"quarchpy": "too large for CI: by hand, with the extra quarch"}
"""Libraries that no set-up brings, and why: without them tests are always skipped."""


def library(name: str) -> Any:
    """The module of a library. Without it the module of tests fails or is skipped."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if set_up() and name not in NOT_SET_UP:
            raise
        pytest.skip(f"{name} is missing ({error}): tools/setup.sh dev", allow_module_level=True)


def built(there: bool, how: str) -> None:
    """Fails or skips the test where something is not built. ``how``: the command that builds it."""
    if not there:
        _without(f"not built: {how}")


def _without(what: str) -> NoReturn:
    if set_up():
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "needs(program...): fails, or is skipped (tests/needs.py), without these programs")
    config.addinivalue_line("markers", "needs_built(there, command): fails, or is skipped, where there() is false")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look for all that the test needs before any fixture does."""
    for mark in item.iter_markers("needs_built"):
        there, how = mark.args
        built(there(), how)
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            program(name)
