"""What a source of rail samples or of commands gives to become part of a capture.

Another meter or another tap of the bus is one of the two protocols here, and a :class:`~.writer.CaptureWriter` takes it
(``add_rail_source``, ``add_command_source``), on a clock of ``clock.tick_ps`` picoseconds a tick that both share. Our rig's stream is one
implementation (:mod:`.convert`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .rail import F32

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Accumulator:
    """A meter's own sums over every conversion so far, one value a block, at its end: the number of conversions, and the energy in
    ``energy_raw`` units (docs/capture.md) as a low (int64) and a high part."""

    conversions: npt.NDArray[np.uint64]
    energy_low: I64
    energy_high: npt.NDArray[np.int32]


class RailSource(Protocol):
    """Blocks of samples of the rail, in order of time: one value a block, but one value a sample for voltage and current."""

    @property
    def first_tick(self) -> I64:
        """At which the first sample of the block is centred."""

    @property
    def interval_ticks(self) -> npt.NDArray[np.uint32]:
        """Between two samples; the same in all blocks of a capture, else they are no part of the waveform."""

    @property
    def count(self) -> npt.NDArray[np.uint16]:
        """Samples of the block."""

    @property
    def flags(self) -> npt.NDArray[np.uint16]:
        """:class:`~wattbell_spec.wire.RailFlag`: what makes its values doubtful."""

    @property
    def dropped(self) -> npt.NDArray[np.uint32]:
        """Blocks that the source itself lost before this one."""

    @property
    def voltage_v(self) -> F32:
        """Of every sample, block after block."""

    @property
    def current_a(self) -> F32:
        """The same."""

    @property
    def accumulator(self) -> Accumulator | None:
        """None: energy is then summed from the samples."""


class CommandSource(Protocol):
    """Commands as they were seen on the bus."""

    def table(self) -> pa.Table:
        """Rows of ``commands.parquet`` (:data:`~.schema.COMMANDS`) in order of their CQE; null is what was not seen."""
