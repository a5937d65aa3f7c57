"""Plays a :class:`traffic.Traffic` into a receiver under cocotb, and judges what comes out."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import traffic as tr
import transmitter as t
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

LANES, SYMBOLS = int(os.environ.get("TAP_LANES", "4")), int(os.environ.get("TAP_SYMBOLS", "4"))
TICKS = 2 * SYMBOLS
"""Of a clock."""
STATES = ("UNKNOWN", "DETECT", "POLLING", "CONFIG", "L0", "L0S", "L1", "RECOVERY")
KINDS = ("STATE", "LANES", "SPEED", "ACK", "NAK", "POWER", "FLOW_CONTROL_INIT", "DUPLICATE", "LOST", "RECOVERED", "NULLIFIED", "BAD_LCRC",
         "BAD_FRAME", "NO_ROOM", "FAULTS", "TLP")  # fmt: skip
COUNTERS = ("tlps", "dllps", "duplicates", "lost", "late", "nullified", "bad_lcrc", "bad_frames", "bad_dllps", "headless", "dropped",
            "lost_events", "bad_words")  # fmt: skip


@dataclass
class Heard:
    """What came out of the receiver; ticks from its first word on."""

    tlps: list[tuple[bytes, int]] = field(default_factory=list)
    events: list[tuple[int, str, int]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    gaps: int = 0
    """TLPs that say that some before them are missing."""

    def of(self, kind: str) -> list[tuple[int, int]]:
        return [(tick, argument) for tick, name, argument in self.events if name == kind]


@dataclass
class Wiring:
    """What is between the link and the receiver."""

    fast: bool = True
    skew: tuple[int, ...] = (0, 0, 0, 0)
    shift: tuple[int, ...] = (0, 0, 0, 0)
    invert: tuple[bool, ...] = (False, False, False, False)
    reverse: bool = False
    errors: float = 0.0
    cut: int = 0
    """Bits missing at the start: a tap that attaches later."""


class Tap:
    def __init__(self, dut):
        self.dut = dut
        self.clocks = 0

    async def start(self):
        dut = self.dut
        Clock(dut.clk, TICKS, unit="ns").start()
        for name in ("raw", "raw_valid", "now", "fast", "down", "polarity_set", "polarity", "lanes_set", "lanes_to"):
            getattr(dut, name).value = 0
        dut.events__ready.value = 1
        await self.reset()

    async def reset(self):
        dut = self.dut
        await FallingEdge(dut.clk)
        dut.rst.value = 1
        await FallingEdge(dut.clk)
        dut.rst.value = 0

    async def tell(self, *, polarity: int, reverse: bool) -> None:
        """What a host knows of a link that is up: all wires in use."""
        dut = self.dut
        dut.polarity.value, dut.polarity_set.value = polarity, 1
        dut.lanes_to.value = (1 << LANES) - 1 | reverse << 4 | (LANES.bit_length() - 1) << 6
        dut.lanes_set.value = 1
        await FallingEdge(dut.clk)
        dut.polarity_set.value = dut.lanes_set.value = 0

    async def play(self, traffic: tr.Traffic, wiring: Wiring, seed: int = 1) -> Heard:
        """Marks the copies of `traffic` that do not arrive whole, and returns what comes out."""
        r = random.Random(seed)
        lanes = traffic.lanes
        wires = traffic.link.bits(skew=wiring.skew, shift=wiring.shift, invert=wiring.invert)
        late = [10 * wiring.skew[n] + wiring.shift[n] for n in range(lanes)]
        if wiring.errors:
            wires, places = map(list, zip(*[t.damaged(w, wiring.errors, r) for w in wires]))
            straight = [bytearray(1 - b for b in w) if wiring.invert[n] else w for n, w in enumerate(wires)]
            tr.excuse(traffic, straight, places, late)
        words = [list(t.words(w[wiring.cut :], 10 * SYMBOLS)) for w in wires]
        self.first_bit = late[0] - wiring.cut
        unused = LANES - lanes
        period = 1 if wiring.fast else 2
        heard, bits, dut = Heard(), 10 * SYMBOLS, self.dut
        dut.fast.value = wiring.fast
        now = started = 1000 + self.clocks * TICKS
        current = b""
        n_words = max(map(len, words)) + 40
        for at in range(n_words * period):
            dut.now.value = now
            if at % period == 0:
                k = at // period
                each = [w[k] if k < len(w) else 0 for w in words] + [r.getrandbits(bits) for _ in range(unused)]
                if wiring.reverse:
                    each = each[::-1]
                dut.raw.value = sum(w << bits * n for n, w in enumerate(each))
            dut.raw_valid.value = at % period == 0
            await FallingEdge(dut.clk)
            now += TICKS
            self.clocks += 1
            if dut.tlps__valid.value:
                beat = int(dut.tlps__payload.value)
                current = self._beat(beat, current, heard, started)
            if dut.events__valid.value:
                event = int(dut.events__payload.value)
                heard.events.append(((event & ((1 << 64) - 1)) - started, KINDS[event >> 64 & 31], event >> 69))
        counters = int(dut.counters.value)
        heard.counters = {name: counters >> 32 * n & 0xFFFFFFFF for n, name in enumerate(COUNTERS)}
        return heard

    @staticmethod
    def _beat(beat: int, current: bytes, heard: Heard, started: int) -> bytes:
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
            heard.tlps.append((current, tick - started))
            return b""
        return current

    def tick_of(self, symbol_time: int, fast: bool) -> int:
        """Of a symbol on lane 0."""
        bit = self.first_bit + 10 * symbol_time
        word, place = divmod(bit, 10 * SYMBOLS)
        return word * TICKS * (1 if fast else 2) + place * (1 if fast else 2) // 5

    def judge(self, traffic: tr.Traffic, wiring: Wiring, heard: Heard, *, after: int = 0) -> None:
        """Every TLP that came whole (from symbol time `after` on) was delivered once, with its first whole copy's tick; nothing else."""
        of_tick = {self.tick_of(c.first, wiring.fast): c for c in traffic.copies}
        delivered = {}
        for raw, tick in heard.tlps:
            copy = of_tick.get(tick)
            assert copy is not None, f"a phantom at {tick}: {raw.hex()}"
            assert raw == copy.raw and not copy.damaged, (tick, copy)
            assert copy.serial not in delivered, f"twice: {copy}"
            delivered[copy.serial] = copy
        newest = -1
        for copy in traffic.copies:
            if copy.damaged or copy.excused or copy.first < after:
                continue
            assert copy.serial in delivered or newest - copy.serial >= 64, f"missing: {copy}"
            assert copy.serial not in delivered or delivered[copy.serial].first <= copy.first, copy
            newest = max(newest, copy.serial)
        counted = heard.counters
        assert len(heard.of("TLP")) == len(heard.tlps) and {tick for tick, _ in heard.of("TLP")} == {tick for _, tick in heard.tlps}
        assert heard.gaps == len(heard.of("LOST"))
        assert counted["tlps"] == len(heard.tlps)
        if delivered:
            # Those before the first one are known of only where the start was heard (InitFC1).
            missing = max(delivered) + 1 - min(delivered) - len(delivered)
            assert counted["lost"] - counted["late"] in (missing, missing + min(delivered)), (counted, missing)
        assert counted["dropped"] == counted["lost_events"] == 0


async def tap(dut) -> Tap:
    it = Tap(dut)
    await it.start()
    return it


__all__ = ["LANES", "STATES", "SYMBOLS", "Heard", "Tap", "Wiring", "tap"]
