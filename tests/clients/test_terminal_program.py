"""picocom, a plain terminal program, as someone types at a rig."""

from __future__ import annotations

import pytest

from tests.clients.screen import Screen
from tests.clients.terminal import Terminal

pytestmark = pytest.mark.needs("picocom")


def test_typing_at_the_rig(terminal: Terminal) -> None:
    screen = Screen(terminal.control)
    screen.until("Terminal ready")
    screen.type("*IDN?\r")
    screen.until(r"\nWattbell,")
    screen.type("measure:voltage?\r")
    assert float(screen.until(r"\n([+-][0-9.]+E[+-]\d\d)")[1]) == pytest.approx(3.3, abs=1e-3)
    screen.type("oops\rsyst:err?\r")
    screen.until(r'\n-113,"Undefined header')
    screen.leave()
