"""Frame delimiting at 2.5 and 5 GT/s: finds the quads of frames in the words of a link."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..pcs.deskew import link_word
from ..pcs.symbols import K

__all__ = ["LATENCY", "FrameDelimiter", "FrameEnd", "quads_of", "quads_per_clock"]

LATENCY = 4
"""Clocks from a word to the quads that end in this word."""


class FrameEnd(enum.Enum, shape=2):
    """End of a frame in the last symbol of a quad."""

    NONE = 0
    END = 1
    EDB = 2


class _In(enum.Enum, shape=2):
    NOTHING = 0
    TLP = 1
    DLLP = 2
    RUINS = 3  # rest of a frame that was given up; ignored up to its end


_OPEN = data.StructLayout({"tlp": 1, "dllp": 1, "ruins": 1})
"""Open frame before a symbol time, one bit for each kind of :class:`_In`, which saves a level of logic a symbol time. All bits 0:
no frame.
"""
_FRAME = data.StructLayout({"ok": 1, "ends": 1, "then": _In})
_STEP = data.StructLayout(
    {
        "state": _OPEN,
        "begins": 1,
        "begun": _In,
        "head": 1,
        "sdp": 1,
        "edb": 1,
        "first": 1,
        "quad_ends": 1,
        "tlp": _FRAME,
        "dllp": _FRAME,
        "cleared": 1,
        "headless": 1,
        "stray": 1,
    }
)
"""Meaning of a symbol time.

- ``state``: the frame open before this symbol time.
- ``begins``: a frame begins here; ``begun`` is then open.
- ``tlp``, ``dllp``: effect on an open TLP or DLLP. ``ok``: the symbols may be in the frame. ``ends``: the symbols end the frame.
  ``then``: the state afterwards.
- ``cleared``: the rest of a given-up frame ends here.
- ``headless``, ``stray``: an end, or data, without an open frame.
"""

QUAD = data.StructLayout({"abort": 1, "valid": 1, "first": 1, "dllp": 1, "end": FrameEnd, "data": 32})
_BEGIN = data.StructLayout({"early": 1, "at": 2})
"""Place of the first symbol of a first quad.

- ``early`` = 0: symbol time ``at`` of this word.
- ``early`` = 1: symbol time ``at`` of the last earlier word in which a frame begins.
"""


def quads_per_clock(lanes: int, symbols: int) -> int:
    """Return the number of quads that can end in a word: 1, 2 or 4."""
    return max(1, lanes * symbols // 4)


def quads_of(lanes: int, symbols: int) -> data.StructLayout:
    """Layout of the frame content that one word brings, in the order of the link.

    Frames of a link of up to four lanes are a multiple of four symbols long; a quad is four symbols of a frame. Fields of each quad
    in ``quads``:

    - ``abort``: the open frame was given up before this quad. May be set without ``valid``.
    - ``valid``: the quad is present.
    - ``first``: the quad begins with STP or SDP.
    - ``dllp``: the quad belongs to a DLLP.
    - ``end``: the last symbol is END or EDB.
    - ``data``: the four symbols; for K symbols only the value.

    A quad without ``first`` belongs to the frame of the quad before. No quad lies outside a frame.

    ``ticks`` has one entry for each two quads: the tick of the first symbol of the frame that begins in these quads. A frame has at
    least two quads. If both quads are first, the second has cut the first frame short, and the tick belongs to the second.
    """
    quads = quads_per_clock(lanes, symbols)
    return data.StructLayout({"quads": data.ArrayLayout(QUAD, quads), "ticks": data.ArrayLayout(64, (quads + 1) // 2)})


class FrameDelimiter(wiring.Component):
    """Finds STP, SDP, END and EDB (PCIe Base 2.1, 4.2.2.3); takes a word a clock, latency 4 clocks.

    STP and SDP stand on lane 0. END and EDB stand on the last lane in use, a multiple of four symbols later. A start symbol always
    begins a frame, so an intact frame is found after any damage. These faults make the delimiter give up a frame and skip its rest:

    - another control symbol inside the frame,
    - an invalid code,
    - an end in the wrong place,
    - a DLLP of other than eight symbols.

    Symbols of the other running disparity are accepted; the CRCs decide.

    Ports
    -----
    word : descrambled symbols of all lanes, lane 0 first.
    tick : tick of the first symbol of ``word``.
    width : log2 of the lanes in use (0, 1, 2). A change inside a frame damages that frame.
    enable : the lanes are aligned. If low, no frame begins, and an open frame is given up.
    fast : high: 5 GT/s, a symbol time is 2 ticks. Low: 2.5 GT/s, 4 ticks.
    out : :func:`quads_of`; valid only if the word brings a quad or an abort.
    broken : number of frames given up in the word of this ``out``.
    headless : number of ends without a frame in that word.
    stray : data other than idle outside frames in that word. The rest of a given-up frame does not count.
    """

    def __init__(self, lanes: int, symbols: int):
        self._lanes, self._symbols = lanes, symbols
        super().__init__(
            {
                "word": In(stream.Signature(link_word(lanes, symbols), always_ready=True)),
                "tick": In(64),
                "width": In(2),
                "enable": In(1),
                "fast": In(1),
                "out": Out(stream.Signature(quads_of(lanes, symbols), always_ready=True)),
                "broken": Out(range(symbols + 1)),
                "headless": Out(range(symbols + 1)),
                "stray": Out(1),
            }
        )

    def _widths(self):
        return [(n, 1 << n) for n in range(3) if 1 << n <= self._lanes]

    def elaborate(self, platform):
        m = Module()
        times = range(self._symbols)

        # 1: classify each symbol time
        tick, valid, enable, width = Signal(64), Signal(), Signal(), Signal(2)
        names = ("start", "sdp", "com", "end", "edb", "head", "tail", "body", "idle")
        flags = [{name: Signal(name=f"{name}{t}") for name in names} for t in times]
        values = [Signal(8 * self._lanes, name=f"values{t}") for t in times]
        m.d.sync += valid.eq(self.word.valid)
        with m.If(self.word.valid):
            m.d.sync += [tick.eq(self.tick), enable.eq(self.enable), width.eq(self.width)]
            for t in times:
                self._classify(m, [self.word.payload[n][t] for n in range(self._lanes)], flags[t], values[t])

        # 2: place of each symbol time in its frame, if there is a frame, and the effect on the frame
        kinds = self._places(m, flags, width, enable, valid)
        valid2, width2, tick2, values2 = self._later(m, 2, valid, width, tick, values)

        # 3: decide which symbol times are in a frame
        state = Signal(_OPEN)
        at_state = state
        steps = []
        for t in times:
            step = Signal(_STEP, name=f"step{t}")
            m.d.sync += [step.eq(kinds[t]), step.state.eq(at_state)]
            steps.append(step)
            n_state, kind = Signal(_OPEN, name=f"state{t}"), kinds[t]
            m.d.comb += [
                n_state.tlp.eq(Mux(kind.begins, kind.begun == _In.TLP, at_state.tlp & (kind.tlp.then == _In.TLP))),
                n_state.dllp.eq(Mux(kind.begins, kind.begun == _In.DLLP, at_state.dllp & (kind.dllp.then == _In.DLLP))),
                n_state.ruins.eq(
                    Mux(
                        kind.begins,
                        kind.begun == _In.RUINS,
                        (at_state.ruins & ~kind.cleared)
                        | (at_state.tlp & (kind.tlp.then == _In.RUINS))
                        | (at_state.dllp & (kind.dllp.then == _In.RUINS)),
                    )
                ),
            ]
            at_state = n_state
        with m.If(valid2):
            m.d.sync += state.eq(at_state)
        valid3, width3, tick3, values3 = self._later(m, 3, valid2, width2, tick2, values2)

        # 4: outputs
        valid, width, tick, values = valid3, width3, tick3, values3
        begun = Signal(64)
        found = [self._found(m, t, step, width) for t, step in enumerate(steps)]
        begin_at = [step.begins for step in steps]

        # Values of this word after those of lanes 0 and 1 of the word before
        kept = Signal(3 * 16)
        past = [*(Cat(kept.word_select(n, 16)) for n in range(3)), *values]
        deferred = Signal()
        slots, begins, deferred_now = self._slots(m, width, found, past, deferred)
        word_tick, word_begun = Signal(64), Signal(64)
        m.d.sync += self.out.valid.eq(valid & Cat(Cat(q.valid, q.abort) for q in slots).any())
        m.d.sync += [
            self.broken.eq(Mux(valid, sum(s["broken"] for s in found), 0)),
            self.headless.eq(Mux(valid, sum(s["headless"] for s in found), 0)),
            self.stray.eq(valid & Cat(s["stray"] for s in found).any()),
        ]
        with m.If(valid):
            m.d.sync += deferred.eq(deferred_now)
            m.d.sync += [word_begun.eq(begun), word_tick.eq(tick)]
            with m.If(Cat(begin_at).any()):
                m.d.sync += begun.eq(tick)
            m.d.sync += kept.eq(
                Cat(Cat(value[:16] for value in past[-3:])) if self._lanes > 1 else Cat(Cat(value[:8], Const(0, 8)) for value in past[-3:])
            )
            for n, slot in enumerate(slots):
                m.d.sync += self.out.payload.quads[n].eq(slot)
        # Two quads share one sum. The sum has no register of its own: its operands are registers of the same clock as the quads.
        for n, out in enumerate(self.out.payload.ticks):
            begin = Signal(_BEGIN, name=f"begin_of_two{n}")
            with m.If(valid):
                m.d.sync += begin.eq(begins[2 * n])
                for second in range(2 * n + 1, min(2 * n + 2, len(slots))):
                    with m.If(slots[second].valid & slots[second].first):
                        m.d.sync += begin.eq(begins[second])
            m.d.comb += out.eq(Mux(begin.early, word_begun, word_tick) + Mux(self.fast, begin.at << 1, begin.at << 2))
        return m

    def _later(self, m: Module, stage: int, valid, width, tick, values):
        """Return the same values one clock later."""
        registers = []
        for name, value in (("valid", valid), ("width", width), ("tick", tick)):
            register = Signal.like(value, name=f"{name}_{stage}")
            m.d.sync += register.eq(value)
            registers.append(register)
        later = [Signal.like(value, name=f"values_{stage}_{t}") for t, value in enumerate(values)]
        m.d.sync += [register.eq(value) for register, value in zip(later, values, strict=True)]
        return *registers, later

    def _places(self, m: Module, flags: list, width, enable, valid) -> list:
        """Return registers with the meaning of each symbol time: all fields of :data:`_STEP` but ``state``.

        The place in a frame depends on where the frame began and on no later symbol, so each symbol time finds its place alone.
        Each place carries its own "last of its quad" bit. Deriving this bit after the place is chosen would lengthen the critical
        path.
        """
        sub, first, second = Signal(2), Signal(), Signal()  # place in the quad; it is the frame's first one; of a DLLP the second
        step = Signal(3)
        whole = width == 2  # a quad as wide as the link begins and ends in one symbol time
        m.d.comb += step.eq(Const(1, 3) << width)

        def on(sub, first, second, count):
            """Return the place `count` symbol times further."""
            total = Signal(5)
            m.d.comb += total.eq(sub + (Const(count, 3) << width))
            passed = total[2:]
            return total[:2], first & (passed == 0), Mux(passed == 0, second, (passed == 1) & first), total[:2] + step == 4

        starts = [f["start"] for f in flags]
        at = []
        for t in range(self._symbols + 1):
            place = Signal(5, name=f"place{t}")
            m.d.comb += place.eq(Cat(*on(sub, first, second, t)))
            for k in range(t):  # the last one counts
                with m.If(starts[k]):
                    m.d.comb += place.eq(Cat(*on(step[:2], ~whole, whole, t - 1 - k)))
            at.append((place[:2], place[2], place[3], place[4]))
        with m.If(valid):
            m.d.sync += Cat(sub, first, second).eq(Cat(*at[-1][:3]))

        kinds = []
        for t, f in enumerate(flags):
            _, t_first, t_second, quad_ends = at[t]
            kind = Signal(_STEP, name=f"kind{t}")
            kinds.append(kind)
            over = f["end"] | f["edb"] | ~enable
            tail = f["tail"] & quad_ends & ~t_first
            m.d.sync += [
                kind.begins.eq(starts[t]),
                kind.head.eq(f["head"]),
                kind.sdp.eq(f["sdp"]),
                kind.first.eq(t_first),
                kind.begun.eq(Mux(f["head"], Mux(f["sdp"], _In.DLLP, _In.TLP), _In.RUINS)),
                kind.quad_ends.eq(quad_ends),
                kind.edb.eq(f["edb"]),
                kind.headless.eq(enable & (f["end"] | f["edb"])),
                kind.stray.eq(enable & ~(f["end"] | f["edb"]) & f["body"] & ~f["idle"]),
                kind.cleared.eq(f["end"] | f["edb"] | (f["com"] & ~(f["body"] & ~f["idle"]))),
            ]
            for of, name, ends, body in (
                (kind.tlp, _In.TLP, tail, f["body"]),
                (kind.dllp, _In.DLLP, tail & t_second & f["end"], f["body"] & ~(t_second & quad_ends)),
            ):
                ok = enable & (body | ends)
                # A misplaced end also ends the ruins; so does a symbol that no frame can contain.
                m.d.sync += [
                    of.ok.eq(ok),
                    of.ends.eq(enable & ends),
                    of.then.eq(Mux(ok, Mux(ends, _In.NOTHING, name), Mux(over, _In.NOTHING, _In.RUINS))),
                ]
        return kinds

    def _found(self, m: Module, t: int, step, width) -> dict:
        s = found_at(t)
        in_frame, going_on = Signal(name=f"in_frame{t}"), Signal(name=f"going_on{t}")
        of = Signal(_FRAME, name=f"of{t}")
        dllp, nothing = step.state.dllp, step.state.as_value() == 0
        m.d.comb += [
            in_frame.eq(step.state.tlp | dllp),
            going_on.eq(in_frame & ~step.begins),
            of.eq(Mux(dllp, step.dllp, step.tlp)),
            s["broken"].eq(Mux(step.begins, in_frame | ~step.head, in_frame & ~of.ok)),
            s["quad"].eq(Mux(step.begins, (width == 2) & step.head, in_frame & of.ok & step.quad_ends)),
            s["first"].eq(step.begins | step.first),
            s["dllp"].eq(Mux(step.begins, step.sdp, dllp)),
            s["end"].eq(Mux(going_on & of.ends, Mux(step.edb, FrameEnd.EDB, FrameEnd.END), FrameEnd.NONE)),
            s["headless"].eq(nothing & ~step.begins & step.headless),
            s["stray"].eq(nothing & ~step.begins & step.stray),
        ]
        return s

    def _classify(self, m: Module, lanes: list, flags: dict, values) -> None:
        is_data = [~s.k & ~s.error & ~s.plain for s in lanes]
        control = [s.k & ~s.error for s in lanes]

        def of(kind: K, n: int):
            return control[n] & (lanes[n].data == kind)

        m.d.sync += [flags[kind.name.lower()].eq(of(kind, 0)) for kind in (K.SDP, K.COM)]
        m.d.sync += flags["start"].eq(self.enable & (of(K.STP, 0) | of(K.SDP, 0)))
        m.d.sync += values.eq(Cat(s.data for s in lanes))
        with m.Switch(self.width):
            for log, width in self._widths():
                with m.Case(log):
                    last = width - 1
                    m.d.sync += [
                        flags["end"].eq(of(K.END, last)),
                        flags["edb"].eq(of(K.EDB, last)),
                        flags["head"].eq(Cat(Const(1, 1), *is_data[1:width]).all()),
                        flags["tail"].eq(Cat(of(K.END, last) | of(K.EDB, last), *is_data[:last]).all()),
                        flags["body"].eq(Cat(is_data[:width]).all()),
                        flags["idle"].eq(Cat(lanes[n].data == 0 for n in range(width)).all()),
                    ]

    def _slots(self, m: Module, width, found: list, past: list, deferred):
        """Return the quads of a word, the places where they begin, and whether an abort is deferred to the next word."""
        slots, begins = [], []
        for k in range(quads_per_clock(self._lanes, self._symbols)):
            slot = Signal(QUAD, name=f"slot{k}")
            slots.append(slot)
            begin = Signal(_BEGIN, name=f"begin{k}")
            begins.append(begin)
            later = Signal(name=f"deferred{k}")
            m.d.comb += [slot.abort.eq(deferred)]
            with m.Switch(width):
                for log, lanes in self._widths():
                    times = range(k * (4 // lanes), min(self._symbols, (k + 1) * (4 // lanes)))
                    if not times:
                        continue
                    with m.Case(log):
                        before = Const(0, 1)
                        aborts, defers = deferred, Const(0, 1)
                        for t in times:
                            s = found[t]
                            aborts, defers = aborts | (s["broken"] & ~before), defers | (s["broken"] & before)
                            before = before | s["quad"]
                            took = t + 1 - 4 // lanes  # symbol time of the quad's first symbol
                            with m.If(s["quad"]):
                                parts = [past[3 + n][: 8 * lanes] for n in range(took, t + 1)]
                                m.d.comb += [
                                    slot.valid.eq(1),
                                    slot.first.eq(s["first"]),
                                    slot.dllp.eq(s["dllp"]),
                                    slot.end.eq(s["end"]),
                                    begin.early.eq(took < 0),
                                    begin.at.eq(took % self._symbols),
                                    slot.data.eq(Cat(*parts)),
                                ]
                        m.d.comb += [slot.abort.eq(aborts), later.eq(defers)]
            deferred = later
        return slots, begins, deferred


def found_at(t: int) -> dict:
    """Return the signals that the last stage sets for symbol time `t`."""
    return {
        n: Signal(FrameEnd if n == "end" else 1, name=f"{n}_at{t}") for n in ("quad", "first", "dllp", "end", "broken", "headless", "stray")
    }
