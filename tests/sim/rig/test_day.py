"""Ten new traces every day: fast fidelity gives the RTL's stream, byte for byte.

A trace is a host of tests/gateware/nvme or a modelled drive's traffic, with drawn disturbances of its TLPs and a drawn sampling of
the rail. A failure shows a number; ``WATTBELL_DAY`` set to it repeats that day's traces. If the fast instrument itself reports that
the two may differ (an overload), or the changed TLPs are no valid trace, another trace is drawn.
"""

from __future__ import annotations

import datetime
import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.sim.rig.rig_process import find
from tests.sim.rig.rig_trace import Record, encode, records, squeeze
from tests.sim.rig.test_fidelity import disturbed
from tests.sim.rig.test_hosts import program, with_gaps, with_late_doorbells

DAY = int(os.environ.get("WATTBELL_DAY", datetime.date.today().toordinal()))
TRIES = 4
TRACES = 10
CAVEAT, DAMAGED = "outside the claim of equality", "bus trace damaged"


def drawn(rng: random.Random, drive: Path, folder: Path) -> list[Record]:
    """Return somebody's traffic after its disturbances on the way."""
    if rng.random() < 0.4:
        rows = list(squeeze(records(drive), rng.uniform(5, 60)))
    else:
        program(
            folder / "host.wbt",
            folder / "none.json",
            rng.randrange(1 << 16),
            rng.choice((1, 2, 4)),
            *rng.choice(((), ("--polled",), ("--misled",))),
        )
        rows = list(records(folder / "host.wbt"))
    for change in rng.sample((disturbed, with_gaps, with_late_doorbells), rng.randrange(3)):
        rows = change(rows, rng.randrange(1 << 32))
    return rows


@pytest.mark.parametrize("number", range(TRACES))
def test_a_trace_of_today_is_equal(drive_trace: Path, tmp_path: Path, number: int) -> None:
    rng, trace = random.Random(TRACES * DAY + number), tmp_path / "today.wbt"
    for _ in range(TRIES):
        trace.write_bytes(encode(drawn(rng, drive_trace, tmp_path)))
        options = ("--interval", rng.choice(("1e-4", "1e-5")), "--decimation", str(rng.choice((1, 3, 10))))
        done = subprocess.run([find("wattbell-rig"), "compare", trace, *options], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        assert CAVEAT in done.stderr or DAMAGED in done.stderr, f"WATTBELL_DAY={DAY}, trace {number}: {done.stderr}"
    pytest.fail(f"WATTBELL_DAY={DAY}: none of {TRIES} draws of trace {number} could be compared: {done.stderr}")
