"""The register map, as data. The register file, docs/registers.md and the Rust constants are generated from it.

The bus is 32 bits wide with word addresses. The rig's control process (on a board: its firmware) is its only user; the
host speaks SCPI to that process. The controller's own registers, at 80h..FFh, are in :mod:`.controller_registers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from .link_events import DEFAULT_EVENTS, LinkEvent
from .units import CURRENT_LSB_NA, GAIN_FRACTION_BITS, VOLTAGE_LSB_UV

__all__ = ["MAP", "VERSION", "Access", "Bits", "Register", "by_name", "numbered"]

VERSION = (0, 3, 0)
"""Version of the gateware, including its register map and ports: major, minor, patch."""
ID = int.from_bytes(b"WBEL", "little")

_V_GAIN = round(5 / 2**18 / (VOLTAGE_LSB_UV * 1e-6) * (1 << GAIN_FRACTION_BITS))
_I_GAIN = round(4.096 / 2**17 / (CURRENT_LSB_NA * 1e-9) * (1 << GAIN_FRACTION_BITS))
_FINE = 36
"""Gain of the fine current path relative to the coarse one."""


_LINK_EVENTS = {
    LinkEvent.STATE: "LINK_STATE",
    LinkEvent.LANES: "LINK_LANES",
    LinkEvent.SPEED: "LINK_SPEED",
    LinkEvent.ACK: "DLLP: Ack",
    LinkEvent.NAK: "DLLP: Nak",
    LinkEvent.POWER: "DLLP: power management",
    LinkEvent.FLOW_CONTROL_INIT: "DLLP: InitFC1, InitFC2",
    LinkEvent.DUPLICATE: "LINK_TLP: DUPLICATE",
    LinkEvent.LOST: "LINK_TLP: GAP",
    LinkEvent.RECOVERED: "LINK_TLP: RECOVERED",
    LinkEvent.NULLIFIED: "LINK_TLP: NULLIFIED",
    LinkEvent.BAD_LCRC: "LINK_TLP: BAD_LCRC",
    LinkEvent.BAD_FRAME: "LINK_TLP: BAD_FRAME",
    LinkEvent.NO_ROOM: "LINK_TLP: NO_ROOM",
    LinkEvent.FAULTS: "LINK_FAULTS",
    LinkEvent.BLOCK_FAULTS: "BLOCK_FAULTS",
    LinkEvent.RATE: "LINK_RATE",
    LinkEvent.LOCK: "LINK_LOCK",
}
"""Kind of a link event -> the stream event it becomes."""


class Access(Enum):
    """Access to a register.

    RW holds the written value. RO shows a value. A write to WO has an effect; it reads as 0. The controller's registers have two
    more kinds. TAKE: a read consumes the shown value. W1C: latched bits, cleared by writing 1.
    """

    RW = "read/write"
    RO = "read"
    WO = "write"
    TAKE = "read, takes"
    W1C = "read/write 1 to clear"


@dataclass(frozen=True)
class Bits:
    """A named bit field of a register, from bit ``low``, ``width`` bits."""

    name: str
    low: int
    width: int
    doc: str


@dataclass(frozen=True)
class Register:
    """One 32-bit word of the map; ``width`` bits are implemented, the others read 0 and ignore writes."""

    name: str
    address: int
    width: int
    access: Access
    reset: int
    doc: str
    bits: tuple[Bits, ...] = field(default=())


def numbered(start: int, access: Access, rows: list[tuple[str, int, int, str]]) -> Iterator[Register]:
    """Registers at consecutive addresses from ``start``; a row is name, width, reset, doc."""
    for k, (name, width, reset, doc) in enumerate(rows):
        yield Register(name, start + k, width, access, reset, doc)


MAP: tuple[Register, ...] = (
    Register("ID", 0x00, 32, Access.RO, ID, "the bytes `WBEL`"),
    Register("VERSION", 0x01, 32, Access.RO, 0, "gateware version: major 31:16, minor 15:8, patch 7:0"),
    Register(
        "BUILD",
        0x02,
        32,
        Access.RO,
        0,
        "what was built",
        (
            Bits("CLOCK_TICKS", 0, 8, "ticks per clock cycle"),
            Bits("TLP_WIDTH", 8, 8, "TLP datapath width in bytes"),
            Bits("SERIAL_ADC", 16, 1, "1: serial ADC front end, 0: word front end"),
            Bits("LANES", 17, 1, "1: taps the lanes of the link (LINK registers, LINK blocks), 0: is fed TLPs"),
            Bits("FINE", 18, 1, "1: the board has a fine current path (RANGE, F_OFFSET, F_GAIN), 0: one current path"),
        ),
    ),
    Register(
        "CONTROL",
        0x03,
        32,
        Access.RW,
        0,
        "what the rig does",
        (Bits("RUN", 0, 1, "capture: 0 to 1 starts, 1 to 0 stops (and flushes everything)"),),
    ),
    Register(
        "COMMAND",
        0x04,
        32,
        Access.WO,
        0,
        "each bit written 1 does something once",
        (
            Bits("TRACKER_RESET", 0, 1, "forget all queues and commands in flight"),
            Bits("STATUS", 1, 1, "send a STATUS block now (while capturing)"),
            Bits("RAIL_APPLY", 2, 1, "apply the RAIL registers 10h..1Ah, all together, at the next conversion"),
            Bits("ATTACH", 3, 1, "pass the fact in the ATTACH registers to the tracker; not while STATE.ATTACH_BUSY"),
        ),
    ),
    Register(
        "STATE",
        0x05,
        32,
        Access.RO,
        0,
        "what the rig is doing",
        (
            Bits("RUNNING", 0, 1, "capturing, or still sending after a stop"),
            Bits("STOPPING", 1, 1, "stop was requested, data is still being sent"),
            Bits("RAIL_PENDING", 2, 1, "RAIL_APPLY has not taken effect yet (it does so at a conversion)"),
            Bits("ATTACH_BUSY", 3, 1, "the tracker may not yet have accepted the last ATTACH or TRACKER_RESET: for a fixed time after it"),
        ),
    ),
    Register("NOW_LO", 0x06, 32, Access.RO, 0, "tick counter, bits 31:0"),
    Register("NOW_HI", 0x07, 32, Access.RO, 0, "tick counter, bits 63:32 (read HI, LO, HI until HI agrees)"),
    Register("MARKER", 0x08, 32, Access.WO, 0, "makes a MARKER event with this value, source CONTROL"),
    Register("RUN_ID", 0x09, 32, Access.RW, 0, "identifier of the next run, for the header of its blocks; sampled when CONTROL.RUN rises"),
    *numbered(
        0x10,
        Access.RW,
        [
            (
                "ADC_PERIOD",
                20,
                0,
                "clock cycles between conversions. Reset: 1 us. Less than 640 ns counts as 640 ns. "
                "ADC_PERIOD x ticks per cycle x DECIMATION must stay below 2^32",
            ),
            ("DECIMATION", 13, 1, "conversions per sample, R: 1..4096"),
            ("DECIM_MUL", 25, 1 << 23, "round(2^(23 + DECIM_SHIFT) / R^3)"),
            ("DECIM_SHIFT", 6, 0, "ceil(3 log2 R)"),
            ("V_OFFSET", 28, 0, "voltage code at 0 V, in 1/256 code, two's complement"),
            ("V_GAIN", 32, _V_GAIN, f"units of {VOLTAGE_LSB_UV} uV per code, times 2^24"),
            ("I_OFFSET", 28, 0, "current code at 0 A, in 1/256 code, two's complement"),
            ("I_GAIN", 32, _I_GAIN, f"units of {CURRENT_LSB_NA} nA per code, times 2^24"),
            ("F_OFFSET", 28, 0, "as I_OFFSET, for the fine path; FINE only"),
            ("F_GAIN", 32, round(_I_GAIN / _FINE), f"as I_GAIN, for the fine path; FINE only. Reset: 1/{_FINE} of the coarse path's"),
            ("RANGE", 2, 0, "current path: 0 both, merged conversion by conversion; 1 coarse only; 2 fine only. FINE only"),
        ],
    ),
    *numbered(
        0x20,
        Access.RW,
        [
            (
                "ATTACH_OP",
                3,
                0,
                "late attach, kind of fact: 0 BAR0 (ADDRESS), 1 doorbell stride CAP.DSTRD (SIZE), 2 page size "
                "CC.MPS (SIZE), 3 submission queue (QID, ADDRESS, SIZE entries, LINK its CQ), 4 completion "
                "queue (QID, ADDRESS, SIZE, LINK its vector), 5 shadow doorbells in use (SIZE 1). Completion "
                "queues before the submission queues that use them",
            ),
            ("ATTACH_QID", 8, 0, "late attach: queue identifier"),
            ("ATTACH_LINK", 16, 0, "late attach: see ATTACH_OP"),
            ("ATTACH_SIZE", 32, 0, "late attach: see ATTACH_OP"),
            ("ATTACH_ADDRESS_LO", 32, 0, "late attach: address bits 31:0"),
            ("ATTACH_ADDRESS_HI", 32, 0, "late attach: address bits 63:32"),
        ],
    ),
    Register(
        "LINK_EVENTS",
        0x28,
        len(LinkEvent),
        Access.RW,
        DEFAULT_EVENTS,
        "link events sent in the stream; LANES only",
        tuple(Bits(kind.name, kind.value, 1, doc) for kind, doc in _LINK_EVENTS.items()),
    ),
    *(
        Register(
            f"LINK_SET_{name}",
            address,
            14,
            Access.RW,
            0,
            f"late attach, direction {which}: what link training, which the tap "
            "missed, would have told. A write applies what POLARITY_NEW and LANES_NEW select; LANES only",
            (
                Bits("POLARITY", 0, 4, "wires with inverted polarity, one bit each"),
                Bits("ACTIVE", 4, 4, "wires in use"),
                Bits("REVERSE", 8, 1, "lane 0 is on the last wire"),
                Bits("UNSCRAMBLED", 9, 1, "scrambling is disabled"),
                Bits("WIDTH", 10, 2, "log2 of the number of wires in use"),
                Bits("POLARITY_NEW", 12, 1, "apply POLARITY"),
                Bits("LANES_NEW", 13, 1, "apply ACTIVE, REVERSE, UNSCRAMBLED, WIDTH"),
            ),
        )
        for name, address, which in (("DOWN", 0x29, "host to drive"), ("UP", 0x2A, "drive to host"))
    ),
    *numbered(
        0x30,
        Access.RO,
        [
            ("TLPS_DOWN", 32, 0, "TLPs host to drive, low 32 bits"),
            ("TLPS_UP", 32, 0, "TLPs drive to host, low 32 bits"),
            ("COMMANDS", 32, 0, "command records produced, low 32 bits"),
            ("IN_FLIGHT", 32, 0, "commands in flight"),
            ("LOST_RECORDS", 32, 0, "command records lost after the tracker"),
            ("LOST_EVENTS", 32, 0, "events lost"),
            ("LOST_SAMPLES", 32, 0, "rail samples lost"),
            ("BLOCKS", 32, 0, "blocks sent: the sequence number of the next one"),
        ],
    ),
)


def by_name(name: str) -> Register:
    """The register called ``name``; :class:`KeyError` when there is none."""
    for register in MAP:
        if register.name == name:
            return register
    raise KeyError(name)
