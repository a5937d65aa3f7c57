"""A results store and a suite's run after power cuts and on a full disk, in the short form; `make soak` tries more instants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.e2e.virtual import built
from tests.faults import faultpower, faultstore

needs_disks = pytest.mark.skipif(not faultpower.possible(), reason="needs root and loop devices: run in the bare root of CI, or as root")


@pytest.mark.needs("mkfs.btrfs")
@needs_disks
@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
def test_what_was_called_stored_is_stored_after_a_power_cut(kind: str, tmp_path: Path) -> None:
    verdict = faultstore.store_power_cut(kind, np.random.default_rng(44), tmp_path, runs=4, cuts=5)
    assert verdict.silent == []


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_refused_or_says_the_same(seed: int, tmp_path: Path) -> None:
    verdict = faultstore.store_damaged(np.random.default_rng(seed), tmp_path)
    assert verdict.silent == [] and verdict.lost > 5


@needs_disks
def test_a_full_disk_is_told_and_takes_nothing(tmp_path: Path) -> None:
    verdict = faultstore.store_full(np.random.default_rng(1), tmp_path)
    assert verdict.silent == [] and verdict.lost > 0


@pytest.mark.needs("mkfs.btrfs")
@needs_disks
@pytest.mark.needs_built(built, "make sim rtl")
@pytest.mark.xdist_group("virtual-rig")
def test_a_suite_resumes_after_a_power_cut(tmp_path: Path) -> None:
    verdict = faultstore.suite_power_cut("ext4", np.random.default_rng(44), tmp_path, cuts=2)
    assert verdict.silent == []
