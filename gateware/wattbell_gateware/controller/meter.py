"""The meter: conversions of a gate and of all time summed as integers."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from wattbell_spec.controller_registers import BOARD, board_by_name

from ..rail.config import CONVERSION, FLAGS
from .trigger import SAMPLE

__all__ = ["WORDS", "PowerMeter"]

_POWER_SHIFT = 16
"""Shift of a conversion's power for its least and greatest value."""
_FIRST, _LATCHED, _LAST = (board_by_name(name).address for name in ("V_SUM_LO", "ENERGY_LO", "TOTAL_CLIPPED"))
WORDS = tuple(register.name for register in BOARD if _FIRST <= register.address <= _LAST)
"""Registers that :class:`PowerMeter` keeps in its memory, without a gap from the first to the last."""
_GATE, _TOTALS = _LATCHED - _FIRST, _LAST + 1 - _LATCHED
_BANKS = 3
_WORD = 32
_TERM = data.StructLayout({"operand": _WORD, "carries": 1, "compares": 1, "greatest": 1, "puts": 1})
"""Operation on a word: add the operand, with the previous word's carry; or keep the lesser or greater; or store the operand."""


class PowerMeter(wiring.Component):
    """Sums the conversions of a gate and of all time.

    A conversion is in the sums 32 clocks after ``converted``, and one clock later for every ``word`` read in between. Conversions come at
    least 40 clocks apart: ADC_PERIOD ends at 640 ns, and no clock is shorter than 16 ns. A gate takes conversions that began at its start
    or later. Its sums read 0 before the first conversion. While a conversion is being added, some sums have it and others have not.

    One adder takes the words of :data:`WORDS` one after the other, a clock each, in the memory behind the registers. Three banks hold the
    accumulators: one that LATCH shows, one that counts, one for the next conversion. LATCH and CLEAR only exchange
    banks, and so always take whole conversions.

    A restart of the core ends a gate without a result, and leaves the accumulators.

    Ports
    -----
    addr : of the bank.
    re : of the bank.
    word : one of :data:`WORDS`, in the clock of ``re``.
    now : ticks.
    data : register, see :class:`.bank.Bank`.
    meter_control : register, see :class:`.bank.Bank`.
    meter_count : register, see :class:`.bank.Bank`.
    meter_command_written : register, see :class:`.bank.Bank`.
    meter_state : register, see :class:`.bank.Bank`.
    abort : the core restarts.
    converted : see :class:`..rail.path.RailPath`.
    conversion : see :class:`..rail.path.RailPath`.
    start : starts a gate, as METER_COMMAND.START does.
    sampled : a conversion comes with its power, three clocks after ``converted``.
    sample : this conversion, until the next one.
    busy : a gate is under way.
    wanted : a conversion would be counted.
    summing : words of a conversion are still to be read; the last is in its sum a clock after this falls.
    """

    def __init__(self):
        super().__init__(
            {
                "addr": In(7),
                "re": In(1),
                "word": Out(_WORD),
                "now": In(64),
                "data": In(32),
                "abort": In(1),
                "converted": In(1),
                "conversion": In(CONVERSION),
                "meter_control": In(2),
                "meter_count": In(20),
                "meter_command_written": In(1),
                "meter_state": Out(6),
                "busy": Out(1),
                "wanted": Out(1),
                "summing": Out(1),
                "start": In(1),
                "sampled": Out(1),
                "sample": Out(SAMPLE),
            }
        )

    def elaborate(self, platform):
        m = Module()
        command = {b.name: self.meter_command_written & self.data[b.low] for b in board_by_name("METER_COMMAND").bits}
        start = command["START"] | self.start
        totals = self.meter_control[board_by_name("METER_CONTROL").bits[1].low]
        busy, left, since, flags, latched_none = Signal(), Signal(20), Signal(64), Signal(FLAGS.size), Signal(init=1)
        names = {b.name: b.low for b in board_by_name("METER_STATE").bits}
        state = dict(zip((name.upper() for name in FLAGS.members), flags, strict=True))
        m.d.comb += [self.busy.eq(busy), self.wanted.eq(busy | totals), self.meter_state[names["BUSY"]].eq(busy)]
        m.d.comb += [self.meter_state[names[name]].eq(flag) for name, flag in state.items()]

        c = Signal(CONVERSION)
        power = Signal(signed(48))
        got, multiplied = Signal(), Signal()
        m.d.sync += [got.eq(self.converted), multiplied.eq(got)]
        with m.If(self.converted):
            m.d.sync += c.eq(self.conversion)
        with m.If(got):
            m.d.sync += power.eq(c.v * c.i)
        values = {"v": c.v, "i": c.i, "p": power >> _POWER_SHIFT}
        m.d.comb += [self.sampled.eq(multiplied), self.sample.tick.eq(c.tick)]
        m.d.comb += [self.sample[name].eq(value) for name, value in values.items()]

        # What the conversion under way goes to: a gate, whose sums are new while `first`, and accumulators, new while `cleared`.
        counts, in_gate, in_totals, first, cleared = Signal(), Signal(), Signal(), Signal(), Signal(init=1)
        step = Signal(range(_GATE + _TOTALS))
        m.d.comb += counts.eq(busy & ~(c.tick - since)[63])
        read = Signal()
        m.d.comb += read.eq(self.re & (self.addr >= _FIRST & 0x7F) & (self.addr <= _LAST & 0x7F))
        goes, ends_gate, ends_totals = Signal(), Signal(), Signal()
        m.d.comb += [
            goes.eq(self.summing & ~read),
            ends_gate.eq(goes & (step == _GATE - 1)),
            ends_totals.eq(goes & in_totals & (step == _GATE + _TOTALS - 1)),
        ]
        with m.If(multiplied & (counts | totals)):
            m.d.sync += [self.summing.eq(1), in_gate.eq(counts), in_totals.eq(totals), step.eq(Mux(counts, 0, _GATE))]
        with m.If(goes):
            m.d.sync += step.eq(step + 1)
        with m.If((ends_gate & ~in_totals) | ends_totals | (self.summing & (step >= _GATE) & ~in_totals)):
            m.d.sync += self.summing.eq(0)
        with m.If(ends_gate & in_gate):
            m.d.sync += [first.eq(0), left.eq(left - 1), busy.eq(busy & (left != 1)), flags.eq(flags | Value.cast(c.flags))]
        shown = self._sums(m, step, read, goes, ends_totals, command, c, power, Mux(step < _GATE, first, cleared))
        with m.If(ends_totals):
            m.d.sync += cleared.eq(0)
        with m.If(command["LATCH"]):
            m.d.sync += latched_none.eq(cleared)
        with m.If(command["CLEAR"]):
            m.d.sync += [cleared.eq(1), in_totals.eq(0)]
        m.d.comb += self.word.eq(shown & ~Mux(self.addr < _LATCHED & 0x7F, first, latched_none).replicate(_WORD))

        with m.If(start):
            m.d.sync += [busy.eq(1), first.eq(1), left.eq(self.meter_count), since.eq(self.now), flags.eq(0), in_gate.eq(0)]
        with m.If(command["ABORT"] | self.abort):
            m.d.sync += busy.eq(0)
        return m

    def _sums(self, m: Module, step: Value, read: Value, goes: Value, done: Value, command: dict, c: Value, power: Value, new: Value):
        """Build memory and adder; return the word at `step`, or the word that is read."""
        m.submodules.memory = memory = Memory(shape=_WORD, depth=_GATE + _BANKS * _TOTALS, init=[])
        port, write = memory.read_port(domain="comb"), memory.write_port()
        latched, counting, free = Signal(range(_BANKS)), Signal(range(_BANKS)), Signal(range(_BANKS), init=1)
        banks = [Const(_TOTALS * bank, port.addr.shape()) for bank in range(_BANKS)]

        def place(word: Value, bank: Value) -> Value:
            """Return the address of a word, counted from the first; gate words have no banks."""
            base = Mux(bank == 2, banks[2], Mux(bank == 1, banks[1], banks[0]))
            return (word + Mux(word < _GATE, 0, base))[: len(port.addr)]

        asked = Signal(range(_GATE + _TOTALS))
        m.d.comb += [
            asked.eq(self.addr - (_FIRST & 0x7F)),
            port.addr.eq(Mux(read, place(asked, latched), place(step, counting))),
        ]
        with m.If(done):
            m.d.sync += counting.eq(free)
        with m.If(command["LATCH"]):
            m.d.sync += latched.eq(counting)
        # It is looked for while nothing is being summed: what counts and what is shown stay as they are, or become the same.
        with m.If(~self.summing):
            m.d.sync += free.eq(Mux((counting != 0) & (latched != 0), 0, Mux((counting != 1) & (latched != 1), 1, 2)))

        word = Signal(_TERM)
        clipped = c.flags.overload_i | c.flags.overload_v
        sources = {
            "V_SUM": c.v,
            "I_SUM": c.i,
            "P_SUM": power,
            "V_CODES": c.v_code,
            "I_CODES": c.i_code.as_signed(),
            "F_CODES": c.f_code.as_signed(),
            "ENERGY": power,
            "CHARGE": c.i,
            "TOTAL_COUNT": Const(1, 1),
            "GATE_CLIPPED": clipped,
            "TOTAL_CLIPPED": clipped,
            "GATE_TICKS": c.period,
            "V": c.v,
            "I": c.i,
            "P": power >> _POWER_SHIFT,
        }
        with m.Switch(step):
            for k, name in enumerate(WORDS):
                source, _, part = name.rpartition("_") if name.endswith(("_LO", "_HI", "_MIN", "_MAX")) else (name, "", "")
                value = Signal(signed(2 * _WORD), name=f"{name}_source")
                m.d.comb += value.eq(sources[source])
                with m.Case(k):
                    m.d.comb += [
                        word.operand.eq(value[_WORD:] if part == "HI" else value[:_WORD]),
                        word.carries.eq(part == "HI"),
                        word.compares.eq(part in ("MIN", "MAX")),
                        word.greatest.eq(part == "MAX"),
                        word.puts.eq(name == "GATE_TICKS"),
                    ]

        # The word that was read, and what is added to it, a clock later: memory and adder together take longer than a clock.
        adds, place_of, now, old, is_new = Signal(), Signal.like(port.addr), Signal(_TERM), Signal(_WORD), Signal()
        m.d.sync += adds.eq(goes)
        with m.If(goes):
            m.d.sync += [place_of.eq(place(step, free)), now.eq(word), old.eq(port.data & ~new.replicate(_WORD)), is_new.eq(new)]

        # Compares by subtracting; one word more gives the carry, or the sign.
        carry, term, total, takes = Signal(), Signal(_WORD), Signal(_WORD + 1), Signal()
        m.d.comb += [
            term.eq(now.operand ^ now.compares.replicate(_WORD)),
            total.eq(Cat(old, now.compares & old[-1]) + Cat(term, now.compares & term[-1]) + (now.compares | (now.carries & carry))),
            takes.eq(now.puts | is_new | (total[-1] == now.greatest)),
            write.en.eq(adds),
            write.addr.eq(place_of),
            write.data.eq(Mux(now.compares | now.puts, Mux(takes, now.operand, old), total[:_WORD])),
        ]
        with m.If(adds):
            m.d.sync += carry.eq(total[-1])
        return port.data
