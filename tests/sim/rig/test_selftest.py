"""``*TST?`` with the real firmware gives 0, and a non-zero value as soon as a part of the record path is wrong."""

from pathlib import Path

import pytest
from wattbell_spec.registers import by_name

from tests.sim.rig.rig_process import Rig, wait_until
from tests.sim.rig.rig_trace import US, encode, end, rail, records, sideband

RAIL = 64
FIDELITIES = pytest.mark.parametrize("fidelity", ["rtl", "fast"])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a trace of a drive that draws 3 A, with changing link and PERST#: nothing may show in the self-test."""
    path = tmp_path / "busy.wbt"
    moves = [row for k in range(1, 60) for row in (sideband(10 * k, 1, k & 1), rail(10 * k + 3, 3.3, 3.0 * (k & 1)))]
    path.write_bytes(encode([rail(0, 3.3, 3.0), *moves, end(5000)]))
    return path


@FIDELITIES
def test_it_passes(trace: Path, rig: type[Rig], fidelity: str) -> None:
    """The self-test passes twice with any settings. Afterwards settings, bus and rail are restored."""
    one = rig(trace, "--fidelity", fidelity)
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


@FIDELITIES
def test_it_does_not_trip_the_protection(tmp_path: Path, rig: type[Rig], fidelity: str) -> None:
    """The pattern's 2 A, for 4 us a step, is above the level; the drive's 0.3 A is not. Protection is back afterwards."""
    trace = tmp_path / "short.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 0.3), sideband(10, 1, 1), rail(10_000, 3.3, 3.0), end(20_000)]))
    one = rig(trace, "--fidelity", fidelity)
    one.send("OUTP:PROT:CURR 1.5;CURR:DEL 1E-6")
    assert one.ask("*TST?;:OUTP?;:OUTP:PROT:TRIP?") == "0;1;0"
    one.send("SENS:APER 20E-3")
    assert float(one.ask("MEAS:CURR?")) > 0.5
    assert one.ask("OUTP?;:OUTP:PROT:TRIP?") == "0;1"


@FIDELITIES
def test_a_rail_path_without_gain_fails(trace: Path, rig: type[Rig], fidelity: str) -> None:
    """The tracker's test is tests/slow/test_selftest.py: no setting can break it across the pattern's PERST#."""
    one = rig(trace, "--fidelity", fidelity)
    one.send(f"DIAG:REG {by_name('I_GAIN').address},0")
    assert int(one.ask("*TST?")) == RAIL
    assert one.ask("SYST:ERR?").startswith("-330,")


def test_both_fidelities_play_it_alike(busy_trace: Path, tmp_path: Path, rig: type[Rig]) -> None:
    """The skew is the same, and so, byte for byte, is the stream of a capture afterwards.

    None of the bus's TLPs during the test was seen, all later ones are, and the tracker gets its queues again.
    """
    rows = list(records(busy_trace))
    middle = rows[len(rows) // 2][2]
    trace = tmp_path / "twice.wbt"  # the bus that the self-test hides, and the same bus for the capture
    later = [(kind, flags, at + 1500 * US, body) for kind, flags, at, body in rows if at > middle]
    trace.write_bytes(encode([row for row in rows if row[2] <= middle] + later))
    streams, skews = [], []
    for fidelity in ("rtl", "fast"):
        out = tmp_path / f"{fidelity}.wbs"
        one = rig(trace, "--output", out, "--fidelity", fidelity, ports=False)
        one.send("*TST?;:DIAG:SKEW?;:NVME:BAR0 #HFEB00000;QUE CQ,1,#H100000,64;QUE SQ,1,#H200000,64;ATT;:INIT")
        skews.append(one.control.readline())
        wait_until(lambda one=one: one.status()["state"] == "DONE", "the end of the trace")
        assert one.close() == 0
        streams.append(out.read_bytes())
    assert skews[0].startswith(b"0;") and skews[0] == skews[1]
    assert len(streams[0]) > 10_000 and streams[0] == streams[1]
