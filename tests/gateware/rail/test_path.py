"""The rail path end to end, with both front ends and both clocks."""

import pytest

from tests.gateware import harness
from tests.gateware.rail.rail_tops import RailTop

TESTS = ["full_blocks_at_ratio_1", "decimation_flush_and_change_of_settings", "flush_after_10_ms", "a_full_buffer_counts_samples"]


@pytest.mark.parametrize(("ticks", "testcase"), [*((4, t) for t in TESTS), (8, TESTS[0]), (8, TESTS[1])])
def test_path(ticks, testcase):
    harness.run(
        RailTop("word", ticks),
        name=f"rail_word_{ticks}",
        test_module="cocotb_path",
        here=__file__,
        testcase=testcase,
        env={"ADC": "word", "TPC": str(ticks)},
    )


def test_path_with_serial_adcs():
    harness.run(
        RailTop("serial", 8),
        name="rail_serial_8",
        test_module="cocotb_path",
        here=__file__,
        testcase=TESTS[0],
        env={"ADC": "serial", "TPC": "8"},
    )


@pytest.mark.long
@pytest.mark.parametrize("ticks", [4, 8])
def test_both_fronts_give_the_same_bytes(ticks, tmp_path):
    out = []
    for adc in ("word", "serial"):
        path = tmp_path / f"{adc}.json"
        harness.run(
            RailTop(adc, ticks),
            name=f"rail_{adc}_{ticks}",
            test_module="cocotb_path",
            here=__file__,
            testcase="leaves_its_bytes",
            env={"ADC": adc, "TPC": str(ticks), "BYTES": str(path)},
        )
        out.append(path.read_text())
    assert out[0] == out[1] and len(out[0]) > 2000


def test_path_with_a_fine_current_path():
    harness.run(RailTop("word", 4, fine=True), name="rail_fine", test_module="cocotb_fine", here=__file__, env={"TPC": "4"})
