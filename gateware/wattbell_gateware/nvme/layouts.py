"""Layouts of the tracker's ports. :class:`.tracker.NvmeTracker` explains the ports."""

from __future__ import annotations

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from ..layouts import COMMAND, EVENT
from ..side import SIDES

__all__ = [
    "COMMAND",
    "COMPLETION",
    "CONFIG",
    "COUNTERS",
    "DONE_BITS",
    "EVENT",
    "IDENTIFY_DATA",
    "RAW",
    "RAW_WORD",
    "SNAPSHOT",
    "ConfigOp",
]

DONE_BITS = 32
"""Bits of the tick that completed a record: nothing stays in the instrument for 4 s."""


class ConfigOp(enum.Enum, shape=3):
    """Request of a word of the ``cfg`` stream."""

    BAR0 = 0  # address = BAR0
    STRIDE = 1  # size = CAP.DSTRD
    PAGE = 2  # size = CC.MPS
    SQ = 3  # qid, address = base, size = entries, link = its CQ
    CQ = 4  # qid, address = base, size = entries, link = its interrupt vector
    SHADOW = 5  # size = 1: shadow doorbells are in use
    RESET = 6  # forget everything tracked, flush what is in flight (TRACKER_RESET with cause COMMAND)


CONFIG = data.StructLayout({"op": ConfigOp, "qid": unsigned(8), "address": unsigned(64), "size": unsigned(32), "link": unsigned(16)})
"""Late attach: one word for each fact the host knows. Queues: CQ before the SQs that complete to it."""

RAW = data.StructLayout(
    {
        "data": unsigned(32),
        "first": unsigned(1),
        "last": unsigned(1),
        "tick": unsigned(64),
        "length": unsigned(16),
        "direction": unsigned(1),
        "flags": unsigned(8),
    }
)
"""A 32-bit word of a raw TLP, byte 0 in bits 7:0. ``tick``, ``length`` (bytes of the whole TLP), ``direction`` and
``flags`` (as in ``spec.TLP_HEADER``) stand on every word."""

RAW_WORD = data.StructLayout({"data": unsigned(32), "last": unsigned(1), "tick": unsigned(64), "dws": unsigned(11)})
"""The same inside the tracker: ``dws``, double words of the whole TLP."""

IDENTIFY_DATA = 2
"""``flags`` of a raw TLP with data of an Identify."""

COMPLETION = data.StructLayout({"tick": 64, "latency": 32, "lba": 40, "blocks": 17, "opcode": 8, "admin": 1, "error": 1})
"""A command with a known SQE, at its CQE.

- ``tick``: of the CQE
- ``latency``: from the doorbell to the CQE in ticks, at most 2**32 - 1, 0 when not known
- ``lba``, ``blocks``: low bits of ``slba`` and ``blocks`` of the command's record
- ``error``: status code or type is not 0
"""

_SIDE_COUNTERS = data.StructLayout({"tlps": unsigned(64), "lost_tlps": unsigned(32)})

_COUNTER_BITS: dict[str, int] = {
    "commands": 64,
    "in_flight": 32,
    "malformed": 32,
    "unmatched": 32,
    "lost_commands": 32,
    "lost_queues": 32,
    "lost_pages": 32,
    "lost_records": 32,
    "lost_events": 32,
    "lost_raw": 32,
    "lost_tags": 32,
    "hmb_read_bytes": 64,
    "hmb_written_bytes": 64,
    "hmb_reads": 32,
    "hmb_writes": 32,
    "unmatched_reads": 32,
    "bar0": 64,
    "dstrd": 8,
    "shadow": 1,
    "enabled": 1,
}

COUNTERS = data.StructLayout(dict.fromkeys(SIDES, _SIDE_COUNTERS) | {name: unsigned(bits) for name, bits in _COUNTER_BITS.items()})
"""Counts since power-on, modulo their width; ``in_flight``, ``bar0``, ``dstrd``, ``shadow`` and ``enabled`` (CC.EN) are
the present state. ``down``, ``up``: ``tlps`` and ``lost_tlps`` of each direction."""

SNAPSHOT = data.StructLayout(
    {
        name: unsigned(_COUNTER_BITS[name])
        for name in (
            "commands",
            "in_flight",
            "unmatched",
            "bar0",
            "dstrd",
            "hmb_read_bytes",
            "hmb_written_bytes",
            "hmb_reads",
            "hmb_writes",
            "unmatched_reads",
        )
    }
)
"""Members of :data:`COUNTERS` that the engine counts, as they were at one tick."""
