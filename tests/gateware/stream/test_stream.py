"""The block stream, part by part. tests/gateware/blockparser.py reads the blocks back, and zlib checks their CRCs."""

import pytest
from wattbell_gateware.stream.events import LossReporter, SidebandWatcher
from wattbell_spec.wire import LossSource

from tests.gateware import harness
from tests.gateware.stream import stream_tops


def test_writer():
    harness.run(stream_tops.WriterTop(), name="block_writer", test_module="cocotb_writer", here=__file__)


def test_relative_records():
    harness.run(
        stream_tops.RecordsTop(11, 64, relative=True),
        name="command_blocks",
        test_module="cocotb_records",
        here=__file__,
        env={"WORDS": "11"},
    )


def test_records_word_by_word():
    harness.run(
        stream_tops.RecordsTop(11, 64, relative=True, by_word=True),
        name="command_blocks_by_word",
        test_module="cocotb_records",
        here=__file__,
        env={"WORDS": "11", "BY_WORD": "1"},
    )


def test_absolute_records():
    harness.run(
        stream_tops.RecordsTop(4, 16, relative=False), name="event_blocks", test_module="cocotb_records", here=__file__, env={"WORDS": "4"}
    )


@pytest.mark.parametrize("slow", [False, True])
def test_raw_tlps(slow):
    name = "raw_blocks_slow" if slow else "raw_blocks"
    harness.run(stream_tops.RawTop(slow=slow), name=name, test_module="cocotb_raw", here=__file__)


def test_sidebands():
    harness.run(SidebandWatcher(), name="sidebands", test_module="cocotb_sidebands", here=__file__)


def test_losses():
    harness.run(
        LossReporter((LossSource.RECORDS, LossSource.EVENTS, LossSource.RAIL)), name="losses", test_module="cocotb_losses", here=__file__
    )
