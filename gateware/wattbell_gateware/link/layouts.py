"""What framing delivers, at any speed: the one interface between the framers and everything after them.

The framers of 8b/10b (STP symbols) and of 128b/130b (STP tokens) both have these outputs, so that sequence filter, store and
events are one.
"""

from __future__ import annotations

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

__all__ = ["DLLP", "Verdict", "framed_beat"]


class Verdict(enum.Enum, shape=2):
    """What a frame turned out to be, known at its last beat."""

    GOOD = 0
    """Its LCRC is right and its end is that of a TLP."""
    NULLIFIED = 1
    """Ended as nullified (EDB) with its LCRC complemented: given up by the sender; the number will come again."""
    BAD_LCRC = 2
    """Framed like a TLP, but the LCRC is neither right nor complemented (or complemented without EDB, or right with it)."""
    BAD_FRAME = 3
    """Broken off: a symbol or token that cannot be there, an invalid code, a length no TLP has, or the lanes lost alignment."""


def framed_beat(width: int) -> data.StructLayout:
    """One clock of the TLPs that framing found, `width` bits wide (32, 64 or 128). Other widths raise :class:`ValueError`.

    The stream is always ready. A frame is one beat with ``first``, any number between, one with ``last`` (one beat may be both);
    clocks without ``valid`` may be anywhere. Every ``first`` is followed by a ``last`` before the next ``first``: a framer
    ends what it began, with :attr:`Verdict.BAD_FRAME` if need be. There is nothing outside of frames.

    - ``data``: the TLP without sequence number and LCRC; byte 0 of the TLP is bits 7:0 of the first beat.
    - ``dws``: valid 32-bit words of this beat. width/32 on all but the last; on the last 1 .. width/32 if the verdict is
      GOOD, otherwise anything from 0.
    - ``first``, ``last``.
    - ``verdict``: with ``last`` (a :class:`Verdict`); nothing of a frame may have an effect before it.
    - ``sequence``: number of the TLP; stands on every beat.
    - ``tick``: tick of the STP's first symbol, derived from the tick that came with its word into the framer and from its place
      in the word, so that no delay of the framer is in it. Stands on every beat.
    """
    if width not in (32, 64, 128):
        raise ValueError(f"a beat of frames is 32, 64 or 128 bits wide, not {width!r}")
    return data.StructLayout({
        "data": unsigned(width), "dws": range(width // 32 + 1), "first": 1, "last": 1,
        "verdict": Verdict, "sequence": 12, "tick": 64,
    })  # fmt: skip


DLLP = data.StructLayout({"body": 32, "tick": 64})
"""A DLLP whose CRC was right: its four bytes, the first (the type) in bits 7:0; tick of its SDP. One a clock, always ready; a
framer that can meet two in one clock keeps one back."""
