"""The receiver of docs/phy.md over many TLPs, for every word width: none duplicated, invented or missing.

``WATTBELL_TAP_TLPS`` TLPs a receiver (skipped without; a million takes some hours), from the independent transmitter, with bit
errors of 1e-4, replays, nullified TLPs, retraining, L0s, skew, reversal and swapped wires. The TLPs sent, damaged, delivered and counted
are left in build/tap/.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from wattbell_gateware.link.receiver import Receiver

from tests.gateware import harness
from tests.gateware.phy import phy_tops

ROOT = Path(__file__).resolve().parents[2]
SIZES = [(4, 4, True), (4, 4, False), (2, 4, False), (2, 2, False)]
"""Wires, symbols per word, whether with 8 GT/s."""
TLPS = os.environ.get("WATTBELL_TAP_TLPS")
pytestmark = [pytest.mark.timeout(0), pytest.mark.skipif(TLPS is None, reason="set WATTBELL_TAP_TLPS to a number of TLPs")]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}{'x8' if size[2] else ''}")
@pytest.mark.parametrize("module", ["cocotb_receiver", "cocotb_long"])
def test_receiver(size, module):
    lanes, symbols, blocks = size
    ticks = 4 if blocks else 2 * symbols
    if blocks:
        top = phy_tops.ReceiverTop(lanes, ticks_per_clock=ticks)
    else:
        top = phy_tops.Wrapped(Receiver(lanes, symbols, ticks_per_clock=ticks))
    result = ROOT / "build/tap" / f"{lanes}x{symbols}{'x8' if blocks else ''}.json"
    result.parent.mkdir(parents=True, exist_ok=True)
    env = {
        "TAP_LANES": str(lanes),
        "TAP_SYMBOLS": str(symbols),
        "TAP_TICKS": str(ticks),
        "TAP_BLOCKS": str(int(blocks)),
        "TAP_RESULT": str(result),
    }
    if module == "cocotb_long":
        env["TAP_TLPS"] = TLPS
    harness.run(top, name="receiver", test_module=module, here=phy_tops.__file__, env=env)
