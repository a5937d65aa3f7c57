"""Lines that the bridge passes without --allow-power move neither the drive's power nor the calibration: the firmware itself is
asked.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.serve.bridge.protected import is_protected

from tests.firmware.rig import Rig
from tests.host.fuzzing import examples

STATE = (
    "OUTP?",
    "OUTP:PERS?",
    "OUTP:CLKR?",
    "OUTP:PERS:DEL?",
    "OUTP:PROT?",
    "OUTP:PROT:CURR?",
    "OUTP:PROT:CURR:DEL?",
    "OUTP:PROT:INR?",
    "OUTP:PROT:INR:TIME?",
    "CAL:VOLT:DATA?",
    "CAL:CURR:DATA?",
    "CAL:DEL?",
    "CAL:COUN?",
    "*IDN?",
)
PIECES = st.sampled_from(
    ["OUTP OFF", "OUTP ON", "OUTP?", "OUTP:PERS?", "OUTP:PERS ON", "STAT ON", "STAT?", "PERS ON", "CLKR ON", "PROT OFF", "OUTP:PROT:CURR?",
     "CURR 1", "DEL 0.5", "OUTP:PROT:INR?", "INR 1", "TIME 1", "CAL:VOLT:DATA?", "CAL:VOLT:DATA 5,5", "DATA 7,7", "CAL:DEL 1E-6,1E-7",
     "DEL 1E-6,1E-7", "CAL:DEL?",
     "DIAG:IDEN \"a\",\"b\"", "DIAG:REG? 16", "IDEN \"a\",\"b\"", "*ESE 1", "APER 1", "SENS:APER 1",
     "SENS:FUNC", "SYST:LANG", "*RCL 1", "*RST", "*SAV 0", "SYST:REST", "SWE:TINT 1E-3", "TINT 1E-3", "SWE:DEC 2",
     "\"", "'", "\"POW\"", "'x;", ":", ";", ";", ";", ";:", " ", "\t", "\r",
     "(", ")", ",", "?", "\x00", "é"]
)  # fmt: skip


@pytest.fixture(scope="module")
def rig(firmware: None) -> Rig:
    """Start a rig with power, and with settings without protection in place 1. All examples share it, as no passing command changes
    the compared state.
    """
    one = Rig()
    one.do("OUTP:PROT OFF;*SAV 1;:OUTP:PROT ON;:OUTP ON;*WAI")
    return one


def state(rig: Rig) -> list[str]:
    return [rig.ask(query) for query in STATE]


@examples(400)
@given(st.lists(PIECES, min_size=1, max_size=8).map("".join))
def test_nothing_that_passes_moves_them(rig: Rig, message: str) -> None:
    sent = message.encode("latin-1")
    if is_protected(sent):
        return
    before = state(rig)
    rig.send(sent + b"\n")
    rig.settle()
    rig.read()
    assert state(rig) == before


REGISTERS = (
    "POWER_CONTROL",
    "POWER_TRIP",
    "OCP_LEVEL",
    "OCP_COUNT",
    "INRUSH_LEVEL",
    "INRUSH_TICKS",
    "V_OFFSET",
    "V_GAIN",
    "I_OFFSET",
    "I_GAIN",
    "F_OFFSET",
    "F_GAIN",
)
PARAMETERS = (
    "",
    " 1",
    " 0",
    " 2",
    " ON",
    " OFF",
    " 1,1",
    " 1E-3",
    " 1E-3,1E-3",
    " MIN",
    " MAX",
    ' "a","b"',
    " OUT",
    " IN",
    " COAR,1",
    " 16,7",
)


def moved(rig: Rig) -> tuple[object, ...]:
    """Return the hardware's own view of power, protection and calibration, and the EEPROM."""
    return (*(rig.peek(name) for name in REGISTERS), bytes(rig.eeprom))


def test_every_command_of_the_firmware_with_parameters_of_each_kind(firmware: None) -> None:
    """A command that the bridge lets pass moves nothing. Most of the commands that it holds back move something here."""
    rig = Rig()
    text = rig.ask("SYST:HELP:HEAD?")
    headers = [re.sub(r"\[[^]]*\]", "", line) for line in text[2 + int(text[1]) :].splitlines()]
    assert len(headers) > 200
    # a board that is not calibrated, whose settings are not the defaults, and whose place 1 holds others
    prepare = [
        "OUTP:PROT:CURR 1.5;*SAV 1;:OUTP:PROT:CURR 2.5;INR 3;:OUTP:PERS ON;:SWE:TINT 20 US;:OUTP:PROT:CURR:DEL 100 US",
        "CAL:VOLT:DATA 1,2;:CAL:CURR:DATA 3,4;:CAL:FINE:DATA 5,6;:CAL:STOR;:CAL:VOLT:DATA 7,8",
    ]
    moving, held = set(), set()
    for header in headers:
        for parameters in PARAMETERS:
            message = header + parameters
            protected = is_protected(message.encode())
            rig.erase()
            rig.power_on()
            for line in prepare:
                rig.do(line)
            before = moved(rig)
            rig.send(message + "\n")
            rig.lib.console_settle(2_000_000_000)
            rig.read()
            if moved(rig) != before:
                assert protected, message
                moving.add(header)
            if protected:
                held.add(header)
    assert {"*RST", "*RCL", "*SAV", "SYSTem:RESTart"} <= moving
    assert len(moving) > 0.6 * len(held), held - moving
