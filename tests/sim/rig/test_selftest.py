"""``*TST?`` with the real firmware: 0 on the RTL, and not 0 as soon as something in the record path is wrong."""

from pathlib import Path

import pytest
from rig_process import Rig
from rig_trace import encode, end, rail, sideband
from wattbell_gateware.registers import by_name

RECORDS, RAIL = 32, 64


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A drive that draws 3 A and whose link and PERST# move meanwhile: none of it may be in the self-test."""
    path = tmp_path / "busy.wbt"
    moves = [row for k in range(1, 60) for row in (sideband(10 * k, 1, k & 1), rail(10 * k + 3, 3.3, 3.0 * (k & 1)))]
    path.write_bytes(encode([rail(0, 3.3, 3.0), *moves, end(5000)]))
    return path


def test_it_passes(trace: Path, rig: type[Rig]) -> None:
    """Whatever is set; twice; and what was set is so again, the bus and the rail are back."""
    one = rig(trace)
    one.send("DIAG:SKEW?")
    assert one.ask("SYST:ERR?").startswith("-230,")
    one.send("SENS:SWE:TINT 1E-3;:TRIG:SOUR VOLT;LEV 1")
    for _ in range(2):
        before = dict(pair.split("=") for pair in one.ask("STAT:RIG?").split(","))
        assert one.ask("*TST?") == "0"
        after = dict(pair.split("=") for pair in one.ask("STAT:RIG?").split(","))
        assert int(after["commands"]) - int(before["commands"]) == 8 + 2, "the pattern's reads, and what makes their queues"
        assert (after["blocks"], after["lost_records"], after["in_flight"]) == ("0", "0", "0")
        assert abs(float(one.ask("DIAG:SKEW?"))) <= 50e-9
    assert one.ask("SENS:SWE:TINT?;:ARM:STAT?;:SYST:ERR?") == '+1.000000E-03;IDLE;0,"No error"'
    one.send("SENS:SWE:TINT 1E-6;APER 1E-4")
    assert float(one.ask("MEAS:VOLT?")) == pytest.approx(3.3, rel=5e-3)


def test_a_rail_path_without_gain_fails(trace: Path, rig: type[Rig]) -> None:
    """The tracker's turn is in tests_slow/test_selftest.py: nothing that can be set breaks it over the pattern's PERST#."""
    one = rig(trace)
    one.send(f"DIAG:REG {by_name('I_GAIN').address},0")
    assert int(one.ask("*TST?")) == RAIL
    assert one.ask("SYST:ERR?").startswith("-330,")


def test_fast_fidelity_has_none_and_says_so(trace: Path, rig: type[Rig]) -> None:
    one = rig(trace, "--fidelity", "fast")
    assert int(one.ask("*TST?")) == RECORDS + RAIL
    assert one.ask("SYST:ERR?").startswith("-330,")
