"""The NVMe tracker under Verilator; the tests themselves are in the ``cocotb_*`` modules."""

from __future__ import annotations

import gc

import pytest
from wattbell_gateware.boards.ecp5.board import BOARD
from wattbell_gateware.nvme import NvmeTracker
from wattbell_gateware.nvme.store import FieldTable

from tests.gateware import harness

pytestmark = pytest.mark.xdist_group("tracker")  # one worker builds the model


@pytest.fixture(autouse=True, scope="module")
def garbled():
    """Inverts every undefined bit of a block RAM's output, so that any use of it shows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FieldTable, "garbles", True)
        yield


@pytest.fixture(scope="module")
def model(garbled):
    """Return the folder of the tracker's model, elaborated once for all tests."""
    return harness.build(NvmeTracker(128, 4), "tracker")


@pytest.mark.parametrize(
    ("module", "seed"),
    [
        ("cocotb_tracker", 1),
        ("cocotb_corners", 1),
        ("cocotb_pages", 1),
        ("cocotb_edges", 1),
        ("cocotb_clocks", 1),
        ("cocotb_hosts", 1),
        ("cocotb_lengths", 1),
        ("cocotb_bells", 1),
        ("cocotb_messages", 1),
        ("cocotb_descriptors", 1),
        ("cocotb_resets", 1),
    ],
)
def test_tracker(model, module, seed):
    env = {"WIDTH": "128", "TICKS": "4", "SEED": str(seed)}
    harness.run(model, name="tracker", test_module=module, here=__file__, env=env, seed=seed)


@pytest.mark.long
def test_tracker_of_the_ecp5():
    """Small except for the queues, with four times the cycles for the same traffic. The page map is the scarcest resource."""
    sizes = {name: getattr(BOARD.instrument, name) for name in ("slots", "beats", "beats_of_drive", "sizes", "tags")}
    env = {"WIDTH": "128", "TICKS": "1", "SEED": "2", "READ_TAGS": str(sizes["tags"])}
    dut = NvmeTracker(128, 1, small=True, **sizes)
    for testcase in ("lists_from_a_pool_of_512_bytes", "sectors_of_shared_pages"):
        harness.run(dut, name="tracker_ecp5", test_module="cocotb_pages", here=__file__, env=env, testcase=testcase, seed=2)


def test_parameters_are_checked(monkeypatch):
    monkeypatch.setattr(NvmeTracker, "_MustUse__silence", True)  # what was rejected cannot be elaborated
    for bad in ({"queues": 3}, {"slots": 2048}, {"width": 32}, {"width": 64}, {"ticks_per_clock": 0}):
        with pytest.raises(ValueError, match="must be"):
            NvmeTracker(**({"width": 128, "ticks_per_clock": 4} | bad))
    gc.collect()  # while they are still silenced
