"""Passive NVMe monitor, protocol checkers, coverage and models for cocotb."""

from .adapters import CallSource, PcieLinkSource, watch_rail
from .command import Command, Doubt
from .monitor import Monitor, TlpSink, TlpSource
from .observer import LinkObserver
from .perfetto import write_perfetto
from .power import SupplyRail
from .rules import Checker, Rule, Violation
from .tlp import Direction, MalformedTlpError, Tlp, TlpKind, decode_tlp
from .trace import TraceWriter, play_trace

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
    "SupplyRail",
    "Tlp",
    "TlpKind",
    "TlpSink",
    "TlpSource",
    "TraceWriter",
    "Violation",
    "decode_tlp",
    "play_trace",
    "watch_rail",
    "write_perfetto",
]
