"""The NVMe tracker: two TLP streams in, one record a command out, with no configuration.

:class:`NvmeTracker` lists the ports; ``sync`` is its only clock domain.

The queue of records is inside. When it is full, records are dropped and counted in ``counters.lost_records``. The block packer puts
this count into ``dropped``, as a difference. The same holds for ``lost_events`` and ``lost_raw``.
"""

from .layouts import COMMAND, COMPLETION, CONFIG, COUNTERS, DONE_BITS, EVENT, RAW, SNAPSHOT, ConfigOp
from .pagemap import FULL_SIZE, MapSizes
from .tracker import NvmeTracker

__all__ = [
    "COMMAND",
    "COMPLETION",
    "CONFIG",
    "COUNTERS",
    "DONE_BITS",
    "EVENT",
    "FULL_SIZE",
    "RAW",
    "SNAPSHOT",
    "ConfigOp",
    "MapSizes",
    "NvmeTracker",
]
