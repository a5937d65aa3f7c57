"""Pattern of the self-test: known traffic and current, fed in ahead of every part under test."""

from .player import PatternPlayer

__all__ = ["PatternPlayer"]
