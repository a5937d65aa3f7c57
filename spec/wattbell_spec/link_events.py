"""Kinds of events that a link layer of the tap reports inside the gateware; also the bits of the register LINK_EVENTS."""

from __future__ import annotations

from enum import IntEnum


class LinkEvent(IntEnum):
    """Kind of an event, and its argument."""

    STATE = 0  # 3:0 the new .ltssm.State
    LANES = 1  # .ltssm.LANES_IN_USE
    SPEED = 2  # 7:0 rates offered by the training sequences that request the change (bit 1: 2.5 GT/s, 2: 5, 3: 8)
    ACK = 3  # 11:0 sequence number
    NAK = 4  # 11:0 sequence number
    POWER = 5  # 7:0 type of the PM DLLP (PCIe Base 2.1, table 3-1)
    FLOW_CONTROL_INIT = 6  # the DLLP's bytes, type in 7:0: InitFC1 or InitFC2
    DUPLICATE = 7  # 11:0 sequence number of a replayed TLP that had already been delivered
    LOST = 8  # 11:0 sequence number of a TLP before which 22:12 are missing
    RECOVERED = 9  # 11:0 sequence number of a TLP that had counted as lost and was delivered from a replay
    NULLIFIED = 10  # 11:0 sequence number as received
    BAD_LCRC = 11  # 11:0 sequence number as received
    BAD_FRAME = 12  # 11:0 sequence number as received, of a TLP that arrived in part
    NO_ROOM = 13  # 11:0 sequence number of a good TLP that could not be kept; 22:12 missing before it
    FAULTS = 14  # .framer.FAULTS without `stray`: at 2.5 and 5 GT/s
    TLP = 15  # 11:0 sequence number of a TLP that arrived whole for the first time; for .acks.AckTimer
    BLOCK_FAULTS = 16  # .block_receiver.BLOCK_EVENTS: at 8 GT/s
    RATE = 17  # 1:0 the rate received from here on (0, 1, 2: 2.5, 5, 8 GT/s)
    LOCK = 18  # 3:0 wires in lock, 4 lanes deskewed; changed, up to 256 cycles ago if it had changed before


DEFAULT_EVENTS = (1 << len(LinkEvent)) - 1 & ~(1 << LinkEvent.ACK | 1 << LinkEvent.TLP)
"""Bit n: events of kind n are sent. Acks are left out, being as frequent as TLPs; their times are in the LINK blocks."""
