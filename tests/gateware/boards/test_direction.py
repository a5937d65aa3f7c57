"""A direction of each board as a whole, on clocks of their own: from the deserialisers' words to TLPs with ticks of the instrument."""

import os
import sys

import direction_tops
import harness
import pytest


@pytest.mark.parametrize(("board", "top"), [("ecp5", direction_tops.Ecp5Top), ("kintex7", direction_tops.Kintex7Top)])
def test_direction(board, top):
    path = os.pathsep.join(folder for folder in sys.path if folder)
    harness.run(top(), name=f"direction_{board}", test_module="cocotb_direction", here=__file__, env={"BOARD": board, "PYTHONPATH": path})
