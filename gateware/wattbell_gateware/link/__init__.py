"""Data link layer: so far the CRCs."""

from .crc import DLLP_CRC, LCRC, CrcStep

__all__ = ["DLLP_CRC", "LCRC", "CrcStep"]
