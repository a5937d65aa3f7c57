"""Constants of the tracker: what it has to know of NVMe, what its tables hold, its limits."""

from __future__ import annotations

import enum as py_enum

from amaranth.hdl import Mux, Value, signed
from amaranth.lib import data, enum
from wattbell_spec.nvme import LBA_OPCODES, admin, feature, io

# --- NVMe ---------------------------------------------------------------------------------------------------------
IDENTIFY, SET_FEATURES, GET_FEATURES = admin("identify"), admin("set_features"), admin("get_features")
DOORBELL_BUFFER_CONFIG = admin("doorbell_buffer_config")
CREATE_SQ, CREATE_CQ, DELETE_SQ, DELETE_CQ = (admin(name) for name in ("create_io_sq", "create_io_cq", "delete_io_sq", "delete_io_cq"))
FORMAT_NVM, NAMESPACE_MANAGEMENT = admin("format_nvm"), admin("namespace_management")
MARKER_FID, POWER_FID = feature("marker"), feature("power_management")
DSM = io("dsm")
LBA = LBA_OPCODES
CAP, CC, AQA, ASQ, ACQ, DOORBELLS = 0x0, 0x14, 0x24, 0x28, 0x30, 0x1000
"""Offsets from BAR0."""

# --- what tables hold ---------------------------------------------------------------------------------------------


class SlotState(enum.Enum, shape=3):
    """Of a command in the slot table."""

    FREE = 0
    ANNOUNCED = 1  # by an SQ tail doorbell
    FETCHING = 2  # the drive's read of the SQE was seen
    IN_FLIGHT = 3  # the SQE is known
    COMPLETED = 4  # the CQE was seen, its CQ head doorbell not yet


class TagKind(enum.Enum, shape=3):
    """What a read of the drive, of this tag, asked for."""

    UNKNOWN = 0  # the read fitted nothing
    SQE = 1
    DATA = 2
    EITHER = 3
    LIST = 4
    RANGES = 5


class PageKind(py_enum.IntEnum):
    """What a page of host memory is known to hold (page map)."""

    DATA = 0  # data of a command
    EITHER = 1  # data or PRP list: PRP2, or the last entry of a list page
    LIST = 2  # PRP list
    RANGES = 3  # DSM range list
    SQ = 4
    CQ = 5
    IGNORE = 6  # shadow doorbells and event indexes


PINNED = (PageKind.SQ, PageKind.CQ, PageKind.IGNORE)
"""Kinds of entries of the page map that stay until they are taken out."""
DUE_BITS = 23
"""A length of data of 2**DUE_BITS double words (32 MiB) or more counts as unknown."""
LEFT = data.StructLayout({"dws": signed(DUE_BITS + 2), "checked": 1})
"""Double words of data that are due and did not come yet; below 0, and not exact, once more came than were due. ``checked``: the due
length is known."""
NEVER = (1 << 64) - 1
"""A tick that does not come."""


def known(tick: Value) -> Value:
    """Of a tick in the slot table, which was observed if this bit is not set: no tick comes to 2**63 (292 years)."""
    return ~tick[-1]


def less(left: data.View, dws: Value) -> Value:
    """``left.dws`` after a TLP with `dws` of data."""
    return Mux(left.dws < 0, left.dws, left.dws - dws)


# --- limits -------------------------------------------------------------------------------------------------------
ENTRIES = 1024
"""Of the tables of hashes, and the length of the loop that clears the tables."""
TAGS = 1024
MESSAGES = 64
"""Entries of the table that learns which interrupt message belongs to which vector."""
USED_WORDS = 13
"""Of an SQE: words 13 to 15 are of no use here."""
SWEEP_BITS = 22
SWEEP_AGE = 1 << 24
"""Completed commands whose CQ head doorbell does not come are released at this age (ticks), looked for every
2**SWEEP_BITS ticks: then their ``cq_head_after`` would be saturated anyway."""
CALM_BITS = 20
"""For 2**CALM_BITS ticks after a loss of TLPs, interrupts without completions teach nothing; neither do they where
there is a queue that is not tracked."""
CROWDED_BITS = 24
"""For 2**CROWDED_BITS ticks after an entry was evicted, commands that use its page get the flag DATA_PARTIAL."""
