"""Output of framing at any speed: the only interface between the framers and the parts after them.

The framers of 8b/10b (STP symbols) and of 128b/130b (STP tokens) have the same outputs. Sequence filter, store and events therefore
serve both.
"""

from __future__ import annotations

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

__all__ = ["DLLP", "Verdict", "framed_beat"]


class Verdict(enum.Enum, shape=2):
    """Verdict on a frame, known at its last beat."""

    GOOD = 0
    """The LCRC is right, and the frame ends as a TLP does."""
    NULLIFIED = 1
    """The frame ends with EDB and its LCRC is complemented: the sender gave the TLP up and will use its number again."""
    BAD_LCRC = 2
    """The frame is a TLP's, but the LCRC is neither right nor complemented, or complemented without EDB, or right with EDB."""
    BAD_FRAME = 3
    """The frame was broken off by a misplaced symbol or token, an invalid code, an impossible length, or lost lane alignment."""


def framed_beat(width: int) -> data.StructLayout:
    """Layout of one clock of framed TLPs, `width` bits wide (32, 64 or 128). Other widths raise :class:`ValueError`.

    The stream is always ready. A frame has one beat with ``first``, any number of beats between, and one beat with ``last``; one
    beat may be both. Clocks without ``valid`` may come anywhere. A framer ends every frame before it begins the next, with
    :attr:`Verdict.BAD_FRAME` if need be. Nothing comes outside frames.

    - ``data``: the TLP without sequence number and LCRC; byte 0 of the TLP is bits 7:0 of the first beat.
    - ``dws``: valid 32-bit words of this beat: width/32 on all beats but the last. The last beat has 1 .. width/32 if the verdict
      is GOOD, otherwise any number from 0.
    - ``first``: first beat of the frame.
    - ``last``: last beat of the frame.
    - ``verdict``: a :class:`Verdict`, valid with ``last``. No part of a frame may have an effect before it.
    - ``sequence``: sequence number of the TLP, on every beat.
    - ``tick``: tick of the STP's first symbol, on every beat. The framer derives it from the tick of the word and the place in the
      word, so the framer's delay does not enter.
    """
    if width not in (32, 64, 128):
        raise ValueError(f"a beat of frames is 32, 64 or 128 bits wide, not {width!r}")
    return data.StructLayout(
        {
            "data": unsigned(width),
            "dws": range(width // 32 + 1),
            "first": 1,
            "last": 1,
            "verdict": Verdict,
            "sequence": 12,
            "tick": 64,
        }
    )


DLLP = data.StructLayout({"body": 32, "tick": 64})
"""A DLLP with a right CRC: ``body`` is its four bytes, the first (the type) in bits 7:0; ``tick`` is the tick of its SDP.

One DLLP a clock, always ready. A framer that can meet two DLLPs in one clock holds one back.
"""
