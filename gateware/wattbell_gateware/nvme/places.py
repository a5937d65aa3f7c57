"""States to which other files may send the engine, with their preconditions.

A file names all other states by strings of its own. A method of a file's class calls the file's subroutines.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Place"]


class Place(StrEnum):
    """A state that other files go to. The caller reads the named tables, so they show in the state's first clock."""

    IDLE = "IDLE"
    """dispatch: nothing is in hand."""
    DISPATCH = "DISPATCH"
    """dispatch: ``tlp`` is a new one (:meth:`Present.finish` goes here)."""
    DATA = "DATA"
    """dispatch: ``tlp`` is a new one, in the way of data."""
    DONE = "DONE"
    """dispatch: there is nothing more to do for ``tlp``."""

    CFGWR = "CFGWR"
    """control: a configuration write of the host; ``tlp.first`` is its data."""
    CFGRD = "CFGRD"
    """messages: a configuration read of the host."""
    CFGRD_DATA = "CFGRD_DATA"
    """messages: the answer to such a read; ``tlp.word`` is its data."""
    CFGWR_MESSAGE = "CFGWR_MESSAGE"
    """messages: a configuration write of another register than BAR0; ``tlp.first`` is its data."""
    MESSAGE_TABLE = "MESSAGE_TABLE"
    """messages: a write into the MSI-X table; compared with that (:meth:`Messages.compare`)."""
    FLR = "FLR"
    """control: the host wrote Initiate Function Level Reset."""
    D3HOT = "D3HOT"
    """control: the host moved the function from D3hot to D0, which resets the function."""
    HOST_MRD = "HOST_MRD"
    """control: a read of the host; compared with BAR0 (:meth:`Control.compare`)."""
    HOST_MWR = "HOST_MWR"
    """control: a write of the host, compared with BAR0; ``tlp.first`` is its data."""
    DRIVE_CPLD = "DRIVE_CPLD"
    """control: the drive's answer to a read of the host."""
    CONFIG = "CONFIG"
    """control: a word of late attach, of the tick in ``tlp.header``."""

    DOORBELL = "DOORBELL"
    """doorbells: ``queues`` reads the queue that :class:`Doorbells` got; ``tlp.first`` is the value."""
    OVERRUN = "OVERRUN"
    """control: an SQ doorbell passes entries that the drive was not seen to read."""
    DOORBELL_NEXT = "DOORBELL_NEXT"
    """control: done with a double word of a write to doorbells, and there is another one (``tlp.more``)."""
    CQ_DOORBELL = "CQ_DOORBELL"
    """heads: ``queues.cq``, ``qid`` and ``size`` are the queue's, ``slots`` and its ``link`` read the oldest command on it."""
    SWEEP = "SWEEP"
    """heads: ``tlp.header.tick`` is the boundary, the loop's count 0."""

    PAGE_SELECT = "PAGE_SELECT"
    """pages: a read or write of the drive; the ways of the page map were compared (:meth:`Pages.compare`)."""
    HOST_BUFFER = "HOST_BUFFER"
    """hostbuffer: a read or write of the drive in no page of the map, while memory is lent."""
    PAGE_MISSED = "PAGE_MISSED"
    """pages: a read or write of the drive, in no page of the map and not in the host memory buffer."""
    COMPLETION = "COMPLETION"
    """pages: data for the drive; ``tags.present`` is the entry of its tag, ``tlp.word`` its first word."""
    CPL = "CPL"
    """pages: a completion without data for the drive; ``tags.present`` is the entry of its tag."""

    FETCH = "FETCH"
    """fetch: a read in a page of SQ ``queues.qid``, which ``queues`` reads."""
    TAG_UNKNOWN = "TAG_UNKNOWN"
    """fetch: a read of the drive that fits nothing."""
    CQE = "CQE"
    """completions: a write in a page of CQ ``completions.qid``, which ``queues`` reads; the entry's words 2 and 3 were taken."""
    CQE_NEXT = "CQE_NEXT"
    """completions: done with a CQE; ``queues.cq`` and ``size`` are its queue's."""
    ADMIN_DONE = "ADMIN_DONE"
    """admin: the command in ``completions.done`` succeeded; ``queues.cq`` is of CQ ``completions.qid``."""
    WIRE = "WIRE"
    """interrupts: Assert_INTA or Deassert_INTA."""
    INTERRUPT = "INTERRUPT"
    """interrupts: a write of one double word into no known page; looked up and compared."""
