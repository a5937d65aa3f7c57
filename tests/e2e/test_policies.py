"""`wattbell policies` against a direct simulation: the SSD model with the kernel's table, and the same idle times on its rail.

The model moves by APST in Rust, and the energy is a sum of the rail's samples. The replay knows only the figures of power-states.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from wattbell.capture import open_capture

from tests.e2e.virtual import MARKS, finished, wattbell

pytestmark = MARKS
IDLE_S = (0.05, 0.3, 1.0, 2.5, 3.0, 0.15, 0.09, 2.2, 0.6, 0.104, 0.02, 0.5)
"""Around the steps of Linux's table at 0.1 s and about 2.1 s; one ends while the drive enters PS3."""


def rail_energy_j(capture: Path) -> float:
    """Energy of the idle times and the commands that end them, from the rail's samples."""
    found = open_capture(capture)
    commands = found.commands.collect()
    start = np.maximum(commands["doorbell_tick"].to_numpy(), 0)
    cqe = commands["cqe_tick"].to_numpy()
    order = np.argsort(start)
    start, cqe = start[order], np.maximum.accumulate(cqe[order])
    rail = found.rail
    assert rail is not None
    power = rail.power(0, len(rail)).astype(float)
    middle = rail.tick_of(0) + rail.interval_ticks * (np.arange(len(rail)) + 0.5)
    total = 0.0
    for k in np.flatnonzero(start[1:] - cqe[:-1] > 1e-3 / (found.tick_ps * 1e-12)):
        inside = (middle >= cqe[k]) & (middle < cqe[k + 1])
        total += float(power[inside].sum()) * rail.interval_ticks * found.tick_ps * 1e-12
    return total


@pytest.mark.parametrize(
    "profile",
    ["wd-sn750", *(pytest.param(name, marks=pytest.mark.long) for name in ("intel-660p-1tb", "crucial-p1-1tb", "toshiba-rc100"))],
)
def test_replayed_idle_times_are_within_two_percent_of_a_simulation(tmp_path: Path, profile: str) -> None:
    plan = tmp_path / "plan.toml"
    head = 'condition = "test-data"\ndata_bytes = 67108864\n'
    plan.write_text(head + "".join(f'[[step]]\nname = "i{i}"\nidle_s = {t}\napst = true\naspm = "l1.2"\n' for i, t in enumerate(IDLE_S)))
    common = ("--virtual", profile, "--fidelity", "fast")
    finished(wattbell(tmp_path, "run", plan, *common, "--interval", "1e-5", "--out", tmp_path / "idle"))
    suite = ("run", "power-states", "--tests", "non-operational", "--scale", "0.4", "--no-store", "--no-page", "--out", tmp_path / "ps")
    finished(wattbell(tmp_path, *suite, *common))
    out, _ = finished(wattbell(tmp_path, "policies", tmp_path / "ps", tmp_path / "idle", "--json"))
    found = {one["name"]: one for one in json.loads(out)["policies"]}
    simulated = rail_energy_j(tmp_path / "idle")
    default = found["Linux, 100 ms"]["energy_j"]
    assert default["value"] == pytest.approx(simulated, rel=0.02)
    assert abs(default["value"] - simulated) <= default["u"]
    awake = found["Linux, 0 (APST off)"]["energy_j"]["value"]
    assert awake > 1.05 * simulated, "another table gives another energy, so the comparison can fail"
