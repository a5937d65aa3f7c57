"""The test load, and the delays measured with it."""

from __future__ import annotations

import pytest

from tests.firmware.rig import Rig


def ready(rig: Rig) -> None:
    """A capture, the output on, PERST# held low."""
    rig.do("OUTP:PERS ON;:INIT")


def test_pulses_of_either_load(rig: Rig) -> None:
    ready(rig)
    for path, bit in (("COAR", 1), ("FINE", 2)):
        rig.do(f"DIAG:LOAD {path},100")
        assert rig.peek("LOAD_CONTROL") == bit
        assert 90 <= rig.number("DIAG:LOAD?") <= 100
        assert rig.error("DIAG:LOAD COAR,1") == -221  # earlier pulses are still under way
        rig.advance(0.03)
        assert rig.number("DIAG:LOAD?") == 0
    rig.do("DIAG:LOAD COAR,2047")
    rig.do("ABOR")
    assert rig.number("DIAG:LOAD?") == 0


@pytest.mark.parametrize("undone", ["OUTP:PERS OFF", "ABOR", "OUTP OFF;*WAI", "TRIG:SOUR BUS;:ARM", "SENS:APER 1;:MEAS"])
def test_refused_unless_everything_is_as_it_must_be(rig: Rig, undone: str) -> None:
    ready(rig)
    rig.do(undone)
    assert rig.error("DIAG:LOAD COAR,5") == -221
    assert rig.peek("LOAD_PULSES") == 0


def test_refused_while_the_power_is_sequenced(rig: Rig) -> None:
    rig.do("OUTP OFF;*WAI;:INIT")
    rig.send("OUTP ON\n")
    rig.advance(0.01)  # the rail is good, and PERST# low for 100 ms
    assert rig.ask("OUTP:GOOD?;:OUTP:PERS?") == "1;1"
    assert rig.error("DIAG:LOAD COAR,5") == -221


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("DIAG:LOAD COAR,0", -222),
        ("DIAG:LOAD COAR,2048", -222),
        ("DIAG:LOAD COAR", -109),
        ("DIAG:LOAD VOLT,5", -224),
        ("CAL:DEL 2E-6,0", -222),
        ("CAL:DEL -1E-9,1E-9", -222),
        ("CAL:DEL 101 US,1E-9", -222),
        ("CAL:DEL 2E-6", -109),
        ("CAL:DEL 2 V,1E-9", -131),
    ],
)
def test_what_is_no_such_thing(rig: Rig, line: str, number: int) -> None:
    ready(rig)
    assert rig.error(line) == number


def test_without_a_fine_path(rig: Rig) -> None:
    rig.lib.model_set_fine(False)
    ready(rig)
    assert rig.error("DIAG:LOAD FINE,5") == rig.error("CAL:DEL:FINE 2E-6,1E-9") == -241
    rig.do("DIAG:LOAD COAR,5")


@pytest.mark.parametrize("end", ["*RST", "\x03"])
def test_what_ends_pulses(rig: Rig, end: str) -> None:
    ready(rig)
    rig.do("DIAG:LOAD COAR,2000")
    rig.ask(end)
    assert rig.number("DIAG:LOAD?") == 0


def test_delays_are_kept_with_the_calibration(rig: Rig) -> None:
    assert rig.ask("CAL:DEL?") == "+0.0E+00,+0.0E+00"
    rig.do("CAL:DEL 1.987654E-6,0.3 NS;:CAL:DEL:FINE 2.012345 US,4E-9")
    delays = "+1.987654E-06,+3.00E-10;+2.012345E-06,+4.000E-09"
    assert rig.ask("CAL:DEL:COARSE?;:CAL:DEL:FINE?") == delays
    assert rig.error("CAL:STOR") == -221  # gain and offset first
    for channel in ("VOLT", "CURR", "FINE"):
        rig.do(f"CAL:{channel}:DATA 0,1000000")
    rig.do("CAL:STOR")
    rig.do("CAL:DEL 1E-6,1E-9")
    rig.do("CAL:LOAD")
    assert rig.ask("CAL:DEL?;:CAL:DEL:FINE?") == delays
    rig.power_on()
    assert rig.ask("CAL:DEL?;:CAL:DEL:FINE?") == delays
    assert rig.ask("*RST;:CAL:DEL?") == delays.split(";")[0]


def test_a_damaged_byte_of_a_delay_is_seen(rig: Rig) -> None:
    for channel in ("VOLT", "CURR", "FINE"):
        rig.do(f"CAL:{channel}:DATA 0,1000000")
    rig.do("CAL:DEL 1.987654E-6,3E-10;:CAL:STOR")
    value = (1987654).to_bytes(4, "little")
    where = bytes(rig.eeprom).index(value)
    rig.eeprom[where] ^= 1
    rig.power_on()
    assert rig.ask("CAL:STAT?;:CAL:DEL?") == "0;+0.0E+00,+0.0E+00"
