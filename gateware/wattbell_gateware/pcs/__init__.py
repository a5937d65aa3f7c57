"""Physical coding sublayer of one lane, 2.5 and 5 GT/s: words of a deserialiser -> descrambled symbols."""

from .align import SymbolAligner
from .decode import Decoder8b10b
from .descramble import STATE, Descrambler, DescrambleStep
from .lane import LaneReceiver
from .polarity import PolarityDetector
from .symbols import SYMBOL, K, symbol_word

__all__ = [
    "STATE",
    "SYMBOL",
    "Decoder8b10b",
    "DescrambleStep",
    "Descrambler",
    "K",
    "LaneReceiver",
    "PolarityDetector",
    "SymbolAligner",
    "symbol_word",
]
