"""Traffic of the drive that belongs to no command: in the host memory buffer, and unmatched."""

from __future__ import annotations

from dataclasses import dataclass

from wattbell.text import count

from ..capture.reader import Capture
from .link import grown


@dataclass(frozen=True)
class Bystanders:
    """Growth of the rig's counters from the first STATUS of a capture to the last.

    read_bytes, written_bytes: of the host memory buffer, as the drive asked for and wrote
    reads, writes: TLPs of these
    unmatched: TLPs that match no queue, no command and no host memory buffer
    unmatched_reads: of these at least so many are reads; gateware before 2026-11-28 does not tell
    """

    read_bytes: int
    written_bytes: int
    reads: int
    writes: int
    unmatched: int
    unmatched_reads: int

    def buffer_text(self) -> str:
        """Return the use of the host memory buffer in words; empty without any."""
        if not self.reads and not self.writes:
            return ""
        read, written = (f"{amount / 1e6:.3f} MB" for amount in (self.read_bytes, self.written_bytes))
        return f"{read} read in {count(self.reads)} TLPs, {written} written in {count(self.writes)} TLPs"

    def unmatched_text(self) -> str:
        """Return the unmatched TLPs in words; empty without any."""
        reads = f", {count(self.unmatched_reads)} of them reads" if self.unmatched_reads else ""
        return f"{count(self.unmatched)} TLPs of the drive{reads}" if self.unmatched else ""


def bystanders(capture: Capture) -> Bystanders:
    """Count the traffic of the drive that belongs to no command."""
    rows = capture.status.sort("tick").collect()
    return Bystanders(
        read_bytes=grown(rows["hmb_read_bytes"], 64),
        written_bytes=grown(rows["hmb_written_bytes"], 64),
        reads=grown(rows["hmb_reads"], 32),
        writes=grown(rows["hmb_writes"], 32),
        unmatched=grown(rows["unmatched"], 32),
        unmatched_reads=grown(rows["unmatched_reads"], 32),
    )
