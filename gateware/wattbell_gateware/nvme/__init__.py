"""The NVMe tracker: two TLP streams in, one record a command out, with no configuration.

``NvmeTracker(width, ticks_per_clock, queues=64, slots=1024)`` is a ``wiring.Component``; one clock domain, ``sync``.

=================== === ============================================================================================
port                dir meaning
=================== === ============================================================================================
``tlp_down``        in  stream of :func:`~wattbell_gateware.layouts.tlp_beat`, always ready: host to drive
``tlp_up``          in  the same, drive to host
``pending_down``    in  1: a TLP that began at ``pending_tick_down`` is still to come at ``tlp_down`` (a link layer holds it).
                        It may fall when the TLP's first beat has been there
``pending_up``      in  1: the same, drive to host
``now``             in  64: the tick counter. Beats carry ticks <= ``now``
``perst_n``         in  1: level of PERST#; when low everything tracked is flushed and forgotten, BAR0 too
``unlinked``        in  1: the link is in Detect; when this rises, everything tracked is flushed and forgotten
``run``             in  1: while 0 the tracker keeps following the bus, but what TLPs of that time complete makes no record, event or
                        raw TLP
``kept``            in  1: while 0 what is made is counted, and goes no further
``snapshot``        in  1: each change asks for the counters as they are at this tick, whenever the tracker comes to it
``snapshot_counters`` out ``SNAPSHOT``: those, some time later
``commands``        out stream of ``COMMAND``: ``spec.COMMAND`` with the absolute ``cqe_tick`` (64) for ``cqe_offset``
``commands_done``   out ``DONE_BITS``: low bits of the tick of what completed the record (of raw TLPs it is the tick they carry)
``events``          out stream of ``EVENT``: ``spec.EVENT``. All event types but LINK, CLKREQ, PERST, RUN, LOSS
``events_done``     out ``DONE_BITS``: as of a record: a MARKER in the SQE carries its doorbell's tick, and is known from the SQE's fetch on
``loss_events``     out the same: LOSS of the sources TLP_DOWN, TLP_UP, SLOTS, QUEUES, PAGES, RECORDS, RAW, TAGS, EVENTS (up to here)
``raw``             out stream of ``RAW``: words of TLPs that carry Identify data
``cfg``             in  stream of ``CONFIG``: late attach
``counters``        out ``COUNTERS``
``completed``       out 1, for a clock: ``completion`` (``COMPLETION``) is a command at its CQE, a few clocks late, whatever ``run`` is
``completion``      out
``busy``            out 1: work is pending that proceeds by clocks. When 0, nothing changes until an input changes or
                        ``now`` reaches ``deadline``. Output streams waiting for ``ready`` do not make it busy
``deadline``        out 64: the next internal timer, all ones when there is none
``skip_down``       out 1: between two beats of a TLP: the beats up to the last one are not looked at
``skip_up``         out 1
=================== === ============================================================================================

Overflow behind the tracker: the FIFO of records (512) is inside; when it is full, records are dropped and counted in
``counters.lost_records``, which is the count the block packer puts into ``dropped`` (as a difference). The same holds
for ``lost_events`` and ``lost_raw``.
"""

from .layouts import COMMAND, COMPLETION, CONFIG, COUNTERS, DONE_BITS, EVENT, RAW, SNAPSHOT, ConfigOp
from .pagemap import FULL_SIZE, MapSizes
from .tracker import NvmeTracker

__all__ = [
    "COMMAND", "COMPLETION", "CONFIG", "COUNTERS", "DONE_BITS", "EVENT", "FULL_SIZE", "RAW", "SNAPSHOT", "ConfigOp", "MapSizes",
    "NvmeTracker",
]  # fmt: skip
