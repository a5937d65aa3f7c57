"""Filter of sequence numbers, which passes every TLP on once."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ORDER", "WINDOW", "SequenceFilter", "SequenceOrder", "SequenceWindow", "judged"]

WINDOW = 64
"""Sequence numbers before the expected one that are remembered individually; a power of two."""
_COLUMN_BITS = 3
_ROW = 1 << _COLUMN_BITS

ORDER = data.StructLayout({"known": 1, "zero": 1, "expected": 12})
"""Expected number. ``known``: ``expected`` is valid. ``zero``: if not known, the first number should be 0."""

_VERDICT = {"deliver": Out(1), "duplicate": Out(1), "late": Out(1), "lost": Out(11)}


def judged(window: int = WINDOW) -> data.StructLayout:
    """Layout of the judgement on a number, from :class:`SequenceOrder` to :class:`SequenceWindow`.

    - ``strobe``: there is a number.
    - ``slot``: place of the number in ``had``. ``row`` and ``column`` give the same place, one bit set in each.
    - ``anew``: no number was expected.
    - ``replayed``: the number is before the expected one.
    - ``near``: the number is also in the window.
    - ``lost``: how many numbers were passed over.
    - ``passed``: places of these numbers (:func:`_between`).
    - ``every``: they fill every place.
    - ``none``: no number was passed over.
    """
    low = (window - 1).bit_length()
    return data.StructLayout(
        {
            "strobe": 1,
            "slot": low,
            "row": window // _ROW,
            "column": _ROW,
            "anew": 1,
            "replayed": 1,
            "near": 1,
            "lost": 11,
            "passed": _rows(window),
            "every": 1,
            "none": 1,
        }
    )


def _rows(window: int) -> data.StructLayout:
    """Layout of a range of places, which may wrap around.

    ``whole``: a bit for each full row. ``first``, ``last``: the row in which the range begins or ends, and a bit for each of its
    ``columns`` in the range.
    """
    rows, partial = window // _ROW, data.StructLayout({"row": window // _ROW, "columns": _ROW})
    return data.StructLayout({"whole": rows, "first": partial, "last": partial})


class SequenceOrder(wiring.Component):
    """First half of :class:`SequenceFilter`, combinational: compares a number with the expected one, and gives the next expected
    one.

    Ports
    -----
    before : :data:`ORDER` before this number.
    strobe : there is a number.
    number : the sequence number.
    forget : see :class:`SequenceFilter`.
    begin : see :class:`SequenceFilter`.
    after : :data:`ORDER` after this number.
    judged : :func:`judged`.
    """

    def __init__(self, window: int = WINDOW):
        self._window = window
        super().__init__(
            {
                "before": In(ORDER),
                "strobe": In(1),
                "number": In(12),
                "forget": In(1),
                "begin": In(1),
                "after": Out(ORDER),
                "judged": Out(judged(window)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        window, before, after, out = self._window, self.before, self.after, self.judged
        low = (window - 1).bit_length()
        ahead, behind = Signal(12), Signal(12)
        anew, zero, early, since = Signal(), Signal(), Signal(), Signal(low)
        m.d.comb += [
            ahead.eq(self.number - before.expected),
            behind.eq(~ahead),  # n - 1 for n numbers behind
            anew.eq(~before.known | self.forget | self.begin),
            since.eq(Mux(anew, 0, before.expected[:low])),
            zero.eq(self.begin | (before.zero & ~self.forget)),
            early.eq(zero & (self.number < window)),  # the tap can have missed this many, hardly more
            out.strobe.eq(self.strobe),
            out.slot.eq(self.number[:low]),
            out.row.eq(1 << self.number[_COLUMN_BITS:low]),
            out.column.eq(1 << self.number[:_COLUMN_BITS]),
            out.anew.eq(anew),
            out.replayed.eq(~anew & ahead[11]),
            out.near.eq(behind < window),
            out.passed.eq(_between(m, since, self.number[:low], window)),
            out.every.eq(~anew & (ahead >= window)),
            out.none.eq(Mux(anew, ~early | (self.number[:low] == 0), ahead == 0)),
            after.eq(before),
        ]
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
    """Second half of :class:`SequenceFilter`, combinational: gives the verdict, and marks which of the last numbers are not
    missing.

    ``had`` stays in place, and a range of it is cleared by rows of eight. Shifting all of it by any number would take three times
    the logic.

    Ports
    -----
    before : ``had`` before this number, one bit for each number in the window.
    judged : :func:`judged`.
    after : ``had`` after this number.
    deliver : see :class:`SequenceFilter`.
    duplicate : see :class:`SequenceFilter`.
    late : see :class:`SequenceFilter`.
    lost : see :class:`SequenceFilter`.
    """

    def __init__(self, window: int = WINDOW):
        self._window = window
        super().__init__({"before": In(window), "judged": In(judged(window)), "after": Out(window), **_VERDICT})

    def elaborate(self, platform):
        m = Module()
        window, what = self._window, self.judged
        missing, own = Signal(), Signal(window)
        m.d.comb += [
            own.eq(Cat(what.column & row.replicate(_ROW) for row in what.row)),
            missing.eq(what.near & ~(self.before & own).any()),
            self.deliver.eq(what.strobe & (~what.replayed | missing)),
            self.duplicate.eq(what.strobe & what.replayed & ~missing),
            self.late.eq(what.strobe & what.replayed & missing),
            self.lost.eq(Mux(what.strobe, what.lost, 0)),
            self.after.eq(self.before),
        ]
        every = what.every.replicate(window)
        passed = Mux(what.none | what.replayed, 0, _places(what.passed) | every)
        with m.If(self.deliver):
            m.d.comb += self.after.eq(((self.before | what.anew.replicate(window)) & ~passed) | own)
        return m


def _between(m: Module, since, until, window: int):
    """Return :func:`_rows` of the places from `since` to before `until`; combinational. The range wraps if `until` is not after
    `since`.
    """
    first, last, found = since[_COLUMN_BITS:], until[_COLUMN_BITS:], Signal(_rows(window))
    inside, round_ = Signal(), Signal()
    m.d.comb += [
        round_.eq(since >= until),
        inside.eq((first == last) & ~round_),  # the range lies in one row
        found.first.row.eq(1 << first),
        found.last.row.eq(1 << last),
        found.last.columns.eq(Cat((n < until[:_COLUMN_BITS]) & ~inside for n in range(_ROW))),
        found.first.columns.eq(Cat((n >= since[:_COLUMN_BITS]) & ((n < until[:_COLUMN_BITS]) | ~inside) for n in range(_ROW))),
    ]
    for n, whole in enumerate(found.whole):
        behind, before = n > first, n < last
        m.d.comb += whole.eq(Mux(round_, behind | before, behind & before))
    return found


def _places(rows):
    """Return :func:`_rows` as one bit for each place."""
    first, last = rows.first, rows.last
    return Cat(
        whole | (at_first & first.columns[k]) | (at_last & last.columns[k])
        for whole, at_first, at_last in zip(rows.whole, first.row, last.row)
        for k in range(_ROW)
    )


class SequenceFilter(wiring.Component):
    """Judges the sequence number of an intact TLP; takes one a clock, gives the verdict a clock later.

    Numbers count modulo 4096, and at most 2048 TLPs are under way (PCIe Base 2.1, 3.5.2.2). A number up to 2048 behind the expected
    one therefore belongs to a replay; any other number is ahead. Numbers passed over count as lost: they were damaged on the way.

    The receiver of the link may have had a lost TLP intact; the TLP then stays lost. Otherwise the receiver asks for it again, with
    all TLPs after it. The filter then passes the lost TLP on, late, if its number is one of the last :data:`WINDOW` before the
    expected one. It does not pass on other TLPs twice. A nullified TLP must not be shown to the filter: its number comes again.

    Besides the expected number, the filter keeps a bit for each of the last `window` numbers (a power of two). Number n has the bit
    at place n modulo `window`; the bit is set if the number is not missing.

    Ports
    -----
    strobe : a TLP with a right LCRC ended with END.
    number : sequence number of this TLP.
    forget : the link went down, or the tap lost the stream: accept the next TLP with any number. Applies before ``strobe``.
    begin : the next number should be 0. As ``forget``, except that a next number below 64 counts the TLPs before it as lost. A
        larger number is accepted as it comes, as damage may have caused ``begin``. Applies before ``strobe`` and ``forget``.
    deliver : a clock after ``strobe``: pass the TLP on.
    duplicate : a clock after ``strobe``: the TLP was passed on before.
    late : with ``deliver``: the TLP counted as lost before.
    lost : with ``deliver``: number of TLPs missing before this one, 0 .. 2047. Nothing counts as lost before the first TLP or after
        ``forget``.
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
