"""The rig's meter and protection, by SCPI through the real firmware: the answers match the rail in the trace."""

from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.sim.rig.rig_process import ROOT, Rig
from tests.sim.rig.rig_trace import encode, end, rail, sideband

STEADY_US = 400_000
FIDELITIES = pytest.mark.parametrize("fidelity", ["rtl", "fast"])


@pytest.fixture
def steady(tmp_path: Path) -> Path:
    """Write a trace of 3.3 V and 0.25 A for 0.4 s, then 3 A."""
    trace = tmp_path / "steady.wbt"
    rows = [rail(0, 3.3, 0.25), sideband(10, 1, 1), rail(STEADY_US, 3.2, 3.0), end(STEADY_US + 1000)]
    trace.write_bytes(encode(rows))
    return trace


@FIDELITIES
def test_the_rail_is_measured_without_a_capture(steady: Path, rig: type[Rig], fidelity: str) -> None:
    one = rig(steady, "--fidelity", fidelity)
    one.send("SENS:APER 1E-3;:TOT ON")
    before = one.status()["tick"]
    volts, amps, watts = (float(one.ask(f"MEAS:{what}?")) for what in ("VOLT", "CURR", "POW"))
    # a sixth of a per mille for the source, and the front end's filter rising in the first of 1000 conversions
    assert (volts, amps, watts) == (pytest.approx(3.3, rel=5e-3), pytest.approx(0.25, rel=5e-3), pytest.approx(0.825, rel=1e-2))
    passed = one.status()["tick"] - before
    assert 3_000_000 < passed < 4_000_000
    one.send("CONF:CURR")
    assert float(one.ask("READ?")) == pytest.approx(0.25, rel=3e-4)
    least, most = float(one.ask("FETC:CURR:MIN?")), float(one.ask("FETC:CURR:MAX?"))
    assert 0.249 < least < 0.25 < most < 0.251
    count, seconds, clipped, flags = one.ask("FETC:QUAL?").split(",")
    assert (int(count), float(seconds), int(clipped), int(flags)) == (1000, pytest.approx(1e-3), 0, 0)
    seconds = float(one.ask("TOT:TIME?"))
    assert seconds == pytest.approx(4e-3, rel=0.05)
    assert float(one.ask("TOT:ENER?")) == pytest.approx(0.825 * seconds, rel=1e-2)
    assert one.ask("SYST:ERR?") == '0,"No error"'
    assert one.status()["bytes"] == 0


def test_a_capture_does_not_notice_the_meter(tmp_path: Path, rig: type[Rig]) -> None:
    """The stream is the same with and without a measurement, and both give the same current."""
    trace = tmp_path / "levels.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 0.25), sideband(10, 1, 1), rail(5000, 3.2, 1.0), end(10_000)]))
    streams = []
    plain, measured = "SENS:APER 1E-3;:INIT", "SENS:APER 1E-3;:INIT;:MEAS:CURR?"
    for line, fidelity in ((plain, "rtl"), (measured, "rtl"), (measured, "fast")):
        out = tmp_path / f"{len(streams)}.wbs"
        one = rig(trace, "--output", out, "--exit-on-done", "--fidelity", fidelity, ports=False)
        if line.endswith("?"):
            assert float(one.ask(line)) == pytest.approx(0.25, rel=5e-3)
        else:
            one.send(line)
        assert one.process.wait(PATIENCE_S) == 0
        streams.append(out.read_bytes())
    assert len(streams[0]) > 10_000
    assert streams[0] == streams[1] == streams[2]


@FIDELITIES
def test_over_current_opens_the_switch(steady: Path, rig: type[Rig], fidelity: str) -> None:
    one = rig(steady, "--fidelity", fidelity)
    one.send("OUTP:PROT:CURR 2;CURR:DEL 20E-6;:SENS:APER 0.1")
    assert one.ask("OUTP?;:OUTP:PROT:TRIP?") == "1;0"
    for _ in range(4):
        one.ask("MEAS:CURR?")
    one.send("SENS:APER 1E-3")
    one.ask("MEAS:CURR?")
    assert one.ask("OUTP?;:OUTP:PROT:TRIP?") == "0;1"
    kind, tick, amps = one.ask("OUTP:PROT:TRIP:DET?").split(",")
    assert kind == "OVER" and float(amps) == pytest.approx(3.0, rel=1e-2)
    since_us = (int(tick) - one.entry["origin_tick"]) / 1000 - STEADY_US
    assert 20 <= since_us < 30  # twenty conversions in a row, preceded by the front end's filter
    assert "-240" in one.ask("SYST:ERR?")


def test_autozero_takes_out_what_the_zero_has_drifted(tmp_path: Path, rig: type[Rig]) -> None:
    """The board has two current paths and is 40 K warmer than at the factory. The firmware shorts its inputs, not the trace."""
    trace = tmp_path / "sleep.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1e-3), sideband(10, 1, 1), end(1000)]))
    one = rig(trace, "--afe", ROOT / "hw/afe/model.toml", "--temperature", 65, "--seed", 10)
    assert one.ask("*OPT?") == "FINE" and float(one.ask("SYST:TEMP?")) == 65.0
    # 1 s of 25 000 conversions: 298 uA of noise leave 1.9 uA on a mean, and on the zero
    one.send("SENS:SWE:TINT 4E-5;:SENS:APER 1")
    drifted = float(one.ask("MEAS:CURR?"))
    one.send("CAL:ZERO:CURR")
    zeroed = float(one.ask("MEAS:CURR?"))
    assert abs(drifted - 1e-3) > 50e-6
    assert abs(zeroed - 1e-3) < 4 * 2.7e-6
    assert int(one.ask("FETC:QUAL?").split(",")[3]) == 16, "of the fine path, calibrated, no overload"
