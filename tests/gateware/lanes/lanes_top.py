"""The two models of lane_player.cpp: a receiver, instantiated twice, and the instrument. One clock of 250 MHz."""

from __future__ import annotations

from amaranth import Array, ClockDomain, DomainRenamer, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from wattbell_gateware.boards.direction import link_state
from wattbell_gateware.instrument import Instrument, Options
from wattbell_gateware.layouts import tlp_beat
from wattbell_gateware.link.events import LINK_EVENT
from wattbell_gateware.link.receiver import COUNTERS, Receiver
from wattbell_gateware.stream.linkside import LINK_SIDE, SEEN_AS
from wattbell_spec.wire import LINK_COUNTERS, LinkState

LANES, SYMBOLS, TICKS = 4, 4, 4
BEAT = tlp_beat(32 * LANES)
SIDE = data.StructLayout({"counters": data.StructLayout(dict.fromkeys(LINK_COUNTERS, 32)), "side": LINK_SIDE})


def clocked(clk: Signal) -> Module:
    """Return a module on `clk`, without reset. A reset would be an input to the next state of every register, see :func:`held`."""
    m = Module()
    m.domains.sync = domain = ClockDomain(reset_less=True, local=True)
    m.d.comb += domain.clk.eq(clk)
    return m


def held(m: Module, port: Signal) -> Signal:
    """Return the port, registered. (Verilator evaluates logic behind a plain input at both edges, behind a register only once.)"""
    register = Signal.like(port, name=f"held_{port.name}")
    m.d.sync += register.eq(port)
    return register


class ReceiverTop(wiring.Component):
    """A receiver of all speeds, x4. Inputs driven before an edge are seen in the cycle after it, except ``event_ready``.

    Ports
    -----
    raw, raw_valid : words of 40 bits of each wire at 2.5 and 5 GT/s.
    raw8, raw8_valid : words of 32 bits at 8 GT/s.
    now : tick of the cycle in which these inputs are seen.
    rate : 0, 1, 2 for 2.5, 5, 8 GT/s.
    tlp : :func:`tlp_beat`, with its ``tlp_last``, ``tlp_tick``, ``tlp_dws``.
    event : LINK_EVENT, and its members.
    side : SIDE.
    counters : see Receiver.
    """

    def __init__(self):
        super().__init__(
            {
                "clk": In(1),
                "raw": In(40 * LANES),
                "raw_valid": In(1),
                "raw8": In(32 * LANES),
                "raw8_valid": In(1),
                "rate": In(2),
                "now": In(64),
                "down": In(1),
                "tlp": Out(BEAT.size),
                "tlp_valid": Out(1),
                "tlp_last": Out(1),
                "tlp_dws": Out(3),
                "tlp_tick": Out(64),
                "event": Out(LINK_EVENT.size),
                "event_valid": Out(1),
                "event_ready": In(1),
                "event_tick": Out(64),
                "event_kind": Out(5),
                "event_argument": Out(32),
                "side": Out(SIDE.size),
                "counters": Out(COUNTERS.size),
            }
        )

    def elaborate(self, platform):
        m = clocked(self.clk)
        m.submodules.receiver = receiver = Receiver(LANES, SYMBOLS, ticks_per_clock=TICKS, blocks=True)
        beat, event, side = receiver.tlps.payload, receiver.events.payload, Signal(SIDE)
        rate = held(m, self.rate)
        m.d.comb += [
            receiver.raw.eq(data.View(receiver.raw.shape(), held(m, self.raw))),
            receiver.raw_valid.eq(held(m, self.raw_valid)),
            receiver.raw8.eq(data.View(receiver.raw8.shape(), held(m, self.raw8))),
            receiver.raw8_valid.eq(held(m, self.raw8_valid)),
            receiver.rate.eq(rate),
            receiver.now.eq(held(m, self.now)),
            receiver.down.eq(held(m, self.down)),
            receiver.events.ready.eq(self.event_ready),
            self.tlp.eq(beat),
            self.tlp_valid.eq(receiver.tlps.valid),
            self.tlp_last.eq(beat.last),
            self.tlp_dws.eq(beat.dws),
            self.tlp_tick.eq(beat.tick),
            self.event.eq(event),
            self.event_valid.eq(receiver.events.valid),
            self.event_tick.eq(event.tick),
            self.event_kind.eq(event.kind),
            self.event_argument.eq(event.argument),
            self.counters.eq(receiver.counters),
            *(side.counters[name].eq(receiver.counters[name]) for name in LINK_COUNTERS),
            side.side.state.eq(receiver.state),
            side.side.lanes.eq(receiver.lanes),
            side.side.rate.eq(rate + 1),
            side.side.pending.eq(receiver.pending),
            side.side.pending_tick.eq(receiver.pending_tick),
            self.side.eq(side),
        ]
        return m


class InstrumentTop(wiring.Component):
    """The instrument, 128 bits wide, for a tap of lanes, with ADCs that respond at once with a constant; CLKREQ# is asserted."""

    def __init__(self):
        ports = {
            f"{name}{key}": In(width)
            for name in ("down", "up")
            for key, width in (("", BEAT.size), ("_valid", 1), ("_event", LINK_EVENT.size), ("_event_valid", 1), ("_side", SIDE.size))
        }
        super().__init__(
            {
                "clk": In(1),
                **ports,
                "down_event_ready": Out(1),
                "up_event_ready": Out(1),
                "perst_n": In(1),
                "now": Out(64),
                "reg_addr": In(8),
                "reg_wdata": In(32),
                "reg_we": In(1),
                "out": Out(33),
                "out_valid": Out(1),
                "out_ready": In(1),
            }
        )

    def elaborate(self, platform):
        m = clocked(self.clk)
        instrument = DomainRenamer({"bus": "sync"})(Instrument(Options(width=32 * LANES, ticks_per_clock=TICKS, adc="word", lanes=True)))
        m.submodules.instrument = instrument
        states = []
        for name in ("down", "up"):
            port = {key: getattr(self, name + key) for key in ("", "_valid", "_event", "_event_valid", "_side", "_event_ready")}
            into, link = getattr(instrument, name).tlps, getattr(instrument, name).link
            side = data.View(SIDE, port["_side"])
            m.d.sync += link.count.eq(Array(side.counters[name] for name in LINK_COUNTERS)[link.counter])
            m.d.comb += [
                into.payload.eq(data.View(BEAT, port[""])),
                into.valid.eq(port["_valid"]),
                link.events.payload.eq(data.View(LINK_EVENT, port["_event"])),
                link.events.valid.eq(port["_event_valid"]),
                port["_event_ready"].eq(link.events.ready),
                link.side.eq(side.side),
            ]
            states.append(Signal(LinkState, name=f"{name}_state"))
            with m.Switch(side.side.state):
                for of, seen_as in SEEN_AS.items():
                    with m.Case(of):
                        m.d.sync += states[-1].eq(seen_as)
        m.d.sync += instrument.link_state.eq(link_state(m, *states))  # as on a board
        m.d.comb += [
            self.now.eq(instrument.now),
            instrument.perst_n.eq(held(m, self.perst_n)),
            instrument.reg_addr.eq(held(m, self.reg_addr)),
            instrument.reg_wdata.eq(held(m, self.reg_wdata)),
            instrument.reg_we.eq(held(m, self.reg_we)),
            instrument.out.ready.eq(held(m, self.out_ready)),
            self.out.eq(instrument.out.payload),
            self.out_valid.eq(instrument.out.valid),
            instrument.adc_v.eq(100_000),
            instrument.adc_i.eq(50_000),
        ]
        m.d.sync += instrument.adc_valid.eq(instrument.adc_start)
        return m
