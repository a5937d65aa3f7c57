"""Sequence numbers: every TLP is passed on once."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ORDER", "WINDOW", "SequenceFilter", "SequenceOrder", "SequenceWindow", "judged"]

WINDOW = 64
"""So many numbers after the expected one are remembered one by one; a power of two."""
_COLUMN_BITS = 3
_ROW = 1 << _COLUMN_BITS

ORDER = data.StructLayout({"known": 1, "zero": 1, "expected": 12})
"""``known``: there is an expected number. ``zero``: where it is not known, the first number should be 0."""

_VERDICT = {"deliver": Out(1), "duplicate": Out(1), "late": Out(1), "lost": Out(11)}


def judged(window: int = WINDOW) -> data.StructLayout:
    """What :class:`SequenceOrder` tells :class:`SequenceWindow` of a number.

    ``strobe``: there is one. ``slot``: its place in ``had``, and a bit of ``row`` and ``column``. ``anew``: there was no expected one.
    ``replayed``: it is before the expected one, and ``near``: in the window. ``lost``: so many were passed over: those of ``passed``
    (:func:`_between`), ``every`` place, or ``none``.
    """
    low = (window - 1).bit_length()
    return data.StructLayout({
        "strobe": 1, "slot": low, "row": window // _ROW, "column": _ROW,
        "anew": 1, "replayed": 1, "near": 1, "lost": 11, "passed": _rows(window), "every": 1, "none": 1,
    })  # fmt: skip


def _rows(window: int) -> data.StructLayout:
    """A range of places, round the end or not: ``whole`` rows, and of the rows where it begins and ends so many ``columns``."""
    rows, partial = window // _ROW, data.StructLayout({"row": window // _ROW, "columns": _ROW})
    return data.StructLayout({"whole": rows, "first": partial, "last": partial})


class SequenceOrder(wiring.Component):
    """The first half of :class:`SequenceFilter`, combinational: what a number is to the expected one, and which is expected next."""

    def __init__(self, window: int = WINDOW):
        self._window = window
        super().__init__({"before": In(ORDER), "strobe": In(1), "number": In(12), "forget": In(1), "begin": In(1),
                          "after": Out(ORDER), "judged": Out(judged(window))})  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        window, before, after, out = self._window, self.before, self.after, self.judged
        low = (window - 1).bit_length()
        ahead, behind = Signal(12), Signal(12)
        anew, zero, early, since = Signal(), Signal(), Signal(), Signal(low)
        m.d.comb += [
            ahead.eq(self.number - before.expected), behind.eq(~ahead),  # n numbers behind is n - 1 here
            anew.eq(~before.known | self.forget | self.begin),
            since.eq(Mux(anew, 0, before.expected[:low])), zero.eq(self.begin | (before.zero & ~self.forget)),
            early.eq(zero & (self.number < window)),  # so many have been missed, hardly more
            out.strobe.eq(self.strobe), out.slot.eq(self.number[:low]),
            out.row.eq(1 << self.number[_COLUMN_BITS:low]), out.column.eq(1 << self.number[:_COLUMN_BITS]),
            out.anew.eq(anew), out.replayed.eq(~anew & ahead[11]),
            out.near.eq(behind < window),
            out.passed.eq(_between(m, since, self.number[:low], window)), out.every.eq(~anew & (ahead >= window)),
            out.none.eq(Mux(anew, ~early | (self.number[:low] == 0), ahead == 0)), after.eq(before),
        ]  # fmt: skip
        with m.If(anew):
            m.d.comb += out.lost.eq(Mux(early, self.number, 0))
        with m.Elif(~ahead[11]):
            m.d.comb += out.lost.eq(ahead)
        with m.If(self.strobe):
            m.d.comb += [after.known.eq(1), after.zero.eq(before.zero & ~anew)]
            with m.If(anew | ~ahead[11]):
                m.d.comb += after.expected.eq(self.number + 1)
        with m.Elif(self.forget | self.begin):
            m.d.comb += [after.known.eq(0), after.zero.eq(self.begin)]
        return m


class SequenceWindow(wiring.Component):
    """The second half of :class:`SequenceFilter`, combinational: the verdict, and which of the last numbers are not missing.

    ``had`` stays where it is and a range of it is cleared, by rows of eight: a shift of all of it by any number takes three times as much.
    """

    def __init__(self, window: int = WINDOW):
        self._window = window
        super().__init__({"before": In(window), "judged": In(judged(window)), "after": Out(window), **_VERDICT})

    def elaborate(self, platform):
        m = Module()
        window, what = self._window, self.judged
        missing, own = Signal(), Signal(window)
        m.d.comb += [
            own.eq(Cat(what.column & row.replicate(_ROW) for row in what.row)), missing.eq(what.near & ~(self.before & own).any()),
            self.deliver.eq(what.strobe & (~what.replayed | missing)), self.duplicate.eq(what.strobe & what.replayed & ~missing),
            self.late.eq(what.strobe & what.replayed & missing),
            self.lost.eq(Mux(what.strobe, what.lost, 0)), self.after.eq(self.before),
        ]  # fmt: skip
        every = what.every.replicate(window)
        passed = Mux(what.none | what.replayed, 0, _places(what.passed) | every)
        with m.If(self.deliver):
            m.d.comb += self.after.eq(((self.before | what.anew.replicate(window)) & ~passed) | own)
        return m


def _between(m: Module, since, until, window: int):
    """:func:`_rows` of the places from `since` up to before `until`, round the end if that is not after it; combinational."""
    first, last, found = since[_COLUMN_BITS:], until[_COLUMN_BITS:], Signal(_rows(window))
    inside, round_ = Signal(), Signal()
    m.d.comb += [
        round_.eq(since >= until), inside.eq((first == last) & ~round_),  # all of it in one row
        found.first.row.eq(1 << first), found.last.row.eq(1 << last),
        found.last.columns.eq(Cat((n < until[:_COLUMN_BITS]) & ~inside for n in range(_ROW))),
        found.first.columns.eq(Cat((n >= since[:_COLUMN_BITS]) & ((n < until[:_COLUMN_BITS]) | ~inside) for n in range(_ROW))),
    ]  # fmt: skip
    for n, whole in enumerate(found.whole):
        behind, before = n > first, n < last
        m.d.comb += whole.eq(Mux(round_, behind | before, behind & before))
    return found


def _places(rows):
    """:func:`_rows` as a bit for each place."""
    first, last = rows.first, rows.last
    return Cat(whole | (at_first & first.columns[k]) | (at_last & last.columns[k])
               for whole, at_first, at_last in zip(rows.whole, first.row, last.row) for k in range(_ROW))  # fmt: skip


class SequenceFilter(wiring.Component):
    """Judges the sequence number of a TLP that came whole; one a clock, the verdict comes a clock later.

    Numbers count modulo 4096, and at most 2048 TLPs are under way (PCIe Base 2.1, 3.5.2.2), so that a number up to 2048 after the
    expected one is of a replay, and any other is ahead. Numbers passed over count as lost: they were damaged on the way. The
    receiver of the link had them whole (then they stay lost), or not: then it has them sent again, with all after them. So a
    lost number that comes again is passed on then, late, if it is one of the last :data:`WINDOW` before the expected one; what
    was passed on before it is not passed on again. A nullified TLP must not be shown: its number comes again.

    Beside the expected number it keeps a bit for each of the last `window` (a power of two) before it, the one that is n modulo `window`
    at place n: it is not missing.

    Ports
    -----
    strobe, number : a TLP whose LCRC is right ended with END.
    forget : the link went down, or the tap lost the stream: the next TLP is taken as it comes. Goes before `strobe`.
    begin : the next number should be 0: the same, but the next TLP is only taken as it comes if it is far from there (64 or
        more; what told the tap may have been damage). Goes before `strobe`, and `forget`.
    deliver : a clock after ``strobe``: pass it on. duplicate : it was passed on before.
    late : with ``deliver``: it counted as lost before.
    lost : with ``deliver``: TLPs missing before it, 0 .. 2047. Before the first TLP, and behind ``forget``, nothing counts as lost.
    """

    def __init__(self, window: int = WINDOW):
        self._window = window
        super().__init__({"strobe": In(1), "number": In(12), "forget": In(1), "begin": In(1), **_VERDICT})

    def elaborate(self, platform):
        m = Module()
        m.submodules.order = order = SequenceOrder(self._window)
        m.submodules.window = window = SequenceWindow(self._window)
        m.d.comb += [getattr(order, name).eq(getattr(self, name)) for name in ("strobe", "number", "forget", "begin")]
        m.d.comb += [getattr(self, name).eq(getattr(window, name)) for name in _VERDICT]
        known, had = Signal(ORDER), Signal(self._window)
        m.d.comb += [order.before.eq(known), window.before.eq(had)]
        m.d.sync += [known.eq(order.after), window.judged.eq(order.judged), had.eq(window.after)]
        return m
