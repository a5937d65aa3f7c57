"""Runs a design that has the instrument's time ports, with or without skipping idle cycles, and collects its stream."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from cocotb.triggers import Timer


class SerialAdc:
    """SAR converters in three-wire mode, with the timing described in rail/front.py; drives SDO from CNV and SCK.

    ``words``: the codes of the conversion at a tick: voltage, current and, if present, the fine current path.
    """

    def __init__(self, dut, words: Callable[[int], tuple[int, ...]], ticks_per_clock: int):
        self.dut, self.words, self.tpc = dut, words, ticks_per_clock
        self.cnv = self.sck = 0
        self.bits: list[list[int]] = []
        self.ready_at = None
        self.ticks: list[int] = []

    def clock(self, now: int) -> None:
        """Look at the pins in the cycle with tick `now`, and set SDO for that cycle."""
        cnv, sck = int(self.dut.adc_cnv.value), int(self.dut.adc_sck.value)
        if cnv and not self.cnv:
            self.ticks.append(now)
            self.bits = [[word >> k & 1 for word in self.words(now)] for k in reversed(range(18))]
            self.ready_at = now + 320
        if self.cnv and not cnv:
            assert now >= self.ready_at, "read before the conversion was done"
        if self.sck and not sck and not cnv and self.bits:
            self.bits.pop(0)
        levels = (self.bits[0] if self.bits else (0, 0, 0)) if not cnv else (1, 0, 1)  # high impedance reads as anything
        for name, level in zip("vif", levels):
            if hasattr(self.dut, f"adc_sdo_{name}"):
                getattr(self.dut, f"adc_sdo_{name}").value = level
        self.cnv, self.sck = cnv, sck


class WordAdc:
    """Converters of the word front end; delivers their words some cycles late."""

    def __init__(self, dut, words: Callable[[int], tuple[int, ...]], ticks_per_clock: int, seed: int | None = None):
        self.dut, self.words, self.tpc = dut, words, ticks_per_clock
        self.rng = random.Random(seed) if seed is not None else None
        self.waiting: tuple[int, ...] | None = None
        self.ticks: list[int] = []

    def clock(self, now: int) -> bool:
        """Act like SerialAdc.clock; return whether an input was set."""
        if self.dut.adc_start.value:
            self.ticks.append(now)
            delay = self.rng.randrange(600 // self.tpc) * self.tpc if self.rng else 0
            self.waiting = (now + delay, *self.words(now))
        if self.waiting and now >= self.waiting[0]:
            for name, word in zip("vif", self.waiting[1:]):
                getattr(self.dut, f"adc_{name}").value = word
            self.dut.adc_valid.value = 1
            self.waiting = None
            return True
        self.dut.adc_valid.value = 0
        return False

    @property
    def due(self) -> int | None:
        """Return the tick at which words will be delivered, if any."""
        return self.waiting[0] if self.waiting else None


async def play(
    dut,
    adc,
    inputs: list[tuple[int, dict[str, int]]],
    until: int,
    *,
    ticks_per_clock: int,
    skip: bool = False,
    ready: Callable[[int], bool] = lambda now: True,
    stop: Callable[[], bool] = lambda: False,
) -> bytes:
    """Clock `dut` until tick `until`, setting inputs at (the first cycle at or after) their ticks; return the stream.

    With `skip`, cycles in which the design is quiet are left out by means of `step`, as a simulator does.
    """
    pending: Iterator[tuple[int, dict[str, int]]] = iter(sorted(inputs, key=lambda entry: entry[0]))
    following = next(pending, None)
    words = bytearray()
    dut.clk.value = 0
    await Timer(1, "ns")
    while (now := int(dut.now.value)) < until and not stop():
        changed = isinstance(adc, SerialAdc)
        quiet = bool(dut.quiet.value)
        if adc.clock(now):
            changed = True
        while following is not None and following[0] <= now:
            for name, value in following[1].items():
                getattr(dut, name).value = value
            changed = True
            following = next(pending, None)
        clocks = 1
        if skip and quiet and not changed:
            goal = min(until, int(dut.deadline.value), following[0] if following else until, getattr(adc, "due", None) or until)
            clocks = min(max((goal - now) // ticks_per_clock, 1), 65536)
            assert int(dut.deadline.value) > now, "quiet although a timer fires now"
        dut.step.value = clocks - 1
        is_ready = ready(now)
        dut.out__ready.value = is_ready
        await Timer(2, "ns")
        if is_ready and dut.out__valid.value:
            words += (int(dut.out__payload.value) & 0xFFFFFFFF).to_bytes(4, "little")
        dut.clk.value = 1
        await Timer(2, "ns")
        dut.clk.value = 0
    return bytes(words)
