"""Passive NVMe monitor, protocol checkers, coverage and models for cocotb."""

from .command import Command, Doubt
from .monitor import Monitor, TlpSink, TlpSource
from .tlp import Direction, MalformedTlpError, Tlp, TlpKind, decode_tlp

__all__ = ["Command", "Direction", "Doubt", "MalformedTlpError", "Monitor", "Tlp", "TlpKind", "TlpSink", "TlpSource", "decode_tlp"]
