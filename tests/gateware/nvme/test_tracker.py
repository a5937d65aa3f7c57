"""The NVMe tracker under Verilator; the tests themselves are in ``cocotb_tracker``."""

from __future__ import annotations

import harness
import pytest

from wattbell_gateware.nvme import NvmeTracker

BUILDS = {64: 8, 128: 4}
"""Width of the TLP stream in bits -> ticks a clock."""


@pytest.mark.parametrize("width", BUILDS)
def test_tracker(width):
    harness.run(
        NvmeTracker(width, BUILDS[width]),
        name=f"tracker_{width}",
        test_module="cocotb_tracker",
        here=__file__,
        env={"WIDTH": str(width), "TICKS": str(BUILDS[width])},
        seed=width,
    )
