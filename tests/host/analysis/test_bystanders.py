"""Traffic of the drive that belongs to no command."""

import struct

from wattbell.analysis.bystanders import Bystanders, bystanders

from tests.host.capture.streams import recorded
from tests.host.wire import encoder as e

WRAP = 1 << 32


def later(read_bytes: int, written_bytes: int, reads: int, writes: int, unmatched_reads: int) -> bytes:
    """Fields of a STATUS block behind its first 104 bytes."""
    return struct.pack("<QQIII", read_bytes, written_bytes, reads % WRAP, writes, unmatched_reads)


def test_growth_counts_from_the_first_status_to_the_last(tmp_path):
    """Counters run from power-on, and counters of 32 bits wrap."""
    first = e.status(0, 10, unmatched=5, later=later(1 << 40, 100, WRAP - 2, 1, 2))
    second = e.status(1, 1000, unmatched=6, later=later((1 << 40) + 4096, 100, WRAP - 1, 1, 3))
    last = e.status(2, 5000, unmatched=9, run=0, later=later((1 << 40) + 12288, 612, WRAP + 1, 5, 4))
    found = bystanders(recorded(tmp_path / "c", first, second, last))
    assert found == Bystanders(read_bytes=12288, written_bytes=512, reads=3, writes=4, unmatched=4, unmatched_reads=2)
    assert found.buffer_text() == "0.012 MB read in 3 TLPs, 0.001 MB written in 4 TLPs"
    assert found.unmatched_text() == "4 TLPs of the drive, 2 of them reads"


def test_older_gateware_tells_of_no_buffer_and_no_reads(tmp_path):
    found = bystanders(recorded(tmp_path / "c", e.status(0, 10), e.status(1, 1000, unmatched=7, run=0)))
    assert (found.buffer_text(), found.unmatched_text()) == ("", "7 TLPs of the drive")


def test_nothing_is_said_of_a_capture_without_such_traffic(tmp_path):
    found = bystanders(recorded(tmp_path / "c", e.status(0, 10, later=later(9, 9, 9, 9, 9)), e.status(1, 99, later=later(9, 9, 9, 9, 9))))
    assert (found.buffer_text(), found.unmatched_text()) == ("", "")
