"""Short form of ``make energy`` for power states: labels, probabilities and boundaries against the model's truth, with every sight."""

from __future__ import annotations

import numpy as np

from studies.state_coverage import SIGHTS, measure, reliability

WORKLOADS = (1008, 1016, 1021)
"""Fixed seeds: a 980 PRO, an SN550, and a drive drawn around a P1."""


def test_states_are_found_and_their_probabilities_hold() -> None:
    found = [one for seed in WORKLOADS for one in measure(seed, (4e-6, 50e-6))]
    for sight in SIGHTS:
        mine = [one for one in found if one.sight == sight]
        total = sum(one.all_s for one in mine)
        right, unknown = sum(one.right_s for one in mine) / total, sum(one.unknown_s for one in mine) / total
        n, good = reliability(mine)
        if sight == "rail alone":
            assert right > 0.55 and 1 - right - unknown < 0.12, sight
            assert good >= 0.8 * n, f"{good} of {n}"
        else:
            assert right > 0.97 and unknown < 0.02, sight
            assert n > 30 and good >= 0.97 * n, f"{sight}: {good} of {n}"
    edges = np.array([edge for one in found for edge in one.boundaries])
    assert np.mean(edges[:, 0] <= edges[:, 1]) > 0.93
    assert np.median(edges[:, 0]) < 50e-6
