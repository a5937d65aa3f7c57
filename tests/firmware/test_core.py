"""Faults that only the soft core can show: crashes, the watchdog, stack use; and malformed lines."""

from __future__ import annotations

import os
import random
import re

import pytest

from firmware import docs
from tests.firmware.rig import Rig, make

pytestmark = pytest.mark.xdist_group("firmware-core")  # one worker builds the core

LINES = int(os.environ.get("WATTBELL_LINES", "200"))
STACK_SPARE_BYTES = 512
PARAMETERS = ["", "1", "0", "MAX", "DEF", "ON", "OFF", "1,2", "1,3.3 V", "#HFF,1E-3", '"34405A"', "SQ,1,#H1000,16", "IMM", "2026,11,21",
              "1E-3 S", "-1E99", "'", "#15abcde", "(@1)", "2 MA", "250 US", "1" * 260]  # fmt: skip


@pytest.fixture(scope="module")
def core() -> None:
    """The core is Verilated and the firmware built for it."""
    make("core")


@pytest.fixture
def rig(core: None) -> Rig:
    """A rig with its firmware on the core, just switched on."""
    return Rig(core=True)


def patch(rig: Rig, function: str, *halfwords: int) -> None:
    """Writes instructions over the beginning of a function."""
    for k, halfword in enumerate(halfwords):
        rig.lib.core_patch(rig.places[function] + 2 * k, halfword)


@pytest.mark.parametrize(
    ("halfwords", "cause", "answer"),
    [
        ((0x0000, 0x0000), {2}, "crash"),  # an illegal instruction
        ((0x557D, 0x4108), {4, 5}, "crash"),  # c.li a0,-1; c.lw a0,0(a0): a misaligned load from an unmapped address
        pytest.param((0xA001,), set(), "watchdog", marks=pytest.mark.long),  # c.j 0: an endless loop
    ],
)
def test_a_crash_restarts_and_the_drive_does_not_notice(rig: Rig, halfwords: tuple[int, ...], cause: set[int], answer: str) -> None:
    rig.do("OUTP:CLKR ON;:INIT")
    before = {name: rig.peek(name) for name in ("POWER_CONTROL", "POWER_STATE", "CONTROL")}
    patch(rig, "diagnose_skew", *halfwords)
    rig.send("DIAG:SKEW?\n")
    rig.advance(3)
    assert {name: rig.peek(name) for name in before} == before
    text = rig.ask("SYST:ERR?")
    assert text.startswith("-310,") and answer in text
    found = int(rig.ask("SYST:CRAS?").split(",")[0])
    assert found - 1 in cause if cause else found == 0
    rig.do("SWE:DEC 8")
    assert rig.ask("SWE:DEC?") == "8"


def test_bad_lines_by_the_thousand(rig: Rig) -> None:
    """Commands with valid and invalid parameters, truncated, doubled and corrupted; after each the firmware must answer."""
    draw = random.Random(5)
    headers = [re.sub(r"\[[^]]*\]", "", command.pattern) for _, _, commands in docs.read() for command in commands]
    for _ in range(LINES):
        units = [f"{draw.choice(headers)} {draw.choice(PARAMETERS)}" for _ in range(draw.choice((1, 1, 1, 2, 3)))]
        data = bytearray(";".join(units).encode())
        for _ in range(draw.choice((0, 0, 1, 2, 5))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if draw.random() < 0.1:
            data = data * draw.choice((2, 20))
        rig.send(bytes(data) + b"\n")
        if not rig.settle(15):
            rig.send(b"\x03")
            assert rig.settle(15), data
        rig.read()
    rig.send(b"\x03\n*CLS;*RST\n")
    assert rig.settle()
    rig.read()
    assert rig.ask("*IDN?").startswith(("Wattbell,", "Agilent"))
    assert rig.peek("CRASH_CAUSE") == 0
    assert rig.lib.core_stack_unused(rig.bss_end) >= STACK_SPARE_BYTES
