"""The reference model that merges the gain paths: its properties on paper and on the decks' own waveforms."""

import numpy as np
import pytest
from afe import design, parts, spice
from afe.merge import BAND, HOLD, LOW, RISE, WEIGHT, Merger, level_weight

UNIT = 500e-9
PARTS, _ = parts.load()


def static(current, gain=0.0, offset=0):
    """A settled merger at a level of the fine path, where the coarse one is off by a gain and an offset."""
    return Merger().step(round(current * (1 + gain)) + offset, current).value


def test_the_result_is_fine_below_coarse_above_and_between_in_the_band():
    assert Merger().step(LOW, LOW + 77).value == LOW + 77
    assert Merger().step(LOW + BAND, LOW + BAND + 77).value == LOW + BAND
    assert Merger().step(-LOW - BAND // 2, -LOW - BAND // 2 + 100).value == -LOW - BAND // 2 + 50
    assert [level_weight(x) for x in (0, LOW, -LOW, LOW + BAND // 2, LOW + BAND, -(1 << 23))] == [256, 256, 256, 128, 0, 0]


@pytest.mark.parametrize(("gain", "offset"), [(1e-3, 0), (-1e-3, 0), (0.0, 100), (0.0, -100), (1e-3, -100)])
def test_the_scale_has_no_step_and_keeps_its_order(gain, offset):
    # 100 units are 50 uA: ten times what autozero leaves between the paths
    levels = range(LOW - 2000, LOW + BAND + 2000, 7)
    values = [static(level, gain, offset) for level in levels]
    steps = np.diff(values)
    assert steps.min() >= 0
    assert steps.max() <= 7 + 2 + 7 * 0.02  # two roundings; the slope is off by the difference of the paths over the band
    assert max(abs(np.array(values) - np.array(levels))) <= abs(gain) * (LOW + BAND + 2000) + abs(offset) + 1


def test_hold_and_rise_after_an_overload():
    merger = Merger()
    assert merger.step(0, 0).coarse_used is False
    assert merger.step(0, 1000, fine_overload=True).value == 0
    assert [merger.step(0, 1000).value for _ in range(HOLD)] == [0] * HOLD
    rise = [merger.step(0, WEIGHT).value for _ in range(WEIGHT // RISE + 2)]
    assert rise == [min(RISE * n, WEIGHT) for n in range(1, WEIGHT // RISE + 3)]


def test_an_overload_of_the_fine_path_is_none_of_the_result():
    merger = Merger()
    assert not merger.step(1_000_000, 230_000, fine_overload=True).overload
    assert merger.step(8_000_000, 230_000, coarse_overload=True, fine_overload=True).overload


@pytest.mark.parametrize("period_s", [640e-9, 1e-6])
@pytest.mark.parametrize("low", [1e-3, 50e-3])
def test_nothing_is_seen_of_the_fine_path_coming_back_from_4_a(low, period_s):
    _, tables = spice.run("overload", design.parameters(PARTS) | {"low": low})
    table = tables["overload"]
    ends = design.design(PARTS)
    gains = (design.GAIN_COARSE, design.GAIN_FINE)
    time = np.arange(96e-6, 159e-6, period_s)
    merger, seen, worst_fine = Merger(), 0, 0.0
    for instant in time:
        volts = [float(np.interp(instant, table[:, 0], table[:, n])) for n in (1, 2)]
        # calibrated: by where each path ends
        ideal = [low * v / table[-1, n] for n, v in zip((1, 2), volts)]
        clipped = abs(volts[1]) >= PARTS["reference"].voltage
        fine = min(ideal[1], ends.full_scale_fine) if clipped else ideal[1]
        merged = merger.step(round(ideal[0] / UNIT), round(fine / UNIT), fine_overload=clipped)
        seen += not merged.coarse_used
        if instant > 100.1e-6:
            worst_fine = max(worst_fine, abs(fine - ideal[0]))
        # to the coarse path, which never saturates: 0.1 % of the fine path's full scale, for its tail is a little longer
        assert abs(merged.value * UNIT - ideal[0]) < 1.2e-3 * ends.full_scale_fine + UNIT
    assert worst_fine > 100e-3  # the test would notice an overload
    assert seen > 5  # and the fine path does come back
    assert gains[1] > gains[0]
