"""The self-test's pattern: known traffic and current, fed in ahead of everything that is tested with them."""

from .player import PatternPlayer

__all__ = ["PatternPlayer"]
