"""Which messages need --allow-power: those that move the drive's power or the calibration, however they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from wattbell.serve.bridge.protected import is_protected

DEFINITIONS = Path(__file__).parents[4] / "firmware/src/commands.def"
SECTIONS = {"The drive's power", "Calibration", "Diagnosis"}
"""Titles of the firmware's table in which every command that is no query is marked."""

PROTECTED = """
OUTP OFF
:OUTP ON
outp:cycl
OUTPut:STATe 0
OUTP:PERS ON
\tOUTP\tOFF\r
*ESE 1;OUTP OFF
APER 1;OUTP OFF
SENS:APER 1;:OUTP OFF
OUTP?;OUTP OFF
OUTP:PERS?;STAT ON
OUTP:PERS?;*ESE 3;STAT ON
OUTP:PROT:CURR?;DEL?;DEL 1
SENS:FUNC "POW";:OUTP OFF
SENS:FUNC "a;b";:OUTP OFF
OUTP:PERS? "a;:SENS:B";STAT OFF
OUTP:PERS? 'a;:SENS:B';STAT OFF
OUTP:PERS? 'a";:SENS:B';STAT OFF
;;OUTP OFF
CAL:ZERO
CAL:CURR:DATA?;DATA 0,0
CAL:STOR
*cal?
*RCL 1
*RST
*rst;*IDN?
SENS:APER 1;*SAV 0
*IDN?;*RST
SYST:REST
SYSTem:RESTart
SENS:SWE:TINT 1E-3
SWE:DEC 1;TINT 1E-3
OUTP:NEW:THING 1
CALibration:NEW 1
DIAG:REG 1,2
DIAG:REG? 1;REG 1,2
"""
FREE = """
*IDN?
*CLS
*TST?
SYST:ERR?
SENS:SWE:TINT?
SENS:NEW 1
OUTP?
OUTP:PERS?;GOOD?
OUTP:PROT:CURR? MAX
CAL:STAT?;COUN?
DIAG:REG? 16
MEAS:SCAL:VOLT?
SENS:FUNC "OUTP";APER 1
SYST:LANG "34405A";:CONF:CURR
SENS:FUNC ";OUTP OFF"
INIT;:ABOR
"""


@pytest.mark.parametrize("message", PROTECTED.strip("\n").split("\n"))
def test_what_moves_power_or_calibration(message: str) -> None:
    assert is_protected(message.encode())


@pytest.mark.parametrize("message", FREE.strip().splitlines())
def test_what_does_not(message: str) -> None:
    assert not is_protected(message.encode())


def test_every_command_of_those_sections_in_every_form() -> None:
    """The firmware's own table decides: short and long forms, with and without optional parts."""
    text = DEFINITIONS.read_text()
    seen = 0
    for part in re.split(r'^SECTION\("', text, flags=re.MULTILINE)[1:]:
        for kind, pattern in re.findall(r'^(\w+)\("([^"]+)"', part, flags=re.MULTILINE):
            moves = kind in ("MOVES", "MOVING")
            assert moves or part.partition('"')[0] not in SECTIONS or pattern.endswith("?"), pattern
            whole, least = re.sub(r"[\[\]]", "", pattern), re.sub(r"\[[^]]*\]", "", pattern)
            for form in {whole, least, whole.lower(), re.sub(r"[a-z]", "", whole), re.sub(r"[a-z]", "", least)}:
                seen += 1
                assert is_protected(form.encode() + b" 1") == moves, form
                if kind == "MOVING":
                    assert not is_protected(form.encode() + b"?"), form
    assert seen > 600
