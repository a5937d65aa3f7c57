"""Plays a :class:`traffic.Traffic` into a receiver under cocotb, and judges the output."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

from tests.gateware.phy import traffic as tr
from tests.gateware.phy import transmitter as t

LANES, SYMBOLS = int(os.environ.get("TAP_LANES", "4")), int(os.environ.get("TAP_SYMBOLS", "4"))
TICKS = int(os.environ.get("TAP_TICKS", "4"))
"""Ticks per cycle."""
BLOCKS = os.environ.get("TAP_BLOCKS", "1") == "1"
"""Whether it supports 8 GT/s too."""
BITS = (10 * SYMBOLS, 10 * SYMBOLS, 32)
"""Bits per word of a lane, at 2.5, 5, 8 GT/s."""
PERIOD = (4 * SYMBOLS // TICKS, 2 * SYMBOLS // TICKS, 1)
"""Cycles from word to word."""
SETTLE = 70
"""Cycles after a change of the rate in which no input is accepted, with margin."""
STATES = ("UNKNOWN", "DETECT", "POLLING", "CONFIG", "L0", "L0S", "L1", "RECOVERY")
KINDS = ("STATE", "LANES", "SPEED", "ACK", "NAK", "POWER", "FLOW_CONTROL_INIT", "DUPLICATE", "LOST", "RECOVERED", "NULLIFIED", "BAD_LCRC",
         "BAD_FRAME", "NO_ROOM", "FAULTS", "TLP", "BLOCK_FAULTS", "RATE", "LOCK")  # fmt: skip
COUNTERS = ("tlps", "dllps", "duplicates", "lost", "late", "nullified", "bad_lcrc", "bad_frames", "bad_dllps", "headless", "dropped",
            "lost_events", "bad_words", "unlocked", "bad_headers", "corrected_tokens", "lost_tokens", "corrected_registers",
            "damaged_skips", "bad_parity", "lanes_differ")  # fmt: skip


@dataclass
class Heard:
    """The receiver's output."""

    tlps: list[tuple[bytes, int]] = field(default_factory=list)
    events: list[tuple[int, str, int]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    gaps: int = 0
    """TLPs that report missing TLPs before them."""

    def of(self, kind: str) -> list[tuple[int, int]]:
        return [(tick, argument) for tick, name, argument in self.events if name == kind]


@dataclass
class Wiring:
    """The path between link and receiver."""

    skew: tuple[int, ...] = (0, 0, 0, 0)
    """Symbol times."""
    shift: tuple[int, ...] = (0, 0, 0, 0)
    """Bits."""
    invert: tuple[bool, ...] = (False, False, False, False)
    reverse: bool = False
    errors: float = 0.0
    cut: int = 0
    """Bits missing at the start: a tap that attaches later."""
    noise: int = 0
    """Words of noise before: a receiver at another rate than the link, or without a signal."""
    silent: bool = False
    """The unused wires have no signal; else noise."""


class Tap:
    def __init__(self, dut):
        self.dut = dut
        self.now = 1000
        self.heard = Heard()
        self._current = b""
        self.pendings: list[tuple[int, int | None]] | None = None
        """If not None: of each cycle ``now``, and ``pending_tick`` or None."""
        self.outs: list[int] = []
        """For each TLP, ``now`` when its last beat came."""
        self._noise = random.Random(1)

    async def start(self):
        dut = self.dut
        Clock(dut.clk, TICKS, unit="ns").start()
        for name in (
            "raw",
            "raw_valid",
            "now",
            "rate",
            "down",
            "polarity_set",
            "polarity",
            "lanes_set",
            "lanes_to",
            "other",
            *(("raw8", "raw8_valid") if BLOCKS else ()),
        ):
            getattr(dut, name).value = 0
        dut.events__ready.value = 1
        await self.reset()

    async def reset(self):
        dut = self.dut
        await FallingEdge(dut.clk)
        dut.rst.value, dut.rate.value = 1, 0
        await FallingEdge(dut.clk)
        dut.rst.value = 0
        self.heard, self._current = Heard(), b""

    async def tell(self, *, lanes: int = LANES, polarity: int = 0, reverse: bool = False) -> None:
        """Set the host's knowledge of a running link."""
        dut = self.dut
        active = (1 << lanes) - 1 << (LANES - lanes if reverse else 0)
        dut.polarity.value, dut.polarity_set.value = polarity, 1
        dut.lanes_to.value = active | reverse << 4 | (lanes.bit_length() - 1) << 6
        dut.lanes_set.value = 1
        await self.clock()
        dut.polarity_set.value = dut.lanes_set.value = 0

    async def rest(self, clocks: int) -> None:
        """Send no words."""
        self.dut.raw_valid.value = 0
        if BLOCKS:
            self.dut.raw8_valid.value = 0
        for _ in range(clocks):
            await self.clock()

    async def play(self, traffic: tr.Traffic, wiring: Wiring, seed: int = 1, *, end: int | None = None) -> Heard:
        """Play at the rate of `traffic`, after everything played before; fill in its copies, and return the output so far.

        `end`: greatest number of bits per lane.
        """
        r, dut, lanes = random.Random(seed), self.dut, traffic.lanes
        late = [(8 if traffic.rate == 2 else 10) * wiring.skew[n] + wiring.shift[n] for n in range(lanes)]
        if traffic.rate == 2:
            wires = traffic.link.bits(late=late, invert=wiring.invert)
        else:
            wires = traffic.link.bits(skew=wiring.skew, shift=wiring.shift, invert=wiring.invert)
        if wiring.errors:
            wires, places = map(list, zip(*[t.damaged(w, wiring.errors, r) for w in wires]))
            straight = [bytearray(1 - b for b in w) if wiring.invert[n] else w for n, w in enumerate(wires)]
            tr.excuse(traffic, straight, places, late)
        bits, period = BITS[traffic.rate], PERIOD[traffic.rate]
        words = [list(t.words(w[wiring.cut : end], bits)) for w in wires]
        raw, valid = (dut.raw8, dut.raw8_valid) if traffic.rate == 2 else (dut.raw, dut.raw_valid)
        if int(dut.rate.value) != traffic.rate:
            dut.rate.value = traffic.rate
            await self.rest(SETTLE)
        for at in range(wiring.noise * period):
            raw.value, valid.value = self._noise.getrandbits(bits * LANES), at % period == 0
            await self.clock()
        began = self.now
        self.tick_of = lambda place: _tick(late[0] - wiring.cut + traffic.bit(place), began, traffic.rate)
        self.began = began  # tick of the first bit
        for copy in traffic.copies:
            copy.tick = self.tick_of(copy.place)
        for at in range(max(map(len, words)) * period):
            if at % period == 0:
                k = at // period
                each = [w[k] if k < len(w) else 0 for w in words] + [
                    0 if wiring.silent else self._noise.getrandbits(bits) for _ in range(LANES - lanes)
                ]
                raw.value = sum(w << bits * n for n, w in enumerate(each[::-1] if wiring.reverse else each))
            valid.value = at % period == 0
            await self.clock()
        await self.rest(80)  # a board at 5 GT/s has a word in every cycle, and a TLP has a latency of some 50 cycles
        return self.finish()

    def finish(self) -> Heard:
        """Return the output so far, with the counters."""
        counters = int(self.dut.counters.value)
        self.heard.counters = {name: counters >> 32 * n & 0xFFFFFFFF for n, name in enumerate(COUNTERS)}
        return self.heard

    async def clock(self) -> None:
        dut, heard = self.dut, self.heard
        dut.now.value = self.now
        await FallingEdge(dut.clk)
        self.now += TICKS
        if self.pendings is not None:
            self.pendings.append((self.now, int(dut.pending_tick.value) if dut.pending.value else None))
        if dut.tlps__valid.value:
            self._current = self._beat(int(dut.tlps__payload.value), self._current, heard)
        if dut.events__valid.value:
            event = int(dut.events__payload.value)
            heard.events.append((event & ((1 << 64) - 1), KINDS[event >> 64 & 31], event >> 69))

    def _beat(self, beat: int, current: bytes, heard: Heard) -> bytes:
        width = max(64, 8 * LANES * SYMBOLS)
        count = (width // 32).bit_length()
        data, rest = beat & ((1 << width) - 1), beat >> width
        dws, rest = rest & ((1 << count) - 1), rest >> count
        first, last, error, tick, lost = rest & 1, rest >> 1 & 1, rest >> 2 & 1, rest >> 3 & ((1 << 64) - 1), rest >> 67
        assert not error and 1 <= dws <= width // 32 and (last or dws == width // 32)
        assert bool(first) == (current == b"")
        heard.gaps += first & lost
        current += data.to_bytes(width // 8, "little")[: 4 * dws]
        if last:
            heard.tlps.append((current, tick))
            self.outs.append(self.now)
            return b""
        return current

    def judge(self, *played: tr.Traffic, after: int = 0, missing: int = 0) -> None:
        """Check that every TLP that arrived intact (from tick `after` on) was delivered once, with its first intact copy's tick,
        and nothing else.

        At 8 GT/s up to `missing` TLPs may be missing: after a token with two bit errors, intact TLPs may come before framing
        recovers. A TLP with a bit error in its token may come, corrected.
        """
        heard = self.heard
        copies = [(copy, traffic.rate) for traffic in played for copy in traffic.copies]
        of_tick = {copy.tick: (copy, rate) for copy, rate in copies}
        delivered = {}
        for raw, tick in heard.tlps:
            copy, rate = of_tick.get(tick, (None, 0))
            assert copy is not None, f"a phantom at {tick}: {raw.hex()}"
            assert raw == copy.raw and (rate == 2 or not copy.damaged), (tick, copy)
            assert copy.serial not in delivered, f"twice: {copy}"
            delivered[copy.serial] = copy
        # Numbers before the first one that arrives are known to be missing only if the start was received (InitFC1).
        known_from = 0 if played[0].states[:1] == ["POLLING"] else min(delivered, default=0)
        newest = -1
        for copy, rate in copies:
            if copy.damaged or copy.excused or copy.tick < after or copy.serial < known_from:
                continue
            if copy.serial not in delivered and newest - copy.serial < 64:
                assert rate == 2 and missing > 0, f"missing: {copy}"
                missing -= 1
            assert copy.serial not in delivered or rate == 2 or delivered[copy.serial].tick <= copy.tick, copy
            newest = max(newest, copy.serial)
        counted = heard.counters
        assert len(heard.of("TLP")) == len(heard.tlps) and {tick for tick, _ in heard.of("TLP")} == {tick for _, tick in heard.tlps}
        assert heard.gaps == len(heard.of("LOST")) + len(heard.of("RECOVERED"))
        assert counted["tlps"] == len(heard.tlps)
        if delivered:
            gap = max(delivered) + 1 - min(delivered) - len(delivered)
            assert counted["lost"] - counted["late"] in (gap, gap + min(delivered)), (counted, gap)
        assert counted["dropped"] == counted["lost_events"] == 0


def _tick(bit: int, began: int, rate: int) -> int:
    """Return the tick of a bit of lane 0, with the first word at `began`, rounded down."""
    word, place = divmod(bit, BITS[rate])
    return began + word * TICKS * PERIOD[rate] + place * (2, 1, 1)[rate] // (5, 5, 8)[rate]


async def tap(dut) -> Tap:
    it = Tap(dut)
    await it.start()
    return it


__all__ = ["BLOCKS", "LANES", "STATES", "SYMBOLS", "TICKS", "Heard", "Tap", "Wiring", "tap"]
