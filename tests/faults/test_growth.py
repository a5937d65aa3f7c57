"""Repeated reading leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from wattbell.capture import open_capture

from tests.faults.faultstream import make
from tests.faults.faulttrial import record


def test_a_capture_that_is_read_leaves_no_file_open(tmp_path: Path) -> None:
    record([make(np.random.default_rng(1))], tmp_path / "capture")

    def descriptors() -> int:
        rail = open_capture(tmp_path / "capture").rail
        assert rail is not None
        assert np.isfinite(rail.read().power).all()
        del rail
        return len(os.listdir("/proc/self/fd"))

    assert len({descriptors() for _ in range(20)}) == 1
