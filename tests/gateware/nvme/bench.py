"""Plays TLPs into the tracker's pins, skipping time when the tracker allows it, and collects its output."""

from __future__ import annotations

import gc
from collections import deque
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from wattbell_gateware.layouts import COMMAND, EVENT, tlp_beat
from wattbell_gateware.nvme.layouts import CONFIG, COUNTERS, RAW

from tests.gateware.nvme.link import DOWN, UP, Sent
from tests.gateware.packing import pack, unpack


@dataclass
class Pin:
    """A change of a sideband, or a late-attach word, at a tick."""

    tick: int
    signal: str
    value: int


@dataclass
class Bench:
    dut: object
    width: int
    ticks_per_clock: int
    skip: bool = True
    now: int = 0
    clocks: int = 0
    records: list[dict[str, int]] = field(default_factory=list)
    events: list[dict[str, int]] = field(default_factory=list)
    raw: list[dict[str, int]] = field(default_factory=list)
    done: list[tuple[dict[str, int], int]] = field(default_factory=list)
    """Events of the bus, each with the tick of its cause."""

    async def start(self) -> None:
        dut = self.dut
        Clock(dut.clk, 4, unit="ns").start()
        for name in ("down__tlps__valid", "up__tlps__valid", "down__tlps__payload", "up__tlps__payload", "cfg__valid"):
            getattr(dut, name).value = 0
        dut.perst_n.value, dut.unlinked.value = 1, 0
        dut.run.value = 1
        dut.kept.value = 1
        dut.snapshot.value = 0
        for out in ("commands", "events", "loss_events", "raw"):
            getattr(dut, f"{out}__ready").value = 1
        dut.now.value = 0
        dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(dut.clk)
        dut.rst.value = 0

    def beats(self, sent: Sent) -> list[int]:
        """Payloads of the beats of a TLP."""
        lanes, layout = self.width // 32, tlp_beat(self.width)
        words = [int.from_bytes(sent.raw[i : i + 4], "little") for i in range(0, len(sent.raw), 4)]
        out = []
        for i in range(0, len(words), lanes):
            part = words[i : i + lanes]
            last = i + lanes >= len(words)
            out.append(
                pack(
                    layout,
                    data=sum(w << 32 * n for n, w in enumerate(part)),
                    dws=len(part),
                    first=i == 0,
                    last=last,
                    error=sent.error and last,
                    tick=sent.tick,
                    lost=sent.lost and i == 0,
                )
            )
        return out

    async def play(self, sent: list[Sent], pins: list[Pin] = (), settle: int = 1 << 25) -> None:
        """Runs until everything is sent and nothing has come out for `settle` ticks."""
        dut = self.dut
        todo = [deque(), deque()]
        for s in sorted(sent, key=lambda s: s.tick):
            todo[s.direction].append(s)
        pins = deque(sorted(pins, key=lambda p: p.tick))
        current: list[deque] = [deque(), deque()]
        ports = ((dut.down__tlps__valid, dut.down__tlps__payload), (dut.up__tlps__valid, dut.up__tlps__payload))
        valid_now = [0, 0]
        outs = (
            (dut.commands__valid, dut.commands__payload, COMMAND, self.records),
            (dut.events__valid, dut.events__payload, EVENT, self.events),
            (dut.loss_events__valid, dut.loss_events__payload, EVENT, self.events),
            (dut.raw__valid, dut.raw__payload, RAW, self.raw),
        )
        end = None
        tpc = self.ticks_per_clock
        # looked up once, and not in each clock
        events_valid, events_done, cfg_ready, busy = dut.events__valid, dut.events_done, dut.cfg__ready, dut.busy
        deadline_port, now_port, edge, read_only = dut.deadline, dut.now, RisingEdge(dut.clk), ReadOnly()
        configuring = False
        gc.collect()
        gc.freeze()  # the traffic and its model are alive to the end: the collector would walk them all the time
        while True:
            # --- inputs of this cycle
            while pins and pins[0].tick <= self.now:
                pin = pins.popleft()
                getattr(dut, pin.signal).value = pin.value
                if pin.signal == "cfg__payload":
                    dut.cfg__valid.value = 1
                    configuring = True
                    break
            active = False
            for d in (DOWN, UP):
                if not current[d] and todo[d] and todo[d][0].tick <= self.now:
                    current[d].extend(self.beats(todo[d].popleft()))
                if current[d]:
                    active = True
                    ports[d][1].value = current[d].popleft()
                    if not valid_now[d]:
                        ports[d][0].value = 1
                        valid_now[d] = 1
                elif valid_now[d]:
                    ports[d][0].value = 0
                    valid_now[d] = 0
            now_port.value = self.now
            await read_only
            # --- outputs of this cycle
            got = False
            for valid, payload, layout, into in outs:
                if int(valid.value):
                    into.append(unpack(layout, int(payload.value)))
                    got = True
                    if valid is events_valid:
                        self.done.append((into[-1], int(events_done.value)))
            taken = configuring and int(cfg_ready.value)
            # --- how far time may go
            step = tpc
            idle = not (active or got or current[0] or current[1] or taken or int(busy.value))
            if idle:
                waiting = [q[0].tick for q in (todo[0], todo[1], pins) if q]
                deadline = int(deadline_port.value)
                if not waiting and end is None:
                    end = self.now + settle
                if not waiting and self.now >= end:
                    break
                if self.skip:
                    target = min([*waiting, deadline, end if end is not None else deadline])
                    step = max(tpc, -(-(target - self.now) // tpc) * tpc)
            self.now += step
            self.clocks += 1
            await edge
            if taken:
                dut.cfg__valid.value = 0
                configuring = False
        gc.unfreeze()

    async def counters(self) -> dict[str, int]:
        """All counters; those of a direction have its name at their end, as on the wire."""
        await Timer(1, unit="step")
        found = unpack(COUNTERS, int(self.dut.counters.value))
        for side in ("down", "up"):
            found |= {f"{name}_{side}": value for name, value in unpack(COUNTERS[side].shape, found.pop(side)).items()}
        return found

    @staticmethod
    def config(tick: int, **members) -> Pin:
        return Pin(tick, "cfg__payload", pack(CONFIG, **members))


def test(**options):
    return cocotb.test(**options)
