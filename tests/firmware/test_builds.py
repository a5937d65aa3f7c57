"""The page of commands, the build for the soft core and a short fuzzer run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from firmware import docs
from tests.firmware.rig import BUILD, ROOT, Rig, make


def test_the_page_is_the_generated_one() -> None:
    assert docs.PAGE.read_text() == docs.page(), "run python firmware/docs.py"
    assert docs.HEADERS.read_text() == docs.headers(), "run python firmware/docs.py"


def test_the_page_has_every_command_of_the_firmware(rig: Rig) -> None:
    """Compares the running firmware's headers with the page as a person reads it."""
    text = rig.ask("SYST:HELP:HEAD?")
    known = text[2 + int(text[1]) :].splitlines()
    written = re.findall(r"^\| `([^ `]+)", docs.PAGE.read_text(), re.MULTILINE)
    assert known == written


@pytest.mark.needs("riscv64-unknown-elf-gcc")
def test_it_fits_the_soft_core() -> None:
    """The linker refuses what does not fit its memories (firmware/Makefile)."""
    make("all")
    image = (BUILD / "firmware.bin").read_bytes()
    words = [int(line, 16) for line in (BUILD / "firmware.hex").read_text().split()]
    assert b"".join(word.to_bytes(4, "little") for word in words)[: len(image)] == image
    sizes = subprocess.run(["riscv64-unknown-elf-size", BUILD / "firmware.elf"], capture_output=True, text=True, check=True)
    text, data = (int(word) for word in sizes.stdout.splitlines()[1].split()[:2])
    assert data == 0 and text == len(image)


@pytest.mark.needs("clang")
def test_a_short_run_of_the_fuzzer() -> None:
    command = ["make", "-s", "-C", ROOT / "firmware", "fuzz", f"PY={sys.executable}", "RUNS=200", "FUZZ=-seed=7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(re.search(r"fuzz: (\d+) lines", done.stderr)[1]) > 2000
