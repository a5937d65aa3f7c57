"""Short form of ``tools/energy_alone.py``: energies of single events against the rail that the model emitted, through virtual rigs."""

from __future__ import annotations

from tools.energy_alone import WANTED, measure

WORKLOADS = (5, 8, 9, 11, 14)
"""Seeds, not drawn anew: rails of 1 MS/s down to 20 kS/s on five drives."""


def test_intervals_of_single_events_hold_the_truth() -> None:
    found = [one for seed in WORKLOADS for one in measure(seed)]
    judged = [one for one in found if one.covered is not None]
    kinds = {one.kind for one in judged}
    assert {"lone", "into a state", "out of a state", "break-even time, with the command", "owed after a burst"} <= kinds
    share = sum(bool(one.covered) for one in judged) / len(judged)
    wrong = [
        f"{one.seed} {one.kind} {one.name}: {one.value_j:.4g} +-{one.u_j:.2g}, truly {one.truth_j:.4g}" for one in judged if not one.covered
    ]
    assert len(judged) >= 100 and share >= WANTED, f"{100 * share:.1f} % of {len(judged)} intervals; outside: {wrong}"
    precise = [one for one in judged if one.kind == "lone" and one.interval_s < 2e-6]
    assert max(abs(one.value_j / one.truth_j - 1) for one in precise) < 0.01
