"""The NVMe tracker under Verilator; the tests themselves are in the ``cocotb_*`` modules."""

from __future__ import annotations

import gc

import harness
import pytest
from wattbell_gateware.nvme import NvmeTracker

TICKS = {64: 8, 128: 4}
"""Width of the TLP stream in bits -> ticks a clock."""


@pytest.mark.parametrize(
    ("width", "module", "seed"),
    [
        (128, "cocotb_tracker", 1),
        (128, "cocotb_tracker", 3),
        (128, "cocotb_corners", 1),
        (128, "cocotb_pages", 1),
        (128, "cocotb_edges", 1),
        (128, "cocotb_clocks", 1),
        (64, "cocotb_tracker", 2),
    ],
)
def test_tracker(width, module, seed):
    harness.run(
        NvmeTracker(width, TICKS[width]),
        name=f"tracker_{width}",
        test_module=module,
        here=__file__,
        env={"WIDTH": str(width), "TICKS": str(TICKS[width]), "SEED": str(seed)},
        seed=seed,
    )


def test_parameters_are_checked(monkeypatch):
    monkeypatch.setattr(NvmeTracker, "_MustUse__silence", True)  # what was refused cannot be elaborated
    for bad in ({"queues": 3}, {"slots": 2048}, {"width": 32}, {"ticks_per_clock": 0}):
        with pytest.raises(ValueError, match="must be"):
            NvmeTracker(**({"width": 128, "ticks_per_clock": 4} | bad))
    gc.collect()  # while they are still silenced
