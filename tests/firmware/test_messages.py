"""Program messages: forms, paths, parameters, errors; and no input stops the firmware."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.firmware.rig import Rig


@pytest.fixture(scope="module")
def shared(firmware: None) -> Rig:
    """One rig shared by many lines."""
    return Rig()


@pytest.mark.parametrize(
    "line",
    [
        "SENSE:SWEEP:DECIMATION 8",
        "sens:swe:dec 8",
        ":SeNs:Swe:DEC #H8",
        "SWE:DEC 8",
        "SENS:SWE:DEC 8.0",
        "SENS:SWE:DEC\t+8E0",
        "SENS:SWE:DEC 80e-1 ;",
        ";;SWE:DEC #B1000",
        "SWE:DEC #q10\r",
    ],
)
def test_long_and_short_forms_in_any_case(rig: Rig, line: str) -> None:
    rig.do(line)
    assert rig.ask("SENS:SWE:DEC?") == "8"


@pytest.mark.parametrize(("line", "error"), [
    ("SENSE:SWEE:DEC 8", -113), ("SEN:SWE:DEC 8", -113), ("SENS:SWE", -113), ("*IDN", -113), ("*FOO?", -113), ("ABOR?", -113),
    ("SENS:SWE:DEC", -109), ("SENS:SWE:DEC 1,2", -108), ("SENS:SWE:DEC 4S", -138), ("SENS:SWE:DEC 0", -222), ("SWE:DEC 4097", -222),
    ("SENS:SWE:DEC FOO", -104), ("SENS:SWE:DEC 'FOO'", -104), ("SENS:SWE:TINT 1 V", -131), ("SENS:SWE:TINT 1 SS", -131),
    ("SENS:SWE:DEC 1 2", -103), ("SENS:SWE:DEC 1,", -102), ("SENS:SWE:DEC ,1", -102), ("SENS:SWE:DEC !", -101), ("!", -101),
    ("SENS::SWE:DEC 1", -102), ("SENS:SWE:DEC?1", -111), ("SENS:SWEEEEEEEEEEEEEEEP:DEC 1", -112), ("SWE:DEC #H", -121),
    ("SWE:DEC #B12", -121), ("SWE:DEC #15ABCDE", -168), ("SWE:DEC 1E99999", -123), ("SWE:DEC (1", -171), ("SWE:DEC (@1)", -104),
    ("SYST:LANG \"34405A", -151), ("SYST:LANG \"FOO\"", -224), ("TRIG:SOUR FOO", -224), ("MARK #H1FFFFFFFFFFFFFFFF", -222),
    ("MARK 1.5", -222), ("SWE:DEC " + "1" * 300, -124), ("*IDN? 1", -108), ("OUTP MAYBE", -224), ("MARK -1", -222),
    ("TRIG:SOUR " + "A" * 30, -144), ("APER 1 ABCDEFGHIJKLMN", -134), (":", -102), ("*", -102), ("SENS:", -102), ("?", -102),
])  # fmt: skip
def test_what_is_wrong_has_its_number(rig: Rig, line: str, error: int) -> None:
    assert rig.error(line) == error
    assert rig.ask("*OPC?") == "1"


def test_an_error_says_what_about(rig: Rig) -> None:
    rig.ask('FOO:BAR "x"')
    assert rig.ask("SYST:ERR?") == '-113,"Undefined header;FOO:BAR"'
    rig.ask("SENS:SWE:DEC 9999")
    assert rig.ask("SYST:ERR?") == '-222,"Data out of range;9999"'
    assert rig.ask("SYST:ERR?") == '0,"No error"'


def test_paths_of_compound_messages(rig: Rig) -> None:
    """SCPI-99 volume 1, 6.2.4: a header continues the path of the one before; ':' goes to the root; '*' leaves the path alone."""
    assert rig.ask("TRIG:COMM:OPC 2;LBA 5,9;*OPC?;LBA?;:SENS:SWE:DEC 4;DEC?") == "1;5,9;4"
    assert rig.error("SENS:SWE:DEC 4;:DEC 5") == -113
    assert rig.error("SENS:SWE:DEC 4;SENS:SWE:DEC 5") == -113
    assert rig.ask("SENS:SWE:DEC?") == "4"


def test_after_a_command_error_the_rest_of_the_message_is_left(rig: Rig) -> None:
    assert rig.error("SWE:DEC 2;FOO;:SWE:DEC 3") == -113
    assert rig.ask("SWE:DEC?") == "2"
    assert rig.error("SWE:DEC 9999;DEC 3") == -222  # an execution error: the next unit is carried out
    assert rig.ask("SWE:DEC?") == "3"


def test_minimum_maximum_default(rig: Rig) -> None:
    assert [rig.ask(f"SWE:DEC? {word}") for word in ("MIN", "maximum", "DEF")] == ["1", "4096", "1"]
    rig.do("SWE:DEC MAX")
    assert rig.ask("SWE:DEC?") == "4096"
    assert rig.number("APER? MAX") == 10


def test_the_queue_overflows_into_350(rig: Rig) -> None:
    for k in range(40):
        rig.ask(f"FOO{k}")
    assert rig.ask("SYST:ERR:COUN?") == "32"
    found = [rig.ask("SYST:ERR?") for _ in range(33)]
    assert found[30] == '-113,"Undefined header;FOO30"'
    assert found[31] == '-350,"Queue overflow"'
    assert found[32] == '0,"No error"'
    rig.ask("FOO;")
    assert rig.ask("SYST:ERR:ALL?;ALL?") == '-113,"Undefined header;FOO";0,"No error"'
    rig.ask("FOO")
    rig.do("*CLS")


def test_overlong_lines_are_refused_whole(rig: Rig) -> None:
    assert rig.error("SWE:DEC 7;" + " " * 600) == -363
    assert rig.ask("SWE:DEC?") == "1"
    line = "SWE:DEC 7;" + " " * 500
    assert len(line) < 512
    rig.do(line)
    assert rig.ask("SWE:DEC?") == "7"


@pytest.mark.parametrize("data", [b"\x00", b"SWE:DEC \xff", b"\x80\x81\x82", b"*IDN?\x1b[A", b'SYST:LANG "\xe9"'])
def test_binary_is_an_invalid_character(rig: Rig, data: bytes) -> None:
    rig.send(data + b"\n")
    assert rig.settle() and rig.read() == b""
    assert rig.errors() == [-101]


def test_device_clear_ends_what_waits(rig: Rig) -> None:
    rig.do("SENS:APER 10;AVER ON;AVER:COUN 1000")
    rig.send("READ?\n*IDN?\n")
    assert not rig.settle(1)
    rig.send(b"\x03")
    rig.settle(1)
    assert rig.read() == b""
    assert rig.ask("*IDN?").startswith("Wattbell,")
    assert rig.errors() == []


def test_device_clear_opens_the_inputs_again(rig: Rig) -> None:
    rig.send("CAL:ZERO\n")
    assert not rig.settle(0.001)
    assert rig.peek("AFE") == 2
    rig.send(b"\x03")
    rig.settle(1)
    assert rig.peek("AFE") == 0


def test_a_reader_that_does_not_read_stops_nothing(rig: Rig) -> None:
    """Output waits for room without blocking protection, the watchdog or later input."""
    rig.lib.model_set_room(16)
    rig.send("SYST:HELP:HEAD?\n*IDN?\n")
    rig.settle(1)
    rig.advance(10)
    assert rig.peek("RESET_CAUSE") == 0  # the watchdog was kicked throughout
    got = b""
    for _ in range(2000):
        piece = rig.read()
        got += piece
        rig.advance(1e-3)
    size = int(got[2 : 2 + int(got[1:2])])
    assert got[2 + int(got[1:2]) + size :].startswith(b"\nWattbell,")


NUMBERS = st.tuples(
    st.sampled_from(["", "+", "-"]),
    st.from_regex(r"\A([0-9]{1,20}(\.[0-9]{0,12})?|\.[0-9]{1,12})\Z"),
    st.one_of(st.just(""), st.integers(-12, 9).map("E{}".format), st.integers(0, 9).map(" e +{}".format)),
    st.sampled_from([("", 0), ("S", 0), ("MS", -3), ("us", -6), (" NS", -9), ("ks", 3), (" ps", -12)]),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(NUMBERS)
def test_a_decimal_is_what_it_says(shared: Rig, parts: tuple) -> None:
    """Exactly, to the nanosecond: against Python's fractions."""
    sign, digits, exponent, (suffix, power) = parts
    text = sign + digits + exponent
    exact = Fraction(text.replace(" ", "")) * Fraction(10) ** power
    nanoseconds = abs(exact) * 10**9
    rounded = math.floor(nanoseconds + Fraction(1, 2)) * (-1 if exact < 0 else 1)
    answer = shared.ask(f"OUTP:PERS:DEL 5E-9;DEL {text}{suffix};DEL?")
    errors = shared.errors()
    if 0 <= rounded <= 10**10:
        assert errors == [] and Fraction(answer) * 10**9 == rounded
    else:
        assert errors == [-222] and Fraction(answer) * 10**9 == 5


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=700).filter(lambda b: b"\x03" not in b))
def test_any_bytes_leave_it_answering(shared: Rig, data: bytes) -> None:
    shared.send(b"\n" + data + b"\n")
    assert shared.settle()
    shared.read()
    assert re.fullmatch(r"Wattbell,.*|Agilent Technologies,34405A,.*", shared.ask("*IDN?"))


WORDS = st.sampled_from([
    "SENS", "SWE", "DEC", "MEAS", "VOLT", "CURR", "*IDN", "*OPC", "*WAI", "SYST", "ERR", "ALL", "OUTP", "ON", "TRIG", "SOUR", "IMM", "ARM",
    "FETC", "READ", "MIN", "MAX", "DEF", "1", "-1E3", "0.1", "#H1F", '"VOLT"', "MA", "CAL", "ZERO", "*RST", "NVME", "QUE", "SQ", "INIT",
    "ABOR", "*TST", "*SAV", "*RCL", "DIAG", "REG", "HELP", "HEAD", "LANG", "PROT",
])  # fmt: skip
PIECES = st.lists(st.one_of(WORDS, st.sampled_from([":", ";", "?", ",", " ", "\n", ":", " "])), max_size=40).map("".join)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES)
def test_any_order_of_words_leaves_it_answering(shared: Rig, text: str) -> None:
    shared.send("\n" + text + "\n")
    assert shared.settle(1000)
    shared.read()
    assert shared.ask("*OPC?") == "1"
    for line in ("*CLS", "ARM:ABOR", "SENS:APER 1E-4"):
        shared.ask(line)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 40), max_size=12))
def test_where_bytes_are_cut_does_not_matter(shared: Rig, cuts: list[int]) -> None:
    message = b"SENS:SWE:DEC 12;DEC?;*OPC?;:SENS:SWE:TINT 2 US;TINT?\n*IDN?\n"
    shared.send(message)
    assert shared.settle()
    whole, at = shared.read(), 0
    for cut in cuts:
        shared.send(message[at : at + cut])
        shared.advance(1e-4)
        at += cut
    shared.send(message[at:])
    assert shared.settle() and shared.read() == whole
