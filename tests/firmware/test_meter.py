"""Measurements, totals, and calibration against a board with errors."""

from __future__ import annotations

import pytest

from tests.firmware.rig import Rig


@pytest.fixture
def quiet(rig: Rig) -> Rig:
    """A board without noise."""
    rig.lib.model_set_noise(0.0)
    return rig


@pytest.mark.parametrize(("volts", "amperes"), [(3.3, 0.5), (3.17, 2.75), (0.0195, 0.01), (4.9, -1.2)])
def test_figures_are_those_of_the_rail(quiet: Rig, volts: float, amperes: float) -> None:
    quiet.lib.model_set_rail(volts, amperes)
    # half a code: 9.5 uV, 15.6 uA (0.4 uA on the fine path); the registers' units are 20 uV and 500 nA
    current = 0.8e-6 if abs(amperes) < 0.1 else 16e-6
    assert quiet.number("MEAS:VOLT?") == pytest.approx(volts, abs=20e-6)
    assert quiet.number("MEAS:CURR?") == pytest.approx(amperes, abs=current)
    power = quiet.number("MEAS:POW?")
    v, i = quiet.number("FETC:VOLT?"), quiet.number("FETC:CURR?")
    assert power == pytest.approx(v * i, rel=1e-9, abs=1e-11)
    assert quiet.number("FETC:ENER?") == pytest.approx(power * 0.1, rel=1e-8, abs=1e-11)
    assert quiet.number("FETC:CHAR?") == pytest.approx(i * 0.1, rel=1e-8, abs=1e-11)
    assert quiet.number("FETC:POW:MIN?") == pytest.approx(power, abs=1.4e-6)
    assert quiet.errors() == []


def test_aperture_and_average(rig: Rig) -> None:
    rig.do("SENS:APER 5;AVER:COUN 4;:SENS:AVER ON")
    before = rig.lib.model_now()
    rig.number("READ?")
    assert rig.lib.model_now() - before == pytest.approx(20e9, rel=1e-3)
    conversions, seconds, clipped, flags = rig.ask("FETC:QUAL?").split(",")
    assert int(conversions) == pytest.approx(20e6, rel=1e-5) and float(seconds) == pytest.approx(20, rel=1e-5)
    assert (clipped, flags) == ("0", "0")
    rig.do("SENS:AVER OFF;APER 1 US;:SWE:TINT 3 US")
    rig.number("READ?")
    assert rig.ask("FETC:QUAL?") == "1,+3.000E-06,0,0"


def test_long_gates_at_full_scale_do_not_wrap(quiet: Rig) -> None:
    quiet.do("OUTP:PROT OFF")
    quiet.lib.model_set_rail(4.99, 4.0)
    quiet.do("SENS:APER 10;AVER:COUN 20;:SENS:AVER ON")
    assert quiet.number("MEAS:POW?") == pytest.approx(4.99 * 4.0, rel=2e-5)
    assert quiet.number("FETC:ENER?") == pytest.approx(4.99 * 4.0 * 200, rel=3e-5)
    assert quiet.number("FETC:CURR?") == pytest.approx(4.0, rel=1e-5)


def test_overload_is_said_in_every_way(rig: Rig) -> None:
    rig.do("OUTP:PROT OFF")
    rig.lib.model_set_rail(3.3, 4.5)
    assert rig.number("MEAS:CURR?") > 9e37 and rig.number("FETC:POW?") > 9e37
    assert rig.number("FETC:VOLT?") == pytest.approx(3.3, abs=1e-4)
    assert int(rig.ask("STAT:QUES:COND?")) & 15 == 2 + 8
    assert rig.ask("FETC:QUAL?").split(",")[2:] == ["100000", "2"]
    rig.lib.model_set_rail(3.3, 1.0)
    rig.number("READ?")
    assert int(rig.ask("STAT:QUES:COND?")) & 15 == 0
    rig.do("OUTP OFF;*WAI")
    assert rig.number("MEAS:VOLT?") == pytest.approx(0, abs=4e-5)


def test_fetch_before_and_after(rig: Rig) -> None:
    assert rig.error("FETC?") == -230
    rig.number("MEAS:VOLT?")
    assert rig.ask("FETC?") == rig.ask("FETC:VOLT?")
    rig.do("MEAS")
    rig.do("ABOR")
    assert rig.error("FETC?") == -230


def test_ranges_choose_the_path(rig: Rig) -> None:
    rig.do("CONF:CURR 50 MA")
    assert rig.peek("RANGE") == 2 and rig.ask("CONF?") == '"CURR +1.00000E-01,+5.0E-07"'
    assert rig.number("SENS:CURR:RANG?") == 0.1
    rig.do("CONF:CURR 2")
    assert rig.peek("RANGE") == 1
    rig.do("SENS:CURR:RANG:AUTO ON")
    assert rig.peek("RANGE") == 0
    rig.do("CONF:CURR DEF")
    assert rig.ask("SENS:CURR:RANG:AUTO?") == "1"
    rig.lib.model_set_fine(False)
    assert rig.error("SENS:CURR:RANG 0.01") == -241
    rig.do("CONF:CURR 0.05")
    assert rig.peek("RANGE") == 0
    assert rig.ask("*OPT?") == "0"


def test_functions(rig: Rig) -> None:
    rig.do('FUNC "POWer"')
    assert rig.ask("FUNC?") == '"POW"'
    rig.do("FUNC 'VOLT:DC'")
    assert rig.ask("FUNC?;:CONF?") == '"VOLT";"VOLT +5.000000E+00,+2.0E-05"'
    assert rig.error('FUNC "RES"') == -224


def test_a_gate_that_never_ends_is_a_time_out(rig: Rig) -> None:
    rig.send("READ?\n")
    rig.settle(0.03)
    rig.poke("METER_CONTROL", 0)
    rig.lib.hal_write(0xB2, 2)  # the gate is lost, and BUSY stays set
    rig.poke("METER_STATE", 1)
    assert rig.settle(5) and rig.read() == b""
    assert rig.errors() == [-365]


def test_totals_count_what_was_converted(quiet: Rig) -> None:
    quiet.lib.model_set_rail(4.0, 2.0)
    quiet.do("SENS:TOT ON")
    quiet.advance(30)
    seconds, joules = quiet.number("SENS:TOT:TIME?"), quiet.number("SENS:TOT:ENER?")
    # some milliseconds pass between the two queries
    assert seconds == pytest.approx(30, rel=1e-3)
    assert joules == pytest.approx(8 * seconds, rel=1e-3)
    assert quiet.number("SENS:TOT:CHAR?") == pytest.approx(2 * seconds, rel=1e-3)
    quiet.lib.model_set_rail(4.0, 1.0)
    quiet.advance(10)
    assert quiet.number("SENS:TOT:ENER?") == pytest.approx(joules + 40, rel=1e-3)
    quiet.do("SENS:TOT OFF")
    frozen = quiet.number("SENS:TOT:ENER?")
    quiet.advance(10)
    assert quiet.number("SENS:TOT:ENER?") == frozen
    quiet.do("SENS:TOT:CLE")
    assert quiet.number("SENS:TOT:ENER?") == 0


def test_what_is_converted_while_totals_are_off_does_not_count(quiet: Rig) -> None:
    quiet.lib.model_set_rail(4.0, 2.0)
    quiet.do("SENS:TOT ON")
    quiet.advance(2)
    quiet.do("SENS:TOT OFF")
    before = quiet.number("SENS:TOT:ENER?")
    quiet.advance(5)  # protection keeps the ADCs converting
    quiet.do("SENS:TOT ON")
    quiet.advance(1)
    assert quiet.number("SENS:TOT:ENER?") == pytest.approx(before + 8, rel=0.02)


@pytest.mark.parametrize("seed", range(1, 9))
def test_two_points_and_a_zero_undo_a_boards_errors(firmware: None, seed: int) -> None:
    rig = Rig(seed)
    assert rig.ask("CAL:STAT?") == "0" and int(rig.ask("STAT:QUES:COND?")) & 256
    assert rig.error("CAL:STOR") == -221 and rig.error("CAL:VOLT:POIN 2,3") == -221
    for channel, low, high in (("VOLT", 1.0, 4.5), ("CURR", 0.0, 3.5), ("FINE", 0.0, 0.09)):
        for point, value in ((1, low), (2, high)):
            rig.lib.model_set_rail(value if channel == "VOLT" else 3.3, 0.5 if channel == "VOLT" else value)
            rig.do(f"CAL:{channel}:POIN {point},{value}")
    assert rig.ask("CAL:STAT?") == "1" and not int(rig.ask("STAT:QUES:COND?")) & 256
    rig.do("CAL:ZERO;STOR")
    assert rig.ask("CAL:COUN?") == "1" and rig.number("CAL:TEMP?") == 31.25
    data = rig.ask("CAL:VOLT:DATA?;:CAL:CURR:DATA?;:CAL:FINE:DATA?")

    rig.power_on(seed)
    assert rig.ask("CAL:VOLT:DATA?;:CAL:CURR:DATA?;:CAL:FINE:DATA?") == data and rig.ask("CAL:STAT?") == "1"
    # Each conversion is rounded to 20 uV and 500 nA, of which noise of a code averages away only a part: half a unit. The rest is
    # noise of the averages: 1 code / sqrt(4096) = 0.5 uA, and 12 nA on the fine path, 5 sigma.
    for volts, amperes, tolerance in ((3.3, 2.0, 3e-6), (1.8, 0.7, 3e-6), (3.0, 0.05, 3.5e-7)):
        rig.lib.model_set_rail(volts, amperes)
        assert rig.number("MEAS:VOLT?") == pytest.approx(volts, abs=12e-6)
        assert rig.number("MEAS:CURR?") == pytest.approx(amperes, abs=tolerance)
    for k in range(16):
        if rig.eeprom[k * 512] == 0x57:
            rig.eeprom[k * 512 + 20] ^= 4
    assert rig.error("CAL:LOAD") == -314


def test_calibration_that_cannot_be(rig: Rig) -> None:
    rig.lib.model_set_channel(0, 0.0, -50.0)
    rig.lib.model_set_rail(3.3, 1.0)
    assert rig.error("CAL:ZERO:VOLT") == -340  # the code at 0 V is off scale
    assert rig.peek("AFE") == 0
    rig.do("CAL:VOLT:POIN 1,3.3")
    assert rig.error("CAL:VOLT:POIN 2,3.3") == -340
    assert rig.error("CAL:FINE:POIN 1,1.0") == -340
    rig.lib.model_set_fine(False)
    assert rig.error("CAL:FINE:POIN 1,0") == -241
    assert rig.ask("*CAL?") == "0"


def test_self_test(rig: Rig) -> None:
    assert rig.ask("*TST?") == "0" and rig.errors() == []
    assert rig.number("DIAG:SKEW?") == 0
    for broken, answer in ((1, 32), (2, 64), (4, 128), (8, 16)):
        rig.lib.model_break_test(broken)
        assert rig.ask("*TST?") == str(answer)
        assert rig.errors() == [-330]
        assert rig.peek("TEST_CONTROL") == 0 and rig.peek("TRIGGER_STATE") == 0
    rig.do("INIT")
    assert rig.error("*TST?") == -221
