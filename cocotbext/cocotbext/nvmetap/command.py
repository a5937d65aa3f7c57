"""The record of one NVMe command, and the reasons for doubt about its instants."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Doubt(enum.Enum):
    """Reason why an instant or a field of a :class:`Command` is not certain."""

    NO_DOORBELL = "the SQE came before any doorbell for its slot"
    SHADOW_DOORBELL = "the host uses shadow doorbells; a doorbell write may be absent"
    PREFETCHED = "the only read of the SQE was before the doorbell"
    FETCHED_TWICE = "the drive read the SQE more than once after its doorbell; the first read counts"
    QUEUE_MEMORY = "the SQ is in the controller's memory: no fetch is on the link"
    CONTROLLER_MEMORY = "data, metadata or a list is in the controller's memory: it is not on the link"
    SQE_UNSEEN = "the SQE was not seen: opcode and data are unknown"
    STRIDE_ASSUMED = "CAP was not read: the doorbell stride is taken as 4 bytes"
    LENGTH_UNKNOWN = "the data length is unknown: the namespace's format or the opcode is"
    SHARED_BUFFER = "another command in flight uses the same host memory"
    LIST_UNSEEN = "the drive read no PRP list or SGL segment where one must be"
    DATA_INCOMPLETE = "less data than the command's length was on the link"
    DATA_POISONED = "a data TLP was poisoned"
    DATA_SPLIT_DIRECTION = "the opcode moves data both ways"
    INTERRUPT_GUESSED = "the interrupt message could be another vector's"
    INTERRUPT_UNKNOWN = "messages that may be this command's interrupt were not understood"
    CID_REUSED = "the CID was in flight already"
    SQID_WRONG = "the CQE names another SQ; the CID alone tells the command"
    NOT_COMPLETED = "no CQE was seen: reset, deleted queue, or end of the observation"
    HEAD_UNSEEN = "no CQ head doorbell was seen before reset, deletion or end"
    RESET_UNSEEN = "the controller began anew without a reset on the link"
    TLPS_MISSED = "the source missed TLPs while the command was in flight"


@dataclass(slots=True)
class Command:
    """One NVMe command as the link showed it. An instant is the first symbol's time of its TLP in ps, None where no TLP showed it."""

    function: int
    """Bus, device and function number of the controller."""
    sqid: int
    cid: int
    opcode: int | None
    nsid: int | None
    slba: int | None
    """Starting LBA of commands with a range of blocks; of DSM the first range's."""
    blocks: int | None
    """Number of blocks; of DSM the sum of its ranges."""
    status: int | None
    """Status field of the CQE without the phase tag: 0 is success. None without CQE."""
    doorbell_ps: int | None
    fetch_ps: int | None
    """Read request that brought the SQE."""
    first_data_ps: int | None
    """First data TLP; of data from host to drive, the first completion."""
    last_data_ps: int | None
    cqe_ps: int | None
    interrupt_ps: int | None
    head_ps: int | None
    """CQ head doorbell that released the CQE."""
    data_bytes: int = 0
    """Data and metadata on the link."""
    sgl: bool | None = None
    """Whether SGLs describe the data."""
    queue_depth: int | None = None
    """Commands of its SQ in flight at its fetch, with itself."""
    doubts: tuple[Doubt, ...] = ()
    mean_w: float | None = None
    """Mean power of the drive from fetch to CQE in W, with all that it does meanwhile. None without a rail, or without both instants."""
