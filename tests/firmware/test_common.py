"""Common commands, status registers, settings kept in the EEPROM, restarts."""

from __future__ import annotations

import re

from tests.firmware.rig import Rig


def test_identity(rig: Rig) -> None:
    assert rig.ask("*IDN?") == "Wattbell,rig,0,0.3.0"
    rig.do('DIAG:IDEN "virtual-rig","WB-0042"')
    rig.power_on()
    assert rig.ask("*IDN?") == "Wattbell,virtual-rig,WB-0042,0.3.0"
    assert rig.error('DIAG:IDEN "a,b","c"') == -224


def test_event_status_and_status_byte(rig: Rig) -> None:
    assert rig.ask("*ESR?;*ESR?") == "128;0"
    rig.do("*ESE 60;*SRE 255")
    assert rig.ask("*ESE?;*SRE?") == "60;191"
    rig.ask("FOO")
    assert rig.ask("*STB?") == str(4 + 32 + 64)
    rig.ask("SWE:DEC 9999")
    assert rig.ask("*ESR?") == str(32 + 16)
    assert rig.ask("*ESR?;*STB?") == f"0;{4 + 16 + 64}"  # the first answer waits: 16
    rig.do("*CLS")
    assert rig.ask("*STB?") == "0"
    assert rig.error("*ESE 256") == -222


def test_operation_complete_waits_for_the_gate(rig: Rig) -> None:
    rig.do("*CLS;:SENS:APER 2;:MEAS;*OPC")
    assert rig.ask("*ESR?") == "0"
    rig.advance(2.1)
    assert rig.ask("*ESR?") == "1"
    before = rig.lib.model_now()
    assert rig.ask("MEAS;*OPC?") == "1"
    assert rig.lib.model_now() - before > 2e9
    assert rig.ask("MEAS;*WAI;:STAT:OPER:COND?") == "512"


def test_operation_register_has_edges_and_a_mask(rig: Rig) -> None:
    rig.do("STAT:PRES;:STAT:OPER:ENAB 256;*SRE 128")
    assert rig.ask("STAT:OPER:EVEN?;COND?") == "512;512"
    rig.do("INIT")
    assert rig.ask("STAT:OPER:COND?;*STB?") == f"{512 + 256};{128 + 64 + 16}"
    assert rig.ask("STAT:OPER:EVEN?;EVEN?;:STAT:OPER:NTR 256;PTR 0") == "256;0"
    rig.do("ABOR")
    assert rig.ask("STAT:OPER:EVEN?;COND?;ENAB?;NTR?;PTR?") == "256;512;256;256;0"


def test_save_and_recall_survive_power(rig: Rig) -> None:
    rig.do("SWE:DEC 17;:TRIG:SOUR COMM;COMM:LBA 5,4294967296;:SENS:APER 3 MS;*SAV 2;*RST")
    assert rig.ask("SWE:DEC?;:TRIG:SOUR?;:SENS:APER?") == "1;IMM;+1.00000000E-01"
    rig.power_on()
    assert rig.ask("SWE:DEC?") == "1"
    rig.do("*RCL 2")
    assert rig.ask("SWE:DEC?;:TRIG:SOUR?;COMM:LBA?;:SENS:APER?") == "17;COMM;5,4294967296;+3.000000E-03"
    assert (rig.peek("DECIMATION"), rig.peek("DECIM_SHIFT")) == (17, 13)
    assert rig.error("*RCL 3") == -314
    rig.do("*SAV 0")
    rig.power_on()
    assert rig.ask("SWE:DEC?") == "17"
    assert rig.peek("DECIMATION") == 17


def test_a_damaged_record_is_refused_and_the_one_before_it_kept(rig: Rig) -> None:
    rig.do("SWE:DEC 5;*SAV 1;:SWE:DEC 6;*SAV 1;:SWE:DEC 7")
    rig.do("*RCL 1")
    assert rig.ask("SWE:DEC?") == "6"
    places = [k * 512 for k in range(16) if rig.eeprom[k * 512] == 0x57]
    assert len(places) == 2
    rig.eeprom[places[1] + 12] ^= 1
    assert rig.error("*RCL 1") == -311
    assert rig.ask("SWE:DEC?") == "5"
    rig.eeprom[places[0] + 12] ^= 1
    assert rig.error("*RCL 1") == -314
    assert rig.ask("SWE:DEC?") == "5"


def test_a_damaged_sequence_number_makes_no_record_the_newest(rig: Rig) -> None:
    rig.do("SWE:DEC 5;*SAV 1;:SWE:DEC 6;*SAV 1;:SWE:DEC 7")
    (older,) = (k * 512 for k in range(16) if rig.eeprom[k * 512] == 0x57 and rig.eeprom[k * 512 + 4] == 1)
    rig.eeprom[older + 5] ^= 1  # of the four bytes behind the count
    assert rig.error("*RCL 1") == -311
    assert rig.ask("SWE:DEC?") == "6"


def test_an_eeprom_that_does_not_answer(rig: Rig) -> None:
    rig.lib.model_set_i2c(False, False)
    assert rig.error("*SAV 1") == -320
    assert rig.error("*RCL 1") == -314
    assert rig.error("SYST:TEMP?") == -240
    assert int(rig.ask("STAT:QUES:COND?")) & 16
    assert rig.ask("*TST?") == str(4 + 8)
    assert rig.errors() == [-330]


def test_time_and_date(rig: Rig) -> None:
    assert rig.ask("SYST:DATE?") == "1970,1,1"
    rig.do("SYST:DATE 2028,2,28;TIME 23,59,58")
    rig.advance(3)
    assert rig.ask("SYST:DATE?;TIME?") == "2028,2,29;0,0,1"
    for year, month, day in ((2000, 2, 29), (2026, 11, 21), (1999, 12, 31), (2100, 3, 1)):
        rig.do(f"SYST:DATE {year},{month},{day}")
        assert rig.ask("SYST:DATE?") == f"{year},{month},{day}"
    assert rig.error("SYST:TIME 24,0,0") == -222
    assert abs(int(rig.ask("SYST:TICK?")) - rig.lib.model_now()) < 1e6


def test_temperature(rig: Rig) -> None:
    for celsius in (-12.5, 0.0, 31.25, 84.9375):
        rig.lib.model_set_temperature(celsius)
        assert rig.number("SYST:TEMP?") == celsius


def test_reset_leaves_power_language_and_calibration(rig: Rig) -> None:
    rig.do('SYST:LANG "34405A";:OUTP OFF;*WAI;:CAL:VOLT:DATA 5,6;:SWE:DEC 9;:SENS:TOT ON')
    rig.do("*RST")
    assert rig.ask("SYST:LANG?;:OUTP?;:CAL:VOLT:DATA?;:SWE:DEC?;:SENS:TOT?") == '"34405A";0;5,6;1;0'


def test_a_restart_changes_nothing_for_the_drive(rig: Rig) -> None:
    rig.do("OUTP:PERS ON;:INIT")
    before = {name: rig.peek(name) for name in ("POWER_CONTROL", "POWER_STATE", "CONTROL")}
    assert before["POWER_STATE"] & 5 == 1 and before["CONTROL"] == 1
    rig.send("SYST:REST\n")
    rig.settle()
    assert {name: rig.peek(name) for name in before} == before
    assert rig.errors() == []
    assert rig.ask("*ESR?") == "128"


def test_watchdog_and_crash_are_told(rig: Rig) -> None:
    rig.poke("POWER_CONTROL", 1)
    rig.poke("RESET_CAUSE", 2)
    rig.lib.firmware_init()  # what the core does after the watchdog has bitten
    assert rig.ask("SYST:ERR?") == '-310,"System error;restarted by the watchdog"'
    assert rig.peek("RESET_CAUSE") == 0 and rig.peek("POWER_CONTROL") & 1
    rig.poke("RESET_CAUSE", 4)
    rig.poke("CRASH_CAUSE", 6)
    rig.poke("CRASH_PC", 0x1234)
    rig.lib.firmware_init()
    assert rig.ask("SYST:ERR?") == '-310,"System error;restarted after a crash"'
    assert rig.ask("SYST:CRAS?") == "6,#H00001234"


def test_the_watchdog_is_armed_and_kicked(rig: Rig) -> None:
    assert rig.peek("WATCHDOG_TIMEOUT") == 2_000_000_000 >> 20
    rig.advance(60)
    assert rig.errors() == []
    rig.poke("WATCHDOG_TIMEOUT", 0x10)  # 17 ms, shorter than the firmware's pace: now it bites
    rig.advance(2)
    assert -310 in rig.errors()


def test_help_is_the_whole_table_and_every_header_is_known(rig: Rig) -> None:
    text = rig.ask("SYST:HELP:HEAD?")
    size = int(text[2 : 2 + int(text[1])])
    headers = text[2 + int(text[1]) :].splitlines()
    assert len("\n".join(headers)) + 1 == size and len(headers) > 150
    for header in headers:
        for form in (re.sub(r"\[[^]]*\]", "", header), re.sub(r"[][]", "", header), re.sub(r"[][a-z]", "", header)):
            if "REST" in form.upper() or "CAL" in form.upper()[:4]:
                continue
            rig.send(form + "\n\x03")
            rig.settle()
            rig.read()
            assert -113 not in rig.errors(), form


def test_registers_by_address(rig: Rig) -> None:
    assert rig.ask("DIAG:REG? 0;REG? #H2") == "#H4C454257;#H00041004"
    rig.do("DIAG:REG #H20,3")
    assert rig.peek("ATTACH_OP") == 3
    for line in ("DIAG:REG? 128", "DIAG:REG 129,65", "DIAG:REG #H8A,0", "DIAG:REG #H8C,1"):
        assert rig.error(line) == -224
    assert rig.error("DIAG:REG? 256") == -222
