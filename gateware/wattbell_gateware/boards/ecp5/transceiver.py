"""Transceivers of the ECP5 tap: two DCUs, one a direction, with two lanes each."""

from __future__ import annotations

from amaranth import DomainRenamer, Module
from wattbell_spec.boards import ECP5

from ..direction import Direction
from .clocks import CORE_HZ
from .dcu import DualReceiver
from .lanes import GEARED, LATE_TICKS, LanePair

__all__ = ["DcuTransceiver"]

_KEPT = 4096
"""Bytes of TLPs that wait for their LCRC; at least the longest TLP. Drives have a Max_Payload_Size of 128 to 512 bytes."""


class DcuTransceiver:
    """Implements :class:`..transceiver.Transceiver` with DCUs."""

    lanes = ECP5.lanes
    rates = tuple(range(len(ECP5.rates_gt_s)))
    domain, clock_hz = "sync", CORE_HZ

    @classmethod
    def direction(cls) -> Direction:
        """Return the direction behind a :class:`.lanes.LanePair`."""
        return Direction(cls.lanes, GEARED, ticks_per_clock=ECP5.ticks_per_clock // 2, late_ticks=LATE_TICKS, half=True, bytes_kept=_KEPT)

    def receive(self, m: Module, platform, clocks, n: int, rate):
        """Add DCU `n`, its pair of lanes and its direction."""
        lanes = [platform.request("lane", self.lanes * n + lane, dir="-") for lane in range(self.lanes)]
        reference = platform.request("dcu_reference", n, dir="-")
        m.submodules[f"dcu{n}"] = dcu = DualReceiver(n, lanes, reference, clock_hz=self.clock_hz)
        own = DomainRenamer({"words": f"words{n}", "other": f"other{n}", "link": f"link{n}"})
        m.submodules[f"lanes{n}"] = pair = own(LanePair())
        m.submodules[f"direction{n}"] = direction = own(self.direction())
        m.d.comb += [
            dcu.slow.eq(rate == 0),
            *(clocks.words[n][lane].eq(dcu.clk[lane]) for lane in range(self.lanes)),
            pair.word.eq(dcu.word),
            pair.up.eq(dcu.up),
            clocks.halves[n].eq(pair.half),
            direction.raw.eq(pair.raw),
            direction.raw_valid.eq(pair.raw_valid),
        ]
        return direction, dcu.up
