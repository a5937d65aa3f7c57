"""The self-test's pattern: traffic and current that are known, in front of everything that is tested with them."""

from .player import PatternPlayer

__all__ = ["PatternPlayer"]
