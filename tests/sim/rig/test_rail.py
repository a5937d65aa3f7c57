"""The analog side, from the rail's waveform in the trace to the samples in the stream."""

import math
from pathlib import Path

import numpy as np
import pytest
from wattbell_spec.units import CURRENT_LSB_NA, ENERGY_LSB_W, VOLTAGE_LSB_UV
from wattbell_spec.wire import RailFlag

from tests.sim.rig.rig_process import ORIGIN_TICK, ROOT, Rig, column, decode, play
from tests.sim.rig.rig_trace import encode, end, rail

V, A = VOLTAGE_LSB_UV * 1e-6, CURRENT_LSB_NA * 1e-9


def samples(stream: bytes) -> tuple[np.ndarray, np.ndarray]:
    batches, _ = decode(stream)
    volts = np.array(column(batches, "rail", "voltage")) * V
    amps = np.array(column(batches, "rail", "current")) * A
    return volts, amps


def timed(stream: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return microseconds since the trace began, and A, of samples taken every microsecond."""
    batches, _ = decode(stream)
    firsts, counts = column(batches, "rail", "first_tick"), column(batches, "rail", "count")
    ticks = np.concatenate([first + 1000 * np.arange(count) for first, count in zip(firsts, counts, strict=True)])
    return (ticks - ORIGIN_TICK) / 1000, np.array(column(batches, "rail", "current")) * A


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_factory_calibration_makes_it_accurate(tmp_path: Path, seed: int) -> None:
    trace = tmp_path / "steady.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1.0), end(20_000)]))
    volts, amps = samples(play(trace, tmp_path, "--seed", seed))
    # after the filter has settled; the source is good to 30 ppm (1 sigma)
    assert volts[50:].mean() == pytest.approx(3.3, rel=2e-4)
    assert amps[50:].mean() == pytest.approx(1.0, rel=2e-4)


def test_a_sleeping_drive_is_within_5_microampere(tmp_path: Path) -> None:
    trace = tmp_path / "sleep.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1.2e-3), end(20_000)]))
    for seed in range(4):
        _, amps = samples(play(trace, tmp_path, "--seed", seed))
        assert amps[50:].mean() == pytest.approx(1.2e-3, abs=5e-6)


def test_without_calibration_it_is_off_and_says_so(quiet_trace: Path, tmp_path: Path) -> None:
    raw = play(quiet_trace, tmp_path, "--calibration", "none")
    calibrated = play(quiet_trace, tmp_path)
    error = [abs(samples(stream)[1][50:20_000].mean() - 1.0) for stream in (raw, calibrated)]
    assert error[0] > 3 * error[1]
    for stream, flag in ((raw, RailFlag.UNCALIBRATED), (calibrated, 0)):
        flags = column(decode(stream)[0], "rail", "flags")
        assert {f & RailFlag.UNCALIBRATED for f in flags} == {flag}


def test_noise_is_what_was_asked_for(quiet_trace: Path, tmp_path: Path) -> None:
    for noise_lsb in (0.5, 4.0):
        _, amps = samples(play(quiet_trace, tmp_path, "--noise", noise_lsb))
        n = 20_000
        measured = amps[100 : 100 + n].std() / 31.25e-6
        expected = math.sqrt(noise_lsb**2 + 1 / 12)  # quantisation adds its own
        assert measured == pytest.approx(expected, rel=6 / math.sqrt(2 * n))


def test_a_step_follows_the_filter(tmp_path: Path) -> None:
    """Samples at 1 us of a 2 us single pole: every sample is on 1 - exp(-t/tau), at the stream's time."""
    trace = tmp_path / "step.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 0.0), rail(2000.2, 3.3, 2.0), end(3000)]))
    times_us, amps = timed(play(trace, tmp_path, "--noise", "0", "--errors", "0"))
    since_us = np.maximum(times_us - 2000.2, 0)
    expected = 2.0 * (1 - np.exp(-since_us / 2.0))
    # half an ADC code of quantisation, a quarter of calibration without noise, half an output LSB
    assert np.abs(amps - expected).max() < 31.25e-6 * 0.85 + A


def test_energy_is_that_of_the_waveform(quiet_trace: Path, tmp_path: Path) -> None:
    batches, _ = decode(play(quiet_trace, tmp_path))
    energy = (column(batches, "rail", "energy")[-1] - column(batches, "rail", "energy")[0]) * ENERGY_LSB_W * 1e-6
    index = column(batches, "rail", "adc_index")
    first_us, last_us = index[0], index[-1]
    expected = 3.3 * 1.0 * (25_000 - first_us) * 1e-6 + 3.3 * 0.1 * (last_us - 25_000) * 1e-6
    assert energy == pytest.approx(expected, rel=3e-4)


TWO_PATHS = ("--afe", ROOT / "hw/afe/model.toml", "--fidelity", "fast")
NOISE_A = 298e-6
"""Noise of a conversion on either path, in A (docs/front-end.md)."""


def test_two_paths_are_one_current_with_no_step_between_them(tmp_path: Path) -> None:
    """Levels are on both sides of the paths' common band, in it, and where only the coarse path is within its scale."""
    levels, dwell_us = [0.0, 1.2e-3, 0.05, 0.081, 0.085, 0.09, 0.095, 0.099, 0.15, 2.0], 40_000
    trace = tmp_path / "levels.wbt"
    trace.write_bytes(encode([*(rail(dwell_us * k, 3.3, amps) for k, amps in enumerate(levels)), end(dwell_us * len(levels))]))
    for seed in (1, 2):
        stream = play(trace, tmp_path, *TWO_PATHS, "--seed", seed)
        _, amps = samples(stream)
        for k, level in enumerate(levels):
            mean = amps[k * dwell_us + 100 : (k + 1) * dwell_us - 10].mean()
            assert mean == pytest.approx(level, abs=1e-3 * level + 5e-6 + 4 * NOISE_A / math.sqrt(dwell_us)), (seed, level)
        assert not any(column(decode(stream)[0], "rail", "flags")[1:])  # the fine path's overload at 2 A does not count


def test_nothing_is_seen_of_the_fine_path_coming_back(tmp_path: Path) -> None:
    """From 4 A to 10 mA every sample is on the coarse path's exponential, though the fine path's codes are within their scale at
    once.
    """
    trace = tmp_path / "back.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 4.0), rail(2000, 3.3, 0.01), end(3000)]))
    times_us, amps = timed(play(trace, tmp_path, *TWO_PATHS, "--seed", 3))
    near = (times_us > 1980) & (times_us < 2180)
    assert near.sum() == 200
    since_us = np.maximum(times_us[near] - 2000, 0)
    edge = 3.99 * np.exp(-since_us / 2.0)
    # a path's delay varies by 25 ns from board to board: at most 1.3 % of the edge, here 5 sigma
    assert np.all(np.abs(amps[near] - 0.01 - edge) < 6 * NOISE_A + 2e-3 * edge + 0.065 * edge * since_us / 2.0 + 5e-6)


def test_a_range_is_one_path_alone(tmp_path: Path, rig: type[Rig]) -> None:
    trace = tmp_path / "level.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 0.5), end(20_000)]))
    found = {}
    for path in ("4", "0.1", "AUTO"):
        out = tmp_path / f"{path}.wbs"
        one = rig(trace, "--output", out, "--exit-on-done", *TWO_PATHS, ports=False)
        one.send("SENS:CURR:RANG:AUTO ON" if path == "AUTO" else f"SENS:CURR:RANG {path}")
        one.send("INIT")
        assert one.process.wait() == 0
        batches, _ = decode(out.read_bytes())
        flags = {f & RailFlag.OVERLOAD_I for f in column(batches, "rail", "flags")}
        found[path] = (samples(out.read_bytes())[1][50:].mean(), flags)
    assert found["4"] == found["AUTO"]
    assert found["4"] == (pytest.approx(0.5, rel=1e-3), {0})
    assert found["0.1"] == (pytest.approx(0.1138, rel=5e-3), {RailFlag.OVERLOAD_I})


def test_a_current_beyond_the_scale_is_flagged(tmp_path: Path) -> None:
    trace = tmp_path / "inrush.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1.0), rail(5000, 3.3, 5.0), rail(5100, 3.3, 1.0), end(10_000)]))
    flags = column(decode(play(trace, tmp_path))[0], "rail", "flags")
    flagged = [bool(f & RailFlag.OVERLOAD_I) for f in flags]
    assert any(flagged)
    assert not all(flagged)
    assert not any(f & RailFlag.OVERLOAD_V for f in flags)
