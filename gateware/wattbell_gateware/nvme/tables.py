"""Constants of the tracker: numbers of NVMe, kinds of table entries, limits."""

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
MARKER_FID, POWER_FID, HOST_BUFFER_FID = (feature(name) for name in ("marker", "power_management", "host_memory_buffer"))
DSM = io("dsm")
LBA = LBA_OPCODES
CAP, CC, CSTS, AQA, ASQ, ACQ, DOORBELLS = 0x0, 0x14, 0x1C, 0x24, 0x28, 0x30, 0x1000
"""Offsets from BAR0."""

# --- what tables hold ---------------------------------------------------------------------------------------------


class SlotState(enum.Enum, shape=3):
    """State of a command in the slot table."""

    FREE = 0
    ANNOUNCED = 1  # by an SQ tail doorbell
    FETCHING = 2  # the drive's read of the SQE was seen
    IN_FLIGHT = 3  # the SQE is known
    COMPLETED = 4  # the CQE was seen, its CQ head doorbell not yet


class TagKind(enum.Enum, shape=3):
    """Purpose of a read of the drive, by its tag."""

    UNKNOWN = 0  # the read fitted nothing
    SQE = 1
    DATA = 2
    EITHER = 3
    LIST = 4
    RANGES = 5
    SEGMENT = 6  # of a scatter gather list
    BUFFER_LIST = 7  # descriptors of the host memory buffer


class PageKind(py_enum.IntEnum):
    """Content of a page of host memory (page map)."""

    DATA = 0  # data of a command
    EITHER = 1  # data or PRP list: PRP2, or the last entry of a list page
    LIST = 2  # PRP list
    RANGES = 3  # DSM range list
    SQ = 4
    CQ = 5
    IGNORE = 6  # shadow doorbells and event indexes
    DESCRIPTORS = 7  # a segment of a scatter gather list


PINNED = (PageKind.SQ, PageKind.CQ, PageKind.IGNORE)
"""Kinds of entries of the page map that stay until they are taken out."""
DUE_BITS = 23
"""A length of data of 2**DUE_BITS double words (32 MiB) or more counts as unknown."""
METADATA_BITS = 14
"""A buffer for metadata of 2**METADATA_BITS double words or more is not followed."""
LEFT = data.StructLayout({"dws": signed(DUE_BITS + 2), "checked": 1})
"""Double words of data that are due and did not come yet; below 0, and not exact, once more came than were due. ``checked``: the due
length is known."""
NEVER = (1 << 64) - 1
"""A tick that does not come."""


def known(tick: Value) -> Value:
    """Return whether a tick of the slot table was observed: its highest bit is 0, as no tick comes to 2**63 (292 years)."""
    return ~tick[-1]


def less(left: data.View, dws: Value) -> Value:
    """``left.dws`` after a TLP with `dws` of data."""
    return Mux(left.dws < 0, left.dws, left.dws - dws)


HALF_BITS = 14
"""Halves of descriptors (8 bytes) are numbered so that the number behind the last one of a segment is 0; the highest bit is 1 before it."""


def first_half(dws: Value) -> Value:
    """Number of the first half of `dws` double words with descriptors."""
    return (-(dws >> 1))[:HALF_BITS]


# --- limits -------------------------------------------------------------------------------------------------------
ENTRIES = 1024
"""Entries of the tables of hashes, and length of the loop that clears the tables."""
TAGS = 1024
MESSAGES = 64
"""Entries of the table that learns which interrupt message belongs to which vector."""
USED_WORDS = 13
"""Words of an SQE in use: 13 to 15 are not."""
LENT = 32
"""Ranges of the host memory buffer, with its list of descriptors."""
SWEEP_BITS = 22
SWEEP_AGE = 1 << 24
"""Age in ticks at which a completed command without a CQ head doorbell is released; its ``cq_head_after`` would be saturated anyway.
The tracker looks every 2**SWEEP_BITS ticks.
"""
CALM_BITS = 20
"""For 2**CALM_BITS ticks after a loss of TLPs, interrupts without completions teach nothing; neither do they where
there is a queue that is not tracked."""
CROWDED_BITS = 24
"""For 2**CROWDED_BITS ticks after an entry was evicted, commands that use its page get the flag DATA_PARTIAL."""
