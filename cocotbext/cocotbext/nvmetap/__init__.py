"""Passive NVMe monitor, protocol checkers, coverage and models for cocotb."""

from .adapters import CallSource, PcieLinkSource
from .command import Command, Doubt
from .monitor import Monitor, TlpSink, TlpSource
from .observer import LinkObserver
from .rules import Checker, Rule, Violation
from .tlp import Direction, MalformedTlpError, Tlp, TlpKind, decode_tlp

__all__ = [
    "CallSource",
    "Checker",
    "Command",
    "Direction",
    "Doubt",
    "LinkObserver",
    "MalformedTlpError",
    "Monitor",
    "PcieLinkSource",
    "Rule",
    "Tlp",
    "TlpKind",
    "TlpSink",
    "TlpSource",
    "Violation",
    "decode_tlp",
]
