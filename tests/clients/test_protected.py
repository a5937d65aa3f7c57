"""What the bridge lets pass without --allow-power moves neither the drive's power nor the calibration: the firmware itself is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.bridge.protected import is_protected

from tests.firmware.rig import Rig
from tests.host.fuzzing import examples

STATE = ("OUTP?", "OUTP:PERS?", "OUTP:CLKR?", "OUTP:PERS:DEL?", "OUTP:PROT?", "OUTP:PROT:CURR?", "OUTP:PROT:CURR:DEL?", "OUTP:PROT:INR?",
         "OUTP:PROT:INR:TIME?", "CAL:VOLT:DATA?", "CAL:CURR:DATA?", "CAL:DEL?", "CAL:COUN?", "*IDN?")  # fmt: skip
PIECES = st.sampled_from(
    ["OUTP OFF", "OUTP ON", "OUTP?", "OUTP:PERS?", "OUTP:PERS ON", "STAT ON", "STAT?", "PERS ON", "CLKR ON", "PROT OFF", "OUTP:PROT:CURR?",
     "CURR 1", "DEL 0.5", "OUTP:PROT:INR?", "INR 1", "TIME 1", "CAL:VOLT:DATA?", "CAL:VOLT:DATA 5,5", "DATA 7,7", "CAL:DEL 1E-6,1E-7",
     "DEL 1E-6,1E-7", "CAL:DEL?",
     "DIAG:IDEN \"a\",\"b\"", "DIAG:REG? 16", "IDEN \"a\",\"b\"", "*ESE 1", "APER 1", "SENS:APER 1",
     "SENS:FUNC", "SYST:LANG", "*RCL 1", "\"", "'", "\"POW\"", "'x;", ":", ";", ";", ";", ";:", " ", "\t", "\r",
     "(", ")", ",", "?", "\x00", "é"]
)  # fmt: skip


@pytest.fixture(scope="module")
def rig(firmware: None) -> Rig:
    """Has power, and settings without protection in place 1. One rig for all examples, as nothing that passes changes what is compared."""
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
