"""The interfaces of a source of rail samples and of a source of commands for a capture.

Another meter or another tap of the bus implements one of the two protocols here. A :class:`~.writer.CaptureWriter` takes it with
``add_rail_source`` or ``add_command_source``. Both share a clock of ``clock.tick_ps`` picoseconds a tick. Our rig's stream is one
implementation (:mod:`.convert`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .rail import F32

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Accumulator:
    """A meter's own sums over every conversion so far, one value a block, at its end.

    conversions: number of conversions
    energy_low, energy_high: energy in ``energy_raw`` units (docs/capture.md), low part as int64
    """

    conversions: npt.NDArray[np.uint64]
    energy_low: I64
    energy_high: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Ranges:
    """The range in which a meter measured: ``number`` from the sample at ``tick`` on, in order of time.

    settling_nj: additional error of the energy of the samples behind that change (nJ, limit read as k = 2)
    """

    tick: I64
    number: npt.NDArray[np.uint8]
    settling_nj: npt.NDArray[np.uint32]


class RailSource(Protocol):
    """Blocks of samples of the rail, in order of time: one value a block, but one value a sample for voltage and current."""

    @property
    def first_tick(self) -> I64:
        """Tick at which the first sample of the block is centred."""

    @property
    def interval_ticks(self) -> npt.NDArray[np.uint32]:
        """Ticks between two samples; the same in all blocks of a capture, else they are no part of the waveform."""

    @property
    def count(self) -> npt.NDArray[np.uint16]:
        """Samples of the block."""

    @property
    def flags(self) -> npt.NDArray[np.uint16]:
        """:class:`~wattbell_spec.wire.RailFlag`: reasons to doubt the values."""

    @property
    def dropped(self) -> npt.NDArray[np.uint32]:
        """Blocks that the source itself lost before this one."""

    @property
    def voltage_v(self) -> F32:
        """Voltage of every sample, block after block."""

    @property
    def current_a(self) -> F32:
        """The same."""

    @property
    def accumulator(self) -> Accumulator | None:
        """None: energy is then summed from the samples."""

    @property
    def ranges(self) -> Ranges | None:
        """Changes of range since the source before, of a meter that changes its range; None if one error model covers the meter."""


_OF_RANGES = ("tick", "number", "settling_nj")
_MOST_SAMPLES = 1 << 15
"""Most samples of a block of :func:`blocks`: its count has 16 bits."""


@dataclass(frozen=True)
class Samples:
    """Blocks of a source that has nothing but samples, as a :class:`RailSource`. Arrays as described there."""

    first_tick: I64
    interval_ticks: npt.NDArray[np.uint32]
    count: npt.NDArray[np.uint16]
    flags: npt.NDArray[np.uint16]
    dropped: npt.NDArray[np.uint32]
    voltage_v: F32
    current_a: F32
    accumulator: Accumulator | None = None
    ranges: Ranges | None = None


def blocks(
    first_tick: int,
    interval_ticks: int,
    voltage_v: F32,
    current_a: F32,
    *,
    flags: int = 0,
    dropped: int = 0,
    ranges: Ranges | None = None,
) -> Samples:
    """Return consecutive samples from `first_tick` on as a RailSource: float32 V and A of one length above 0.

    flags: apply to all samples
    dropped: blocks that the source itself lost before the first
    """
    starts = np.arange(0, len(current_a), _MOST_SAMPLES, dtype=np.int64)
    count = np.diff(np.append(starts, len(current_a)))
    lost = np.zeros(len(starts), np.uint32)
    lost[0] = dropped
    return Samples(
        first_tick + starts * interval_ticks,
        np.full(len(starts), interval_ticks, np.uint32),
        count.astype(np.uint16),
        np.full(len(starts), flags, np.uint16),
        lost,
        np.ascontiguousarray(voltage_v, np.float32),
        np.ascontiguousarray(current_a, np.float32),
        ranges=ranges,
    )


def together(sources: Sequence[RailSource]) -> RailSource:
    """Join sources without an accumulator, one or more in order of time, into one source with all their blocks.

    The work per source, such as a write to a disk, is then done once.
    """
    if len(sources) == 1:
        return sources[0]
    assert all(source.accumulator is None for source in sources), "only samples"
    changes = [source.ranges for source in sources if source.ranges is not None]
    return Samples(
        np.concatenate([source.first_tick for source in sources]),
        np.concatenate([source.interval_ticks for source in sources]),
        np.concatenate([source.count for source in sources]),
        np.concatenate([source.flags for source in sources]),
        np.concatenate([source.dropped for source in sources]),
        np.concatenate([source.voltage_v for source in sources]),
        np.concatenate([source.current_a for source in sources]),
        ranges=None if not changes else Ranges(*(np.concatenate([getattr(one, name) for one in changes]) for name in _OF_RANGES)),
    )


class CommandSource(Protocol):
    """Commands as they were seen on the bus."""

    def table(self) -> pa.Table:
        """Rows of ``commands.parquet`` (:data:`~.schema.COMMANDS`) in order of their CQE; unseen values are null."""
