"""Parser that finds the packets in the data stream of an 8 GT/s link."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..pcs.blocks import TIME_BITS
from .token_stream import stream_word
from .tokens import TokenDecoder

__all__ = ["Mode", "TokenParser", "parsed_word"]


class Mode(enum.Enum, shape=3):
    """Meaning of the next double word of the stream."""

    TOKEN = 0
    TLP = 1
    AFTER = 2
    """A token, which may be the EDB of the TLP before it."""
    DLLP = 3
    """The second half of a DLLP."""
    HUNT = 4
    """Unknown: the parser looks for an STP."""
    CANDIDATE = 5
    """The double word after a possible STP. The STP was real if this begins a TLP of its length."""
    STOPPED = 6
    """Nothing until the data stream begins again."""


_PLACE = data.StructLayout({"sequence": 12, "time": TIME_BITS})


def parsed_word(lanes: int) -> data.StructLayout:
    """Layout of the packets of one clock, cut into double words at token boundaries.

    - ``data``: the double words.
    - ``body``: of each double word: it belongs to a TLP.
    - ``old_body``: of each double word: it belongs to the TLP that was open before this word.
    - ``lcrc``: LCRC of the TLP that ends.
    - ``ends``: the open TLP ends: its verdict is due.
    - ``edb``: it ends with EDB.
    - ``broken``: it is broken off.
    - ``begins``: a TLP is open from here on.
    - ``sequence``, ``time``: number and time of the TLP that is open after this word, or was open last.
    - ``dllp``: of each double word: it ends a DLLP.
    - ``half``: first two bytes of the DLLP that the first double word ends.
    - ``dllp_time``: of each double word: time of the DLLP that it ends.
    """
    return data.StructLayout(
        {
            "data": data.ArrayLayout(32, lanes),
            "body": lanes,
            "old_body": lanes,
            "lcrc": 32,
            "ends": 1,
            "edb": 1,
            "broken": 1,
            "begins": 1,
            "sequence": 12,
            "time": TIME_BITS,
            "dllp": lanes,
            "half": 16,
            "dllp_time": data.ArrayLayout(TIME_BITS, lanes),
        }
    )


class TokenParser(wiring.Component):
    """Finds TLPs and DLLPs in the words of the data stream; takes a word a clock. Latency: 1 clock at x4; at x1 and x2 a clock
    after the following word.

    If a token is missing, the specification's receiver stops and has the link retrained. This parser instead looks for an STP with
    every bit right, followed by a header with the length of the STP, and goes on there. Other data matches once in 2^19 double
    words. The parser goes on in any case after the next SKP ordered set.

    Ports
    -----
    words : :func:`stream_word`.
    out : :func:`parsed_word`, one for each word.
    corrected : strobe: a token had one wrong bit, which was corrected.
    lost : strobe: a token was missing where one must be.
    regained : strobe: the parser found a token again.
    """

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "words": In(stream.Signature(stream_word(lanes))),
                "out": Out(stream.Signature(parsed_word(lanes))),
                "corrected": Out(1),
                "lost": Out(1),
                "regained": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self._lanes
        # Tokens begin on lane 0: at x4 at any double word, at x2 at any second symbol, at x1 at any symbol. x2 and x1 need the next
        # word.
        ahead = lanes < 4
        step = Signal()
        now = Signal(stream_word(lanes))
        m.d.comb += [self.words.ready.eq(~self.out.valid | self.out.ready), step.eq(self.words.valid & self.words.ready)]
        with m.If(self.words.ready):
            m.d.sync += self.out.valid.eq(0)
        if ahead:
            with m.If(step):
                m.d.sync += now.eq(self.words.payload)
            symbols = Cat(now.data, self.words.payload.data[:32])
        else:
            m.d.comb += now.eq(self.words.payload)
            symbols = Cat(now.data, Signal(32, name="none"))

        mode, left, offset = Signal(Mode, init=Mode.STOPPED), Signal(11), Signal(2)
        length, place = Signal(11), Signal(_PLACE)  # of the TLP or candidate
        half, half_time = Signal(16), Signal(TIME_BITS)
        lcrc = Signal(32)
        result = Signal(parsed_word(lanes))
        corrected, lost, regained = Signal(), Signal(), Signal()

        m.d.comb += result.half.eq(half)
        state, remaining, at = Signal(Mode, name="state"), Signal(11, name="remaining"), Signal(2, name="at")
        m.d.comb += [state.eq(mode), remaining.eq(left), at.eq(offset)]
        open_before = (mode == Mode.TLP) | (mode == Mode.AFTER)
        with m.If(now.restart):
            m.d.comb += [state.eq(Mode.TOKEN), at.eq(0), result.ends.eq(open_before), result.broken.eq(mode == Mode.TLP)]
        with m.If(now.end):
            m.d.comb += [state.eq(Mode.STOPPED), result.ends.eq(open_before), result.broken.eq(mode == Mode.TLP)]
        ended = open_before & (now.restart | now.end)

        old = open_before & ~ended
        current_length, current, last_half, last_half_time, last_lcrc = length, place, half, half_time, lcrc
        for n in range(lanes):
            state, remaining, at, current_length, current, last_half, last_half_time, last_lcrc, old = self._double_word(
                m,
                n,
                now,
                symbols,
                result,
                (corrected, lost, regained),
                state,
                remaining,
                at,
                current_length,
                current,
                last_half,
                last_half_time,
                last_lcrc,
                old,
            )
        m.d.comb += [result.sequence.eq(current.sequence), result.time.eq(current.time), result.lcrc.eq(last_lcrc)]
        m.d.sync += [self.corrected.eq(step & corrected), self.lost.eq(step & lost), self.regained.eq(step & regained)]
        with m.If(step):
            m.d.sync += [
                self.out.valid.eq(1),
                self.out.payload.eq(result),
                mode.eq(state),
                left.eq(remaining),
                offset.eq(at),
                length.eq(current_length),
                place.eq(current),
                half.eq(last_half),
                half_time.eq(last_half_time),
                lcrc.eq(last_lcrc),
            ]
        return m

    def _double_word(self, m, n, now, symbols, result, strobes, state, left, offset, length, place, half, half_time, lcrc, old):
        """Advance the state by double word `n` of the word; return the same values after it."""
        lanes = self._lanes
        corrected, lost, regained = strobes
        after = Signal(Mode, name=f"state{n}")
        remaining, at, new_length = Signal(11, name=f"left{n}"), Signal(2, name=f"at{n}"), Signal(11, name=f"length{n}")
        new_place, new_half = Signal(_PLACE, name=f"place{n}"), Signal(16, name=f"half{n}")
        new_time, new_lcrc, still_old = Signal(TIME_BITS, name=f"time{n}"), Signal(32, name=f"lcrc{n}"), Signal(name=f"old{n}")
        starts = range(0, 4, lanes)  # places in the double word where a token may begin

        # Place where this double word begins: after idle symbols, at an STP (in HUNT), or at the place of the last one.
        exact = Signal(4, name=f"exact{n}")
        decoders = {}
        for first in starts:
            m.submodules[f"token{n}_{first}"] = decoder = decoders[first] = TokenDecoder()
            m.d.comb += [decoder.word.eq(symbols[32 * n + 8 * first :][:32]), exact[first].eq(decoder.stp & decoder.exact)]
        begins = Signal(2, name=f"begins{n}")
        none = Signal(name=f"none{n}")  # idle to the end of the double word
        is_edb = Signal(name=f"edb{n}")
        awaiting = (state == Mode.TOKEN) | (state == Mode.AFTER)
        m.d.comb += [begins.eq(offset), is_edb.eq((state == Mode.AFTER) & self._at(decoders, offset).edb)]
        unsettled = Signal(name=f"unsettled{n}")
        m.d.comb += unsettled.eq((state == Mode.HUNT) | (state == Mode.CANDIDATE))
        if lanes < 4:
            with m.If(awaiting & ~is_edb):
                m.d.comb += none.eq(1)
                for first in reversed(starts):
                    # A group of all lanes with two or more bits set is not idle.
                    group = symbols[32 * n + 8 * first :][: 8 * lanes]
                    with m.If((first >= offset) & ((group & (group - 1)[: len(group)]) != 0)):
                        m.d.comb += [begins.eq(first), none.eq(0)]
                skipped = [
                    (first >= offset) & (none | (first < begins)) & (symbols[32 * n + 8 * first :][: 8 * lanes] != 0) for first in starts
                ]
                with m.If(now.filled & Cat(skipped).any()):
                    m.d.comb += corrected.eq(1)
        word, token = Signal(32, name=f"word{n}"), self._at(decoders, begins)
        m.d.comb += word.eq(symbols[32 * n :].bit_select(begins << 3, 32))

        def at_first(first):
            """Return the time of the symbol time that this group begins."""
            return now.time + (4 * n + first) // lanes

        time = Signal(TIME_BITS, name=f"now{n}")
        with m.Switch(begins):
            for first in starts:
                with m.Case(first):
                    m.d.comb += time.eq(at_first(first))
        found = Signal(2, name=f"found{n}")
        found_time, found_length, found_sequence = Signal(TIME_BITS, name=f"found_time{n}"), Signal(11), Signal(12)
        for first in reversed(starts):
            with m.If(exact[first]):
                m.d.comb += [
                    found.eq(first),
                    found_time.eq(at_first(first)),
                    found_length.eq(decoders[first].length),
                    found_sequence.eq(decoders[first].sequence),
                ]
        header_length = self._tlp_length(word)
        wrong = Signal(name=f"wrong{n}")
        is_stp, is_sdp, is_eds, is_lost = (Signal(name=f"{name}{n}") for name in ("stp", "sdp", "eds", "lost"))
        packet = ~none & ~is_edb
        m.d.comb += [
            is_stp.eq(packet & token.stp),
            is_sdp.eq(packet & token.sdp & ~token.stp),
            is_eds.eq(packet & token.eds & now.last & (begins == 0) & (n == lanes - 1)),
            is_lost.eq(packet & ~is_stp & ~is_sdp & ~is_eds & ~(token.idle if lanes == 4 else 0)),
        ]

        def hunt():
            with m.If(exact.any()):
                m.d.comb += [after.eq(Mode.CANDIDATE), at.eq(found), new_length.eq(found_length)]
                m.d.comb += [new_place.sequence.eq(found_sequence), new_place.time.eq(found_time)]
            with m.Else():
                m.d.comb += after.eq(Mode.HUNT)

        m.d.comb += [
            after.eq(state),
            remaining.eq(left),
            at.eq(offset),
            new_length.eq(length),
            new_place.eq(place),
            new_half.eq(half),
            new_time.eq(half_time),
            new_lcrc.eq(lcrc),
            still_old.eq(old),
            result.data[n].eq(word),
            result.dllp_time[n].eq(half_time),
        ]
        with m.If(now.filled):
            with m.Switch(state):
                with m.Case(Mode.TLP):
                    m.d.comb += remaining.eq(left - 1)
                    with m.If(left == 1):
                        m.d.comb += [after.eq(Mode.AFTER), new_lcrc.eq(word)]
                    with m.Else():
                        m.d.comb += [result.body[n].eq(1), result.old_body[n].eq(old)]
                with m.Case(Mode.TOKEN, Mode.AFTER):
                    with m.If(state == Mode.AFTER):
                        m.d.comb += [result.ends.eq(1), result.edb.eq(is_edb), still_old.eq(0)]
                    m.d.comb += [after.eq(Mode.TOKEN), at.eq(Mux(none, 0, begins)), wrong.eq(~none & ~is_lost & token.wrong)]
                    with m.If(is_stp):
                        m.d.comb += [
                            after.eq(Mode.TLP),
                            remaining.eq(token.length - 1),
                            result.begins.eq(1),
                            new_place.sequence.eq(token.sequence),
                            new_place.time.eq(time),
                            still_old.eq(0),
                        ]
                    with m.Elif(is_sdp):
                        m.d.comb += [after.eq(Mode.DLLP), new_half.eq(word[16:]), new_time.eq(time)]
                    with m.Elif(is_eds):
                        m.d.comb += after.eq(Mode.STOPPED)
                    with m.Elif(is_lost):
                        m.d.comb += lost.eq(1)
                        hunt()
                with m.Case(Mode.DLLP):
                    m.d.comb += [after.eq(Mode.TOKEN), result.dllp[n].eq(1)]
                with m.Case(Mode.HUNT):
                    hunt()
                with m.Case(Mode.CANDIDATE):
                    with m.If(header_length == length):
                        m.d.comb += [
                            after.eq(Mode.TLP),
                            remaining.eq(length - 2),
                            result.begins.eq(1),
                            result.body[n].eq(1),
                            regained.eq(1),
                            still_old.eq(0),
                        ]
                    with m.Else():
                        hunt()
                with m.Default():  # STOPPED: the block went on after EDS, or a data block came in place of an ordered set
                    m.d.comb += lost.eq(1)
                    hunt()
        with m.If(wrong):
            m.d.comb += corrected.eq(1)
        return after, remaining, at, new_length, new_place, new_half, new_time, new_lcrc, still_old

    def _at(self, decoders, offset):
        """Return the outputs of the decoder at `offset`."""

        class Chosen:
            def __getattr__(self, name):
                first, *others = decoders.items()
                value = getattr(first[1], name)
                for place, decoder in others:
                    value = Mux(offset == place, getattr(decoder, name), value)
                return value

        return Chosen()

    def _tlp_length(self, header):
        """Return the double words of the TLP that begins with `header`, token and LCRC included; 0 if it begins with a prefix."""
        fmt, digest = header[5:8], header[23]
        payload = Cat(header[24:32], header[16:18])
        count = Mux(fmt[1], Mux(payload == 0, 1024, payload), 0)
        return Mux(fmt[2], 0, 5 + fmt[0] + digest + count)
