"""Short form of ``studies/energy_alone.py``: energies of single events against the rail that the model emitted, through virtual rigs."""

from __future__ import annotations

from studies.energy_alone import SPREAD, WANTED, judge, measure

WORKLOADS = (5, 8, 9, 11, 14)
"""Fixed seeds: rails of 1.3 to 47 us a sample on five drives."""


def test_intervals_of_single_events_hold_the_truth() -> None:
    """The intervals hold as often as stated, and are no wider than needed.

    With this few intervals, errors in units of the half-width show too wide intervals sooner than the share that holds.
    """
    found = [one for seed in WORKLOADS for one in measure(seed)]
    judged = [one for one in found if one.covered is not None]
    kinds = {one.kind for one in judged}
    assert {"lone", "into a state", "out of a state", "break-even time, with the command", "owed after a burst"} <= kinds
    n, share, spread = judge(found)
    wrong = [
        f"{one.seed} {one.kind} {one.name}: {one.value_j:.4g} +-{one.u_j:.2g}, truly {one.truth_j:.4g}" for one in judged if not one.covered
    ]
    about = f"{100 * share:.1f} % of {n} intervals, error / half-width {spread:.2f}; outside: {wrong}"
    assert n >= 100 and WANTED[0] <= share <= WANTED[1] and SPREAD[0] <= spread <= SPREAD[1], about
    precise = [one for one in judged if one.kind == "lone" and one.interval_s < 2e-6]
    assert max(abs(one.value_j / one.truth_j - 1) for one in precise) < 0.01
