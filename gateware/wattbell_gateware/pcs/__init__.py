"""Physical coding sublayer at 2.5 and 5 GT/s: from words of a deserialiser to descrambled symbols of a lane and deskewed lanes."""

from .align import SymbolAligner
from .decode import Decoder8b10b
from .descramble import STATE, Descrambler, DescrambleStep
from .deskew import Deskew, link_word
from .lane import LaneReceiver
from .polarity import PolarityDetector
from .symbols import SYMBOL, K, symbol_word

__all__ = [
    "STATE",
    "SYMBOL",
    "Decoder8b10b",
    "DescrambleStep",
    "Descrambler",
    "Deskew",
    "K",
    "LaneReceiver",
    "PolarityDetector",
    "SymbolAligner",
    "link_word",
    "symbol_word",
]
