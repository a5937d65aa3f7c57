"""A hundred random alignments of a Joulescope-like recording with fio's JSON: `make alignments` (minutes)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tests.e2e.virtual import finished, wattbell
from tests.host.importer import alignments


def test_energies_are_within_their_stated_uncertainty_in_95_of_100_alignments(tmp_path: Path) -> None:
    count = int(os.environ.get("WATTBELL_ALIGNMENTS", "100"))
    original = tmp_path / "capture"
    finished(wattbell(tmp_path, "run", alignments.PLAN, "--virtual", "intel-660p-1tb", "--fidelity", "fast", "--out", original, "--json"))
    found = [alignments.outcome(tmp_path, original, seed, 2_000_000 if seed % 10 == 0 else 1_000_000) for seed in range(count)]
    off = np.array([one.off for one in found])
    within = sum(one.within for one in found)
    print(
        f"\n{within} of {count} alignments have every phase's energy within its stated uncertainty; largest error "
        f"{np.abs(off).max():.2f} u, u {min(map(min, (o.relative for o in found))):.1%} to {max(max(o.relative) for o in found):.1%} of "
        f"the energy; begin of the work off by {max(abs(o.begin_off_s) for o in found) * 1e3:.2f} ms at most, bounds "
        f"{min(o.bound_s for o in found) * 1e3:.2f} to {max(o.bound_s for o in found) * 1e3:.2f} ms"
    )
    assert within >= 0.95 * count
    assert all(abs(one.begin_off_s) <= one.bound_s for one in found)
