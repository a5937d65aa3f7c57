"""One direction of each board as a whole, on its own clocks: from the deserialisers' words to TLPs with the instrument's ticks."""

import pytest

from tests.gateware import harness
from tests.gateware.boards import direction_tops


@pytest.mark.long
@pytest.mark.parametrize(("board", "top"), [("ecp5", direction_tops.Ecp5Top), ("kintex7", direction_tops.Kintex7Top)])
def test_direction(board, top):
    harness.run(top(), name=f"direction_{board}", test_module="cocotb_direction", here=__file__, env={"BOARD": board})
