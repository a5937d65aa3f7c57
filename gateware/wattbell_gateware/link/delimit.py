"""Where frames begin and end, at 2.5 and 5 GT/s: words of a link -> quads of frames."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..pcs.deskew import link_word
from ..pcs.symbols import K

__all__ = ["LATENCY", "End", "FrameDelimiter", "quads_of", "quads_per_clock"]

LATENCY = 2
"""Clocks from a word to the quads that end in it."""


class End(enum.Enum, shape=2):
    """How the frame of a quad goes on behind it."""

    NONE = 0
    END = 1
    EDB = 2


class _In(enum.Enum, shape=2):
    NOTHING = 0
    TLP = 1
    DLLP = 2
    RUINS = 3  # of a frame that was given up: what follows up to its end is not looked at


QUAD = data.StructLayout({"abort": 1, "valid": 1, "first": 1, "dllp": 1, "end": End, "early": 1, "at": 2, "data": 32})


def quads_per_clock(lanes: int, symbols: int) -> int:
    """So many quads can end in a word: 1, 2 or 4."""
    return max(1, lanes * symbols // 4)


def quads_of(lanes: int, symbols: int) -> data.StructLayout:
    """What one word brings of frames, in the order of the link.

    Frames of a link of up to four lanes are a multiple of four symbols long; a quad is four of one. ``quads`` in turn:

    - ``abort``: before this quad the frame that was open was given up. May stand without ``valid``.
    - ``valid``, ``first`` (it begins with STP or SDP), ``dllp``, ``end`` (its last symbol is END or EDB).
    - ``early``, ``at``: of a first quad: its first symbol came at symbol time ``at`` of this word or (``early``) of one before.
    - ``data``: the four symbols; of K symbols only the value.

    A quad that is not first belongs to the frame of the quad before it, and no quad is outside of a frame.
    ``tick``: as it came with this word; ``tick_before``: with the last word before it in which a frame began.
    """
    return data.StructLayout({"quads": data.ArrayLayout(QUAD, quads_per_clock(lanes, symbols)), "tick": 64, "tick_before": 64})


class FrameDelimiter(wiring.Component):
    """Finds STP, SDP, END and EDB (Base 2.1, 4.2.2.3); latency 2 clocks.

    STP and SDP stand on lane 0, END and EDB on the last lane in use, four symbols or a multiple behind. A start begins a frame
    whatever was before, so that a frame that is whole is found behind any damage. Any other control symbol in a frame, an
    invalid code, an end in the wrong place, a DLLP of other than eight symbols: the frame is given up, and its rest passed
    over up to its end. Symbols of the other running disparity are taken as they are: CRCs decide.

    Ports
    -----
    word : descrambled symbols of all lanes, lane 0 first; with the ``tick`` of its first symbol.
    width : log2 of the lanes in use (0, 1, 2). Changing it inside a frame damages that frame.
    enable : the lanes are aligned. Low: no frame begins, and an open one is given up.
    out : :func:`quads_of`; valid only where there is something.
    broken : so many frames were given up in this clock. headless : so many ends without a frame.
    stray : data other than idle outside of frames in this word (not behind a frame that was given up).
    """

    def __init__(self, lanes: int, symbols: int):
        self._lanes, self._symbols = lanes, symbols
        super().__init__({
            "word": In(stream.Signature(link_word(lanes, symbols), always_ready=True)), "tick": In(64),
            "width": In(2), "enable": In(1),
            "out": Out(stream.Signature(quads_of(lanes, symbols), always_ready=True)),
            "broken": Out(range(symbols + 1)), "headless": Out(range(symbols + 1)), "stray": Out(1),
        })  # fmt: skip

    def _widths(self):
        return [(n, 1 << n) for n in range(3) if 1 << n <= self._lanes]

    def elaborate(self, platform):
        m = Module()
        times = range(self._symbols)

        # 1: what each symbol time is
        tick, valid, enable, width = Signal(64), Signal(), Signal(), Signal(2)
        names = ("stp", "sdp", "com", "end", "edb", "head", "tail", "body", "idle")
        flags = [{name: Signal(name=f"{name}{t}") for name in names} for t in times]
        values = [Signal(8 * self._lanes, name=f"values{t}") for t in times]
        m.d.sync += valid.eq(self.word.valid)
        with m.If(self.word.valid):
            m.d.sync += [tick.eq(self.tick), enable.eq(self.enable), width.eq(self.width)]
            for t in times:
                self._classify(m, [self.word.payload[n][t] for n in range(self._lanes)], flags[t], values[t])

        # 2: from symbol time to symbol time
        state = Signal(_In)
        sub, first, second = Signal(2), Signal(), Signal()  # place in the quad; it is the frame's first one; of a DLLP the second
        step = Signal(3)
        m.d.comb += step.eq(Const(1, 3) << width)
        at_state, at_sub, at_first, at_second = state, sub, first, second
        begun = Signal(64)
        found, begin_at = [], []
        for t in times:
            f, s = flags[t], found_at(t)
            found.append(s)
            in_frame, quad_ends = Signal(name=f"in_frame{t}"), Signal(name=f"quad_ends{t}")
            begins = Signal(name=f"begins{t}")
            n_state, n_sub = Signal(_In, name=f"state{t}"), Signal(2, name=f"sub{t}")
            n_first, n_second = Signal(name=f"first{t}"), Signal(name=f"second{t}")
            # A quad as wide as the link begins and ends in one symbol time.
            whole = width == 2
            begun_sub = Signal(2, name=f"begun_sub{t}")
            begin_at.append(begins)
            m.d.comb += [
                in_frame.eq((at_state == _In.TLP) | (at_state == _In.DLLP)),
                quad_ends.eq(at_sub + step == 4),
                begins.eq(enable & (f["stp"] | f["sdp"])),
                begun_sub.eq(step[:2]),  # of four, 0
                n_state.eq(at_state), n_sub.eq(at_sub), n_first.eq(at_first), n_second.eq(at_second),
                s["dllp"].eq(at_state == _In.DLLP), s["first"].eq(at_first),
            ]  # fmt: skip
            with m.If(begins):
                m.d.comb += [
                    s["broken"].eq(in_frame | ~f["head"]), s["dllp"].eq(f["sdp"]), s["first"].eq(1), s["quad"].eq(whole & f["head"]),
                    n_state.eq(Mux(f["head"], Mux(f["sdp"], _In.DLLP.value, _In.TLP.value), _In.RUINS.value)),
                    n_sub.eq(begun_sub), n_first.eq(~whole), n_second.eq(whole),
                ]  # fmt: skip
            with m.Elif(in_frame):
                ok, ends = Signal(name=f"ok{t}"), Signal(name=f"ends{t}")
                m.d.comb += [
                    ends.eq(f["tail"] & quad_ends & ~at_first & Mux(at_state == _In.DLLP, at_second & f["end"], 1)),
                    ok.eq(enable & ((f["body"] & ~((at_state == _In.DLLP) & at_second & quad_ends)) | ends)),
                ]
                with m.If(ok):
                    m.d.comb += [n_sub.eq(at_sub + step[:2]), s["quad"].eq(quad_ends)]
                    with m.If(quad_ends):
                        m.d.comb += [n_first.eq(0), n_second.eq(at_first)]
                    with m.If(ends):
                        m.d.comb += [n_state.eq(_In.NOTHING), s["end"].eq(Mux(f["edb"], End.EDB.value, End.END.value))]
                with m.Else():
                    # An end that cannot be here ends the ruins as well; so does what cannot be in a frame at all.
                    over = f["end"] | f["edb"] | ~enable
                    m.d.comb += [s["broken"].eq(1), n_state.eq(Mux(over, _In.NOTHING.value, _In.RUINS.value))]
            with m.Elif(f["end"] | f["edb"]):
                m.d.comb += [s["headless"].eq(enable & (at_state == _In.NOTHING)), n_state.eq(_In.NOTHING)]
            with m.Elif(f["body"] & ~f["idle"]):
                m.d.comb += s["stray"].eq(enable & (at_state == _In.NOTHING))
            with m.Elif(f["com"]):
                m.d.comb += n_state.eq(_In.NOTHING)
            at_state, at_sub, at_first, at_second = n_state, n_sub, n_first, n_second

        # Values of this word behind those of lanes 0 and 1 of the word before
        kept = Signal(3 * 16)
        past = [*(Cat(kept.word_select(n, 16)) for n in range(3)), *values]
        deferred = Signal()
        slots, deferred_now = self._slots(m, width, found, past, deferred)
        m.d.sync += self.out.valid.eq(valid & Cat(Cat(q.valid, q.abort) for q in slots).any())
        m.d.comb += [
            self.broken.eq(Mux(valid, sum(s["broken"] for s in found), 0)),
            self.headless.eq(Mux(valid, sum(s["headless"] for s in found), 0)),
            self.stray.eq(valid & Cat(s["stray"] for s in found).any()),
        ]
        with m.If(valid):
            m.d.sync += [state.eq(at_state), sub.eq(at_sub), first.eq(at_first), second.eq(at_second), deferred.eq(deferred_now)]
            m.d.sync += [self.out.payload.tick_before.eq(begun), self.out.payload.tick.eq(tick)]
            with m.If(Cat(begin_at).any()):
                m.d.sync += begun.eq(tick)
            m.d.sync += kept.eq(Cat(Cat(value[:16] for value in past[-3:])) if self._lanes > 1 else
                                Cat(Cat(value[:8], Const(0, 8)) for value in past[-3:]))  # fmt: skip
            for n, slot in enumerate(slots):
                m.d.sync += self.out.payload.quads[n].eq(slot)
        return m

    def _classify(self, m: Module, lanes: list, flags: dict, values) -> None:
        is_data = [~s.k & ~s.error & ~s.plain for s in lanes]
        control = [s.k & ~s.error for s in lanes]

        def of(kind: K, n: int):
            return control[n] & (lanes[n].data == kind)

        m.d.sync += [flags[kind.name.lower()].eq(of(kind, 0)) for kind in (K.STP, K.SDP, K.COM)]
        m.d.sync += values.eq(Cat(s.data for s in lanes))
        with m.Switch(self.width):
            for log, width in self._widths():
                with m.Case(log):
                    last = width - 1
                    m.d.sync += [
                        flags["end"].eq(of(K.END, last)), flags["edb"].eq(of(K.EDB, last)),
                        flags["head"].eq(Cat(Const(1, 1), *is_data[1:width]).all()),
                        flags["tail"].eq(Cat(of(K.END, last) | of(K.EDB, last), *is_data[:last]).all()),
                        flags["body"].eq(Cat(is_data[:width]).all()),
                        flags["idle"].eq(Cat(lanes[n].data == 0 for n in range(width)).all()),
                    ]  # fmt: skip

    def _slots(self, m: Module, width, found: list, past: list, deferred):
        """The quads of a word, and whether an abort is left for the next word."""
        slots = []
        for k in range(quads_per_clock(self._lanes, self._symbols)):
            slot = Signal(QUAD, name=f"slot{k}")
            slots.append(slot)
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
                                    slot.valid.eq(1), slot.first.eq(s["first"]), slot.dllp.eq(s["dllp"]), slot.end.eq(s["end"]),
                                    slot.early.eq(took < 0), slot.at.eq(took % self._symbols), slot.data.eq(Cat(*parts)),
                                ]  # fmt: skip
                        m.d.comb += [slot.abort.eq(aborts), later.eq(defers)]
            deferred = later
        return slots, deferred


def found_at(t: int) -> dict:
    """What the second stage says of symbol time `t`."""
    return {n: Signal(End if n == "end" else 1, name=f"{n}_at{t}") for n in
            ("quad", "first", "dllp", "end", "broken", "headless", "stray")}  # fmt: skip
