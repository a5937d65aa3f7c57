"""The self-test's edges match the decks, and so does its result."""

import tomllib

import numpy as np
import pytest
from afe import design, model, parts, selftest, spice
from wattbell.rig.calibration import edge_delay

PARTS, _ = parts.load()
TABLES = tomllib.loads(model.MODEL.read_text())


def test_the_closed_form_is_the_decks_step():
    _, tables = spice.run("overload", design.parameters(PARTS) | {"low": 1e-3})
    time, coarse, _ = tables["overload"].T
    entry = TABLES["coarse"]
    # the deck's edge is a ramp of 100 ns: as late as a step at its middle
    expected = coarse[0] + (coarse[-1] - coarse[0]) * selftest.answer(time - 100.05e-6, entry["poles_s"], entry["zero_s"])
    assert np.abs(coarse - expected).max() < 0.003 * coarse[0]


def test_answer_begins_at_0_ends_at_1_and_is_late_by_the_sum():
    entry = TABLES["fine"]
    time = np.linspace(-1e-6, 60e-6, 200_001)
    wave = selftest.answer(time, entry["poles_s"], entry["zero_s"])
    assert wave[0] == 0 and abs(wave[np.searchsorted(time, 0.0) + 1]) < 0.01 and wave[-1] == pytest.approx(1)
    missing = np.trapezoid(np.where(time >= 0, 1 - wave, 0.0), time)
    assert missing == pytest.approx(entry["delay_s"], abs=1e-9)


@pytest.mark.parametrize(("path", "bound"), [("coarse", 1e-9), ("fine", 12e-9)])
def test_what_the_self_test_finds(path, bound):
    entry = TABLES[path]
    found = edge_delay(selftest.simulated_edges(entry, selftest.STEP_A[path], 500, seed=8), selftest.SETTLE_S)
    # bound: four standard deviations, which are known to a quarter from ten groups
    assert abs(found.delay_s - entry["delay_s"]) < bound
    assert bound / 12 < found.sigma_s < bound / 3
