"""Data link layer: takes words of a link, or TLPs and DLLPs in their frames, and gives each TLP once, and link events."""

from .crc import DLLP_CRC, LCRC, CrcStep
from .layouts import DLLP, Verdict, framed_beat
from .sequence import SequenceFilter

__all__ = ["DLLP", "DLLP_CRC", "LCRC", "CrcStep", "SequenceFilter", "Verdict", "framed_beat"]
