"""Load patterns and phases on the SSD model's rail, shown to meters with wrong and drifting clocks.

This is the short form of studies/clock_bench.py, which makes the table in docs/clocks.md (Measured bounds).
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from wattbell.capture import open_capture

from studies.clock_bench import WAYS, Recording, cases, write_plan


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("pattern")
    words = [
        sys.executable,
        "-m",
        "wattbell",
        "run",
        write_plan(folder),
        "--virtual",
        "intel-660p-1tb",
        "--fidelity",
        "fast",
        "--interval",
        "1e-4",
        "--out",
        folder / "capture",
    ]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Recording.of(open_capture(folder / "capture"))


@pytest.mark.parametrize("way", WAYS)
def test_the_true_clock_is_within_the_bound(recording: Recording, way: str) -> None:
    find, settle_s = WAYS[way]
    assert [len(pattern) for pattern in recording.patterns] == [8, 8]
    for case, rng in cases(recording, 4, seed=11):
        found = find(recording, case, rng, settle_s)
        assert case.off_s(found) <= found.bound_s, (case.rate, case.drift, case.offset_ns)
        assert found.bound_s < settle_s / 2 + 4e-3
