"""The drive's power, triggers, capture and late attach."""

from __future__ import annotations

import pytest

from tests.firmware.rig import Rig


def state(rig: Rig) -> tuple[bool, bool]:
    """Whether the drive has power, and whether PERST# is high."""
    word = rig.peek("POWER_STATE")
    return bool(word & 1), bool(word & 4)


def watch(rig: Rig, line: str, seconds: float) -> list[tuple[bool, bool, float]]:
    """Sends a line; returns the states that follow, each with the seconds since the previous one."""
    rig.send(line + "\n")
    seen = [(*state(rig), 0.0)]
    last = rig.lib.model_now()
    for _ in range(int(seconds / 50e-6)):
        rig.advance(50e-6)
        if state(rig) != seen[-1][:2]:
            seen.append((*state(rig), (rig.lib.model_now() - last) * 1e-9))
            last = rig.lib.model_now()
    return seen


def test_off_and_on_in_order(rig: Rig) -> None:
    off = watch(rig, "OUTP OFF", 0.01)
    assert [step[:2] for step in off] == [(True, True), (True, False), (False, False)]  # PERST# first
    assert off[2][2] == pytest.approx(1e-3, abs=0.1e-3)  # seen every 50 us
    rig.do("OUTP:PERS:DEL 20 MS")
    on = watch(rig, "OUTP ON", 0.05)
    assert [step[:2] for step in on] == [(False, False), (True, False), (True, True)]
    assert on[2][2] == pytest.approx(22e-3, abs=0.1e-3)  # the model's rail takes 2 ms
    rig.send("OUTP OFF\nOUTP ON\n")
    assert rig.errors() == [-221] and rig.ask("*OPC?;:OUTP?;:OUTP:GOOD?") == "1;0;0"


def test_power_cycle_and_hot_plug(rig: Rig) -> None:
    rig.send("OUTP:CYCL 2\n")
    rig.advance(0.02)
    assert state(rig) == (False, False)
    rig.advance(1.9)
    assert state(rig) == (False, False)
    assert rig.ask("*OPC?") == "1" and state(rig) == (True, True)
    rig.do("OUTP:HPL OUT")
    assert state(rig) == (False, True)
    rig.do("OUTP:HPL IN;*WAI")
    assert state(rig) == (True, True)
    assert rig.error("OUTP:CYCL 1E-6") == -222


def test_a_rail_that_does_not_come(rig: Rig) -> None:
    rig.do("OUTP OFF;*WAI")
    rig.lib.model_set_rail_good(False)
    rig.do("OUTP ON")
    rig.advance(1.1)
    assert rig.errors() == [-240] and state(rig) == (False, False)


def test_over_current_opens_the_switch(rig: Rig) -> None:
    rig.do("OUTP:PROT:CURR 2.5;CURR:DEL 50 US")
    assert (rig.peek("OCP_LEVEL"), rig.peek("OCP_COUNT")) == (5_000_000, 50)
    before = rig.lib.model_now()
    rig.lib.model_set_rail(3.3, 3.0)
    rig.advance(1e-3)
    assert state(rig) == (False, False) and rig.errors() == [-240]
    kind, tick, amperes = rig.ask("OUTP:PROT:TRIP:DET?").split(",")
    assert kind == "OVER" and float(amperes) == 3.0 and 45e3 < int(tick) - before < 60e3
    rig.lib.model_set_rail(3.3, 0.5)
    assert rig.error("OUTP ON") == -221
    assert int(rig.ask("STAT:QUES:COND?")) & 2
    rig.do("OUTP:PROT:CLE")
    rig.advance(1)
    assert state(rig) == (False, False)  # clearing the trip does not switch on
    rig.do("OUTP ON;*WAI")
    assert state(rig) == (True, True) and rig.ask("OUTP:PROT:TRIP?") == "0"
    assert rig.error("OUTP:PROT:TRIP:DET?") == -230


@pytest.mark.parametrize("amperes", [4.096, 30.0])
def test_a_trip_beyond_the_scale_names_no_current(rig: Rig, amperes: float) -> None:
    """The greatest code is 4.096 A. Above it the converter shows the same code for every current."""
    rig.lib.model_set_rail(3.3, amperes)
    rig.advance(1e-3)
    kind, _, current = rig.ask("OUTP:PROT:TRIP:DET?").split(",")
    assert (kind, float(current)) == ("OVER", 9.9e37) and rig.errors() == [-240]


def test_protection_rests_while_the_self_test_plays_its_pattern(rig: Rig) -> None:
    """The pattern steps to 2 A in the converter's codes. A self-test that is cut short ends the same way."""
    rig.send("*TST?\n")
    rig.advance(1.06e-3)
    assert rig.peek("TEST_STATE") == 1 and rig.peek("POWER_CONTROL") & 8 == 0
    rig.settle()
    assert rig.read() == b"0\n" and rig.peek("POWER_CONTROL") & 8
    rig.send("*TST?\n")
    rig.advance(1.06e-3)
    assert rig.peek("POWER_CONTROL") & 8 == 0
    rig.send(b"\x03")
    rig.advance(1e-3)
    assert rig.peek("POWER_CONTROL") & 8
    rig.do("OUTP:PROT OFF")
    assert rig.ask("*TST?") == "0" and rig.peek("POWER_CONTROL") & 8 == 0


@pytest.mark.parametrize(("line", "register"), [("CAL:ZERO:CURR", "AFE"), ("CAL:ZERO:VOLT", "AFE"), ("*TST?", "TEST_CONTROL")])
def test_a_restart_gives_the_converters_back_to_the_drive(rig: Rig, line: str, register: str) -> None:
    """Protection would go on without them: it compares 0 A, or the current of the pattern."""
    rig.send(line + "\n")
    rig.advance(1.06e-3)
    assert rig.peek(register)
    assert rig.restart()
    assert rig.peek(register) == 0 and rig.peek("POWER_CONTROL") & 8


def test_inrush_has_its_own_level(rig: Rig) -> None:
    rig.do("OUTP:PROT:CURR 1;INR 3.5;INR:TIME 50 MS")
    rig.do("OUTP OFF;*WAI")
    rig.lib.model_set_rail(3.3, 3.0)
    rig.send("OUTP ON\n")
    rig.advance(20e-3)
    assert rig.peek("POWER_TRIP") == 0
    rig.lib.model_set_rail(3.3, 0.5)
    rig.advance(1)
    assert state(rig) == (True, True)
    rig.do("OUTP OFF;*WAI")
    rig.lib.model_set_rail(3.3, 3.8)
    assert rig.ask("OUTP ON") == ""
    rig.advance(5e-3)
    assert rig.peek("POWER_TRIP") == 2 and rig.errors() == [-240]


def test_the_inrush_level_holds_for_the_inrush_time(rig: Rig) -> None:
    rig.do("OUTP:PROT:CURR 1;INR 3.5;INR:TIME 20 MS;:OUTP OFF;*WAI")
    rig.lib.model_set_rail(3.3, 3.0)
    rig.send("OUTP ON\n")
    rig.advance(19e-3)
    assert rig.peek("POWER_TRIP") == 0
    rig.advance(2e-3)
    rig.lib.model_set_rail(3.3, 3.0)  # the model evaluates the current when it changes
    rig.advance(1e-3)
    assert rig.peek("POWER_TRIP") == 1 and rig.errors() == [-240]


def test_the_delay_of_protection_is_a_time_at_any_rate(rig: Rig) -> None:
    rig.do("OUTP:PROT:CURR:DEL 50 US;:SWE:TINT 10 US")
    assert rig.peek("OCP_COUNT") == 5
    rig.do("SWE:TINT 30 US")
    assert rig.peek("OCP_COUNT") == 2  # to the nearest
    rig.do("SWE:TINT 1 MS")
    assert rig.peek("OCP_COUNT") == 1


def test_a_power_cycle_is_a_second(rig: Rig) -> None:
    rig.send("OUTP:CYCL\n")
    rig.advance(0.99)
    assert state(rig) == (False, False)
    rig.advance(0.02)
    assert state(rig)[0]


def test_protection_off(rig: Rig) -> None:
    assert rig.peek("METER_CONTROL") == 1
    rig.do("OUTP:PROT OFF")
    assert rig.peek("METER_CONTROL") == 0
    rig.do("SENS:TOT ON")
    rig.lib.model_set_rail(3.3, 3.95)
    rig.advance(0.1)
    assert state(rig) == (True, True)


def test_sidebands(rig: Rig) -> None:
    rig.do("OUTP:CLKR ON;:OUTP:PERS ON")
    assert rig.ask("OUTP:CLKR?;PERS?;LINK?") == "1;1;0"
    assert rig.peek("POWER_CONTROL") & 6 == 6
    rig.do("OUTP:CLKR OFF;:OUTP:PERS OFF")
    assert rig.ask("OUTP:CLKR?;PERS?") == "0;0"


def test_a_trigger_on_current_measures(rig: Rig) -> None:
    rig.lib.model_set_noise(0.0)
    rig.do("TRIG:SOUR CURR;LEV 1;HYST 10 MA;ACT MET;:SENS:APER 1 MS;:ARM")
    assert rig.peek("TRIGGER_LEVEL") == 2_000_000 and rig.peek("TRIGGER_HYSTERESIS") == 20_000
    assert rig.ask("ARM:STAT?") == "ARM" and rig.error("FETC?") == -230 and rig.error("ARM") == -213
    assert rig.error("TRIG:TICK?") == -230
    rig.advance(1)
    at = rig.lib.model_now()
    rig.lib.model_set_rail(3.3, 1.5)
    rig.advance(0.01)
    assert rig.ask("ARM:STAT?") == "FIR" and abs(int(rig.ask("TRIG:TICK?")) - at) < 1000
    assert rig.number("FETC:CURR?") == pytest.approx(1.5, abs=2e-5)
    assert rig.ask("FETC:QUAL?").startswith("1000,")


@pytest.mark.parametrize(
    ("source", "unit", "below", "above"),
    [
        ("VOLT", 20e-6, (2.9, 1.0), (3.1, 1.0)),
        ("CURR", 500e-9, (1.0, 2.9), (1.0, 3.1)),
        ("POW", 20e-6 * 500e-9 * 65536, (2.0, 1.45), (2.0, 1.55)),
    ],
)
def test_levels_are_in_volts_amperes_and_watts(
    rig: Rig, source: str, unit: float, below: tuple[float, float], above: tuple[float, float]
) -> None:
    rig.lib.model_set_noise(0.0)
    rig.lib.model_set_rail(*below)
    rig.do(f"TRIG:SOUR {source};LEV 3;HYST 20E-3;:ARM")
    assert rig.peek("TRIGGER_LEVEL") == pytest.approx(3 / unit, abs=1)
    assert rig.peek("TRIGGER_HYSTERESIS") == pytest.approx(0.02 / unit, abs=1)
    rig.advance(1e-3)
    assert rig.ask("ARM:STAT?") == "ARM"
    rig.lib.model_set_rail(*above)
    rig.advance(1e-3)
    assert rig.ask("ARM:STAT?") == "FIR"


@pytest.mark.parametrize(
    "line",
    [
        "TRIG:SOUR CURR;LEV 0.11",
        "TRIG:SOUR CURR;LEV 3",
        "TRIG:SOUR CURR;SLOP NEG;LEV 50 MA;HYST 60 MA",
        "TRIG:SOUR CURR;LEV -0.2",
        "TRIG:SOUR CURR;LEV 50 MA;HYST 160 MA",
        "TRIG:SOUR POW;LEV 0.34",
    ],
)
def test_a_trigger_that_the_fine_range_could_never_fire_is_not_armed(rig: Rig, line: str) -> None:
    """The fine path shows up to 0.1 A, or 0.33 W at 3.3 V: beyond that there is nothing to wait for."""
    rig.do(f"{line};ACT MET;:ARM;:ARM:ABOR")
    rig.do("SENS:CURR:RANG 0.1")
    assert rig.error("ARM") == -221 and rig.ask("ARM:STAT?") == "IDLE"
    rig.do("SENS:CURR:RANG 4;:ARM")
    assert rig.ask("ARM:STAT?") == "ARM"
    # Whatever sets the range while the trigger is armed ends it, and says so.
    for change in ("CURR:RANG 0.1", "CONF:CURR 50 MA"):
        rig.do("SENS:CURR:RANG:AUTO ON;:ARM:ABOR;:ARM")
        rig.send(f"{change}\n")
        rig.settle()
        rig.advance(1e-3)
        assert rig.ask("ARM:STAT?;:SYST:ERR?") == 'IDLE;-221,"Settings conflict;level beyond range"'
        assert rig.error("FETC?") == -230


@pytest.mark.parametrize(
    "line",
    [
        "TRIG:SOUR CURR;LEV 0.1",
        "TRIG:SOUR CURR;SLOP NEG;LEV 50 MA;HYST 50 MA",
        "TRIG:SOUR POW;LEV 0.33",
        "TRIG:SOUR VOLT;LEV 3",
        "TRIG:SOUR COMM",
    ],
)
def test_other_triggers_go_with_the_fine_range(rig: Rig, line: str) -> None:
    rig.do(f"SENS:CURR:RANG 0.1;:{line};:ARM")
    rig.advance(1e-3)
    assert rig.ask("ARM:STAT?") == "ARM" and rig.errors() == []


def test_a_falling_level(rig: Rig) -> None:
    rig.do("TRIG:SOUR VOLT;SLOP NEG;LEV 3;:ARM")
    rig.lib.model_set_rail(3.1, 0.5)
    assert rig.ask("ARM:STAT?") == "ARM"
    rig.lib.model_set_rail(2.9, 0.5)
    assert rig.ask("ARM:STAT?") == "FIR"


def test_conditions_of_a_command(rig: Rig) -> None:
    rig.do("TRIG:SOUR COMM;COMM:OPC 1,#HFD;LBA 1000,2000;LAT 250 US;LAT:STAT ON;:TRIG:COMM:QUE IO;:TRIG:DEL 1 MS;ACT STAR;:ARM")
    assert rig.peek("TRIGGER_CONTROL") == 8 | 0x700
    assert rig.peek("TRIGGER_OPCODE") == 1 | 0xFD << 8 | 2 << 16
    assert (rig.peek("TRIGGER_LBA_FIRST_LO"), rig.peek("TRIGGER_LBA_LAST_LO"), rig.peek("TRIGGER_LATENCY")) == (1000, 2000, 250_000)
    rig.lib.model_event(8, 0)
    assert rig.peek("CONTROL") == 0
    rig.advance(2e-3)
    assert rig.peek("CONTROL") == 1 and rig.ask("STAT:RIG?").startswith("state=RUN,")
    rig.do("ARM:ABOR;:TRIG:COMM:LBA 5,4")
    assert rig.error("ARM") == -221


@pytest.mark.parametrize(
    ("setup", "event", "other"),
    [
        ("TRIG:SOUR LINK;LINK #B100000", (7, 5), (7, 1)),
        ("TRIG:SOUR PST;PST 16", (9, 4), (9, 3)),
        ("TRIG:SOUR CLKR;SLOP NEG", (5, 0), (5, 1)),
        ("TRIG:SOUR PERS", (6, 1), (6, 0)),
    ],
)
def test_events(rig: Rig, setup: str, event: tuple[int, int], other: tuple[int, int]) -> None:
    rig.do(setup + ";:ARM")
    rig.lib.model_event(*other)
    assert rig.ask("ARM:STAT?") == "ARM"
    rig.lib.model_event(*event)
    assert rig.ask("ARM:STAT?") == "FIR"


def test_forcing(rig: Rig) -> None:
    assert rig.error("*TRG") == -211
    rig.do("TRIG:SOUR BUS;:ARM;*TRG")
    assert rig.ask("ARM:STAT?") == "FIR"
    assert rig.error("TRIG:LEV 1") == -221
    rig.do("TRIG:SOUR IMM;:ARM")
    assert rig.ask("ARM:STAT?") == "FIR"


def test_capture(rig: Rig) -> None:
    assert rig.error("MARK 1") == -221
    rig.do("INIT")
    assert rig.error("INIT") == -213
    rig.do("MARK #HDEADBEEF")
    assert rig.peek("MARKER") == 0xDEADBEEF
    rig.do("SENS:RUN #H8C0FFEE1")
    assert rig.peek("RUN_ID") == 0x8C0FFEE1 and rig.ask("RUN?") == str(0x8C0FFEE1)
    assert rig.error("RUN 4294967296") == -222
    rig.do("ABOR")
    assert rig.peek("CONTROL") == 0 and rig.ask("STAT:RIG?").startswith("state=READY,")


def test_rail_settings_are_the_registers(rig: Rig) -> None:
    for r in (1, 2, 3, 100, 1000, 4096):
        rig.do(f"SWE:DEC {r}")
        mul, shift = rig.peek("DECIM_MUL"), rig.peek("DECIM_SHIFT")
        assert 2**shift >= r**3 and (shift == 0 or 2 ** (shift - 1) < r**3)
        assert mul == (2 ** (23 + shift) + r**3 // 2) // r**3
    rig.do("SWE:DEC 1;TINT 100 US")
    assert rig.peek("ADC_PERIOD") == 25_000 and rig.number("SWE:TINT?") == 1e-4
    assert rig.error("SWE:TINT 0.9 US") == -222 and rig.error("SWE:TINT 1") == -222
    rig.do("SWE:TINT 4E-3")
    assert rig.error("SWE:DEC 4096") == -221 and rig.ask("SWE:DEC?") == "1"


def test_late_attach_is_told_once_a_capture_runs(rig: Rig) -> None:
    assert rig.error("NVME:ATT") == -221 and rig.error("NVME:BAR0 #H1234") == -224
    assert rig.error("NVME:QUE XQ,1,0,4") == -224 and rig.error("NVME:QUE SQ,1,#H1000") == -109
    rig.do("NVME:BAR0 #HFEBC0000;QUE CQ,3,#H123456000,1024;ATT")
    assert rig.peek("COMMAND") & 8 == 0
    rig.do("INIT")
    rig.advance(1e-3)
    names = ("ATTACH_OP", "ATTACH_QID", "ATTACH_LINK", "ATTACH_SIZE", "ATTACH_ADDRESS_LO", "ATTACH_ADDRESS_HI", "COMMAND")
    assert [rig.peek(name) for name in names] == [4, 3, 3, 1024, 0x23456000, 1, 8]
    rig.poke("STATE", 1 | 8)  # the tracker is busy
    rig.do("NVME:QUE SQ,3,#H5000,64,2;ATT")
    rig.advance(1e-3)
    rig.send("*OPC?\n")
    assert not rig.settle(0.01) and rig.peek("ATTACH_OP") == 4
    rig.poke("STATE", 1)
    assert rig.settle(0.01) and rig.read() == b"1\n"
    assert [rig.peek(name) for name in names[:5]] == [3, 3, 2, 64, 0x5000]
