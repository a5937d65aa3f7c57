"""Data link layer: so far the CRCs and the sequence filter."""

from .crc import DLLP_CRC, LCRC, CrcStep
from .layouts import DLLP, Verdict, framed_beat
from .sequence import SequenceFilter

__all__ = ["DLLP", "DLLP_CRC", "LCRC", "CrcStep", "SequenceFilter", "Verdict", "framed_beat"]
