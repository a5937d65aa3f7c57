"""TLP headers: turns two streams of beats into intact, valid TLPs in the order of their ticks."""

from .headers import HEADER, TlpKind, payload_start, total_dws
from .merge import MERGED, TlpMerge
from .parser import TlpParser

__all__ = ["HEADER", "MERGED", "TlpKind", "TlpMerge", "TlpParser", "payload_start", "total_dws"]
