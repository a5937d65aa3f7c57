"""A PCI Express transmitter for 2.5 and 5 GT/s, in Python, for tests only.

It shares nothing with the gateware: no table, no constant, no function. TLPs come from ``cocotbext.pcie``, the LCRC from zlib. The
rest is written from the rules of the specification, and ``test_transmitter.py`` checks it against published tables and vectors.

    link = Link(lanes=4)
    link.training(TS1, 8); link.idle(20); link.send(tlp.pack()); link.idle(20)
    for bits in link.bits(skew=(0, 3, 1, 5)): ...     # one bytearray of 0 and 1 a physical lane, first bit first
"""

from .datalink import Replayer, dllp_crc, lcrc, tlp_symbols
from .lane import COM, EDB, EIE, END, FTS, IDL, PAD, SDP, SKP, STP, LaneEncoder, Symbol, name
from .line_code import LineCode, encode
from .link import TS1, TS2, Link, damaged, words
from .scrambler import Scrambler

__all__ = [
    "COM", "EDB", "EIE", "END", "FTS", "IDL", "PAD", "SDP", "SKP", "STP", "TS1", "TS2", "LaneEncoder", "LineCode", "Link", "Replayer",
    "Scrambler", "Symbol", "damaged", "dllp_crc", "encode", "lcrc", "name", "tlp_symbols", "words",
]  # fmt: skip
