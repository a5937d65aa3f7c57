"""Calibration on channels with a known truth."""

import math
import random

import pytest
from wattbell.rig.calibration import CalibrationError, CalibrationPoint, ChannelRegisters, autozero, fit, registers, residual

CURRENT_UNIT = 500e-9


class Channel:
    """A converter with a gain, an offset and noise; a mean of n conversions."""

    def __init__(self, seed, gain=1.0, offset=0.0, noise=9.3, lsb=31.25e-6):
        self.rng, self.scale, self.offset, self.noise = random.Random(seed), lsb / gain, offset, noise

    def point(self, applied, n=10_000, true=None):
        sigma = self.noise / math.sqrt(n)
        code = (applied if true is None else true) / self.scale + self.offset + self.rng.gauss(0, sigma)
        return CalibrationPoint(applied, code, sigma)


def test_two_points_undo_gain_and_offset():
    channel = Channel(1, gain=1.004, offset=-55.0)
    line = fit([channel.point(0.1), channel.point(3.5)])
    assert line.scale == pytest.approx(channel.scale, rel=5 * line.scale_sigma)
    assert line.offset == pytest.approx(channel.offset, abs=5 * line.offset_sigma)
    assert line.value(line.code(2.0)) == pytest.approx(2.0)


def test_stated_standard_deviations_are_those_that_occur():
    lines = [
        fit([channel.point(0.1), channel.point(1.0), channel.point(3.5)])
        for channel in (Channel(seed, gain=0.997, offset=12.0) for seed in range(600))
    ]
    truth = Channel(0, gain=0.997, offset=12.0)
    checks = [
        ("offset", [line.offset - 12 for line in lines], lines[0].offset_sigma),
        ("scale", [line.scale / truth.scale - 1 for line in lines], lines[0].scale_sigma),
    ]
    for value in (0.0, 0.5, 4.0):
        errors = [line.value(value / truth.scale + 12) - value for line in lines]
        checks.append((f"value at {value}", errors, lines[0].noise_sigma(value)))
    for name, errors, stated in checks:
        rms = math.sqrt(sum(x * x for x in errors) / len(errors))
        assert rms == pytest.approx(stated, rel=0.15), name  # 600 draws: 3 % of standard error


def test_autozero_replaces_the_offset_alone():
    channel = Channel(5, offset=10.0)
    line = fit([channel.point(0.1), channel.point(3.5)])
    channel.offset = 14.5  # has drifted
    zero = channel.point(0.0)
    moved = autozero(line, zero.code, zero.code_sigma)
    assert moved.scale == line.scale
    assert moved.offset == pytest.approx(14.5, abs=0.5)
    assert moved.noise_sigma(0.0) == pytest.approx(zero.code_sigma * line.scale)
    assert moved.noise_sigma(3.0) > moved.noise_sigma(0.0)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([CalibrationPoint(1.0, 5.0, 0.1)], "two different"),
        ([CalibrationPoint(1.0, 5.0, 0.1), CalibrationPoint(1.0, 6.0, 0.1)], "two different"),
        ([CalibrationPoint(0.0, 5.0, 0.1), CalibrationPoint(4.2, 131071.0, 0.1, clipped=True)], "end of its scale"),
        ([CalibrationPoint(0.0, 5.0, 0.0), CalibrationPoint(1.0, 6.0, 0.1)], "noise of the mean"),
        ([CalibrationPoint(0.0, 5.0, math.nan), CalibrationPoint(1.0, 6.0, 0.1)], "noise of the mean"),
        ([CalibrationPoint(0.0, 5.0, 0.1), CalibrationPoint(1.0, -6.0, 0.1)], "do not rise"),
        ([CalibrationPoint(0.0, 0.0, 0.1), CalibrationPoint(1.0, 1000.0, 0.1), CalibrationPoint(2.0, 2010.0, 0.1)], "off the fitted line"),
    ],
)
def test_points_that_make_no_calibration(points, message):
    with pytest.raises(CalibrationError, match=message):
        fit(points)


def test_registers_give_back_the_value_to_half_a_unit():
    rng = random.Random(2)
    for lsb in (31.25e-6, 0.868e-6):
        channel = Channel(3, gain=1.003, offset=-321.7, lsb=lsb)
        line = fit([channel.point(0.02, n=10**8), channel.point(0.1, n=10**8)])
        held = registers(line, CURRENT_UNIT)
        for _ in range(200):
            code = rng.randint(-131072, 131071)
            assert held.value(code) * CURRENT_UNIT == pytest.approx(line.value(code), abs=0.51 * CURRENT_UNIT + lsb / 512)


def test_registers_compute_what_the_gateware_does():
    # docstring of wattbell_gateware.rail.correct.Corrector
    held = ChannelRegisters(offset=-1234, gain=1_050_000_000)
    for code in (-131072, -1, 0, 1, 77, 131071):
        assert held.value(code) == math.floor((code * 256 + 1234) * 1_050_000_000 / 2**32 + 0.5)


def test_what_registers_cannot_hold_is_refused():
    line = fit([CalibrationPoint(0.0, 600_000.0, 0.1), CalibrationPoint(1.0, 632_000.0, 0.1)])
    with pytest.raises(CalibrationError, match="offset"):
        registers(line, CURRENT_UNIT)
    line = fit([CalibrationPoint(0.0, 0.0, 0.1), CalibrationPoint(1.0, 100.0, 0.1)])
    with pytest.raises(CalibrationError, match="scale"):
        registers(line, CURRENT_UNIT)


def test_the_residual_covers_19_of_20_boards():
    inside, boards = 0, 400
    rng = random.Random(9)
    for seed in range(boards):
        source_gain, source_offset = rng.gauss(0, 33e-6), rng.gauss(0, 0.3e-6)
        channel = Channel(seed, gain=1 + rng.gauss(0, 2e-3), offset=rng.gauss(0, 20))
        points = [channel.point(x, n=100_000, true=x * (1 + source_gain) + source_offset) for x in (0.1, 3.5)]
        line = fit(points)
        left = residual(line, 33e-6, 0.3e-6, CURRENT_UNIT)
        true = 1.0
        code = true / channel.scale + channel.offset
        inside += abs(line.value(code) - true) <= left.at(true)
    assert 0.92 * boards <= inside <= 0.99 * boards
