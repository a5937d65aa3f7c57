"""Data link layer: so far the CRCs and the sequence filter."""

from .crc import DLLP_CRC, LCRC, CrcStep
from .sequence import SequenceFilter

__all__ = ["DLLP_CRC", "LCRC", "CrcStep", "SequenceFilter"]
