"""Where a file of states may send the engine that is not in it, and what must stand then.

Any other state is its file's own, and named by a string there. A subroutine of another file is called by a method of that file's class.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Place"]


class Place(StrEnum):
    """A state that other files go to. What is said to be read is so by the state that goes there: it shows in the next clock."""

    IDLE = "IDLE"
    """engine: nothing is in hand."""
    DISPATCH = "DISPATCH"
    """engine: ``tlp`` is a new one (:meth:`Present.finish` goes here)."""
    DATA = "DATA"
    """engine: so is it, and in the way of data."""
    DONE = "DONE"
    """engine: there is nothing more to do for ``tlp``."""

    CFGWR = "CFGWR"
    """control: a configuration write of the host; ``tlp.first`` is its data."""
    HOST_MRD = "HOST_MRD"
    """control: a read of the host; compared with BAR0 (:meth:`Control.compare`)."""
    HOST_MWR = "HOST_MWR"
    """control: a write of the host; so is it, and ``tlp.first`` is its data."""
    DRIVE_CPLD = "DRIVE_CPLD"
    """control: what the drive answers to a read of the host."""
    CONFIG = "CONFIG"
    """control: a word of late attach, of the tick in ``tlp.header``."""

    DOORBELL = "DOORBELL"
    """doorbells: ``queues`` reads the queue, :class:`Doorbells` was told which; ``tlp.first`` is the value."""
    CQ_DOORBELL = "CQ_DOORBELL"
    """heads: ``queues.cq``, ``qid`` and ``size`` are the queue's, ``slots`` and its ``link`` read the oldest command on it."""
    SWEEP = "SWEEP"
    """heads: ``tlp.header.tick`` is the boundary, the loop's count 0."""

    PAGE_SELECT = "PAGE_SELECT"
    """pages: a read or write of the drive; the ways of the page map were compared (:meth:`Pages.compare`)."""
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
    INTERRUPT = "INTERRUPT"
    """interrupts: a write of one double word into no known page; looked up and compared."""
