"""Every TLP once."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["WINDOW", "SequenceFilter", "SequenceStep", "sequence_state"]

WINDOW = 64
"""So many numbers behind the expected one are remembered one by one; a power of two."""
_ROW = 8


def sequence_state(window: int = WINDOW) -> data.StructLayout:
    """``known``: there is an expected number. ``had``: bit n: of the last `window` numbers before the expected one, the one that
    is n modulo `window` is not missing.

    ``zero``: where it is not known, the first number should be 0.
    """
    return data.StructLayout({"known": 1, "zero": 1, "expected": 12, "had": window})


_VERDICT = {"deliver": Out(1), "duplicate": Out(1), "late": Out(1), "lost": Out(11)}


class SequenceStep(wiring.Component):
    """The combinational step of :class:`SequenceFilter`: ``after`` from ``before`` and a number.

    ``had`` stays where it is and a range of it is cleared, by rows of eight: a shift of all of it by any number takes three times as much.
    """

    def __init__(self, window: int = WINDOW):
        self._window = window
        state = sequence_state(window)
        super().__init__({"before": In(state), "strobe": In(1), "number": In(12), "forget": In(1), "begin": In(1),
                          "after": Out(state), **_VERDICT})  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        window, before, after = self._window, self.before, self.after
        low = (window - 1).bit_length()
        ahead, behind = Signal(12), Signal(12)
        missing = Signal()
        m.d.comb += [
            ahead.eq(self.number - before.expected), behind.eq(~ahead),  # n numbers behind is n - 1 here
            missing.eq((behind < window) & ~before.had.bit_select(self.number[:low], 1)),
            after.eq(before),
        ]  # fmt: skip
        anew, zero, early = Signal(), Signal(), Signal()
        m.d.comb += [
            anew.eq(~before.known | self.forget | self.begin), zero.eq(self.begin | (before.zero & ~self.forget)),
            early.eq(zero & (self.number < window)),  # so many have been missed, hardly more
        ]  # fmt: skip
        with m.If(self.strobe & ~anew):
            with m.If(ahead[11]):
                m.d.comb += [self.duplicate.eq(~missing), self.deliver.eq(missing), self.late.eq(missing)]
            with m.Else():
                m.d.comb += [self.deliver.eq(1), self.lost.eq(ahead), after.expected.eq(self.number + 1)]
        with m.Elif(self.strobe):
            m.d.comb += [
                self.deliver.eq(1), after.known.eq(1), after.zero.eq(0), after.expected.eq(self.number + 1),
                self.lost.eq(Mux(early, self.number, 0)),
            ]  # fmt: skip
        with m.Elif(self.forget | self.begin):
            m.d.comb += [after.known.eq(0), after.zero.eq(self.begin)]

        # Of those passed over the first is `since`, modulo the window, and the last is the one before `number`.
        since, until, none, all_ = Signal(low), self.number[:low], Signal(), Signal()
        m.d.comb += [
            since.eq(Mux(anew, 0, before.expected[:low])),
            none.eq(Mux(anew, ~early, ahead[11]) | (since == until)), all_.eq(~anew & ~ahead[11] & (ahead >= window)),
        ]  # fmt: skip
        passed = _between(m, since, until, window)
        with m.If(self.deliver):
            m.d.comb += after.had.eq(
                ((before.had | anew.replicate(window)) & ~((passed & ~none.replicate(window)) | all_.replicate(window)))
                | (1 << until)[:window])  # fmt: skip
        return m


def _between(m: Module, since, until, window: int):
    """A bit for each place from `since` up to before `until`, round the end if that is not behind it; combinational."""
    rows, width = window // _ROW, _ROW.bit_length() - 1
    first, last = since[width:], until[width:]
    upper, lower = Signal(_ROW), Signal(_ROW)  # of the row of `since`, and of that of `until`
    bits, inside, round_ = [], Signal(), Signal()
    m.d.comb += [
        round_.eq(since >= until), inside.eq((first == last) & ~round_),  # all of it in one row
        lower.eq(Cat((n < until[:width]) & ~inside for n in range(_ROW))),
        upper.eq(Cat((n >= since[:width]) & ((n < until[:width]) | ~inside) for n in range(_ROW))),
    ]  # fmt: skip
    for n in range(rows):
        behind, before, whole = n > first, n < last, Signal(name=f"row{n}")
        m.d.comb += whole.eq(Mux(round_, behind | before, behind & before))
        bits += [whole | ((first == n) & upper[k]) | ((last == n) & lower[k]) for k in range(_ROW)]
    return Cat(bits)


class SequenceFilter(wiring.Component):
    """Judges the sequence number of a TLP that came whole; combinational, the state follows at the next clock.

    Numbers count modulo 4096, and at most 2048 TLPs are under way (Base 2.1, 3.5.2.2), so that a number up to 2048 behind the
    expected one is of a replay, and any other is ahead. Numbers passed over count as lost: they were damaged on the way. The
    receiver of the link had them whole (then they stay lost), or not: then it has them sent again, with all behind them. So a
    lost number that comes again is passed on then, late, if it is one of the last :data:`WINDOW` before the expected one; what
    was passed on before it is not passed on again. A nullified TLP must not be shown: its number comes again.

    Ports
    -----
    strobe, number : a TLP whose LCRC is right ended with END.
    forget : the link went down, or the tap lost the stream: the next TLP is taken as it comes. Goes before `strobe`.
    begin : the next number should be 0: the same, but the next TLP is only taken as it comes if it is far from there (64 or
        more; what told the tap may have been damage). Goes before `strobe`, and `forget`.
    deliver : with ``strobe``: pass it on. duplicate : it was passed on before.
    late : with ``deliver``: it counted as lost before.
    lost : with ``deliver``: TLPs missing before it, 0 .. 2047. Before the first TLP, and behind ``forget``, nothing counts as lost.
    """

    def __init__(self, window: int = WINDOW):
        self._window = window
        super().__init__({"strobe": In(1), "number": In(12), "forget": In(1), "begin": In(1), **_VERDICT})

    def elaborate(self, platform):
        m = Module()
        m.submodules.step = step = SequenceStep(self._window)
        state = Signal(sequence_state(self._window))
        m.d.comb += [step.before.eq(state), step.strobe.eq(self.strobe), step.number.eq(self.number), step.forget.eq(self.forget)]
        m.d.comb += step.begin.eq(self.begin)
        m.d.comb += [getattr(self, name).eq(getattr(step, name)) for name in _VERDICT]
        m.d.sync += state.eq(step.after)
        return m
