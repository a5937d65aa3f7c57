"""The rig's meter and protection, by SCPI through the real firmware: the answers match the rail in the trace."""

from pathlib import Path

import pytest
from wattbell_spec.registers import by_name

from tests.patience import PATIENCE_S
from tests.sim.rig.rig_process import ROOT, Rig, column, decode, wait_until
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


FINE_BOARD = ("--afe", ROOT / "hw/afe/model.toml", "--temperature", 25, "--seed", 10)
"""A board with a fine current path. Its scale ends near 0.11 A."""


def short(trace: Path, amps: float = 3.0) -> Path:
    """0.05 A for 10 ms, then a short circuit of `amps` for 10 ms."""
    trace.write_bytes(encode([rail(0, 3.3, 0.05), sideband(10, 1, 1), rail(10_000, 3.2, amps), end(20_000)]))
    return trace


@FIDELITIES
def test_over_current_opens_the_switch_while_the_fine_range_is_set(tmp_path: Path, rig: type[Rig], fidelity: str) -> None:
    """A short circuit is 30 times the fine path's scale: only the coarse path sees it."""
    one = rig(short(tmp_path / "short.wbt"), *FINE_BOARD, "--fidelity", fidelity)
    one.send("OUTP:PROT:CURR 2;CURR:DEL 20E-6;:SENS:CURR:RANG 0.1;:SENS:APER 1E-3")
    assert float(one.ask("MEAS:CURR? 0.1")) == pytest.approx(0.05, rel=1e-2)
    assert one.ask("OUTP?;:OUTP:PROT:TRIP?") == "1;0"
    one.send("SENS:APER 12E-3")
    assert float(one.ask("MEAS:CURR? 0.1")) == 9.9e37, "off the fine path's scale"
    assert one.ask("OUTP?;:OUTP:PROT:TRIP?") == "0;1"
    kind, tick, amps = one.ask("OUTP:PROT:TRIP:DET?").split(",")
    assert kind == "OVER" and float(amps) == pytest.approx(3.0, rel=1e-2)
    since_us = (int(tick) - one.entry["origin_tick"]) / 1000 - 10_000
    assert 20 <= since_us < 30


@pytest.mark.parametrize("amps", [1.9, 2.1])
def test_in_a_capture_of_the_fine_range_protection_trips_above_its_level_alone(tmp_path: Path, rig: type[Rig], amps: float) -> None:
    """At 1.9 A of 2 A it does not. Both fidelities give the same trip and the same stream, which is the fine path's."""
    trace, answers, streams = short(tmp_path / "short.wbt", amps), [], []
    for fidelity in ("rtl", "fast"):
        out = tmp_path / f"{fidelity}.wbs"
        one = rig(trace, *FINE_BOARD, "--fidelity", fidelity, "--output", out, ports=False)
        one.send("OUTP:PROT:CURR 2;CURR:DEL 20E-6;:SENS:CURR:RANG 0.1;:INIT")
        wait_until(lambda one=one: one.status()["state"] == "DONE", "the end of the trace")
        answers.append(one.ask("OUTP:PROT:TRIP?;:OUTP:PROT:TRIP:DET?") if amps > 2 else one.ask("OUTP:PROT:TRIP?"))
        assert one.close() == 0
        streams.append(out.read_bytes())
    assert answers[0] == answers[1] and streams[0] == streams[1] and len(streams[0]) > 10_000
    assert answers[0].startswith("1;OVER,") if amps > 2 else answers[0] == "0"
    if amps > 2:
        assert float(answers[0].split(",")[2]) == pytest.approx(2.1, rel=2e-2)
    currents = column(decode(streams[0])[0], "rail", "current")
    assert max(currents) * 500e-9 < 0.12, "the samples stay the fine path's"


@pytest.mark.parametrize("setting", ["RANG:AUTO ON", "RANG 4", "RANG 0.1"])
@FIDELITIES
def test_the_end_of_the_coarse_scale_is_above_any_level(tmp_path: Path, rig: type[Rig], fidelity: str, setting: str) -> None:
    """With a calibration by which the greatest code is 3.7 A, no value is above a level of 4 A; the code says enough."""
    trace, gain = short(tmp_path / "short.wbt", 4.2), round(by_name("I_GAIN").reset * 0.9)
    one = rig(trace, *FINE_BOARD, "--fidelity", fidelity, "--output", tmp_path / "out.wbs", ports=False)
    one.send(f"CAL:CURR:DATA 0,{gain};:OUTP:PROT:CURR 4;:SENS:CURR:{setting};:INIT")
    wait_until(lambda: one.status()["state"] == "DONE", "the end of the trace")
    assert one.ask("OUTP?;:OUTP:PROT:TRIP?") == "0;1"
    kind, tick, amps = one.ask("OUTP:PROT:TRIP:DET?").split(",")
    assert kind == "OVER" and float(amps) == 9.9e37
    assert 20 <= (int(tick) - one.entry["origin_tick"]) / 1000 - 10_000 < 40, "the filter nears the end of the scale slowly"


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
