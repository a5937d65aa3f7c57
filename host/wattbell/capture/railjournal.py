"""``rail.arrow``: the input of a meter's recorder, on disk at once, so that a killed recorder loses none.

A rig's stream is its own journal (:mod:`.journal`). A meter sends in any form, so its samples are kept as they enter the capture. Each
block is a row of a journal (:mod:`.arrowjournal`), which is deleted when the capture is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .arrowjournal import ArrowJournal, records
from .source import RailSource, Ranges, Samples

NAME = "rail.arrow"
_SCHEMA = pa.schema(
    [
        ("first_tick", pa.int64()),
        ("interval_ticks", pa.uint32()),
        ("count", pa.uint16()),
        ("flags", pa.uint16()),
        ("dropped", pa.uint32()),
        ("voltage_v", pa.list_(pa.float32())),
        ("current_a", pa.list_(pa.float32())),
    ]
)
_OF_A_BLOCK = [field.name for field in _SCHEMA if not pa.types.is_list(field.type)]


class RailJournal(ArrowJournal):
    """Journal of the blocks of a meter."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / NAME, _SCHEMA)

    def add(self, source: RailSource) -> None:
        """Blocks, in order of time."""
        ends = np.concatenate(([0], np.cumsum(source.count.astype(np.int64)))).astype(np.int32)
        columns = [pa.array(getattr(source, name)) for name in _OF_A_BLOCK]
        columns += [pa.ListArray.from_arrays(pa.array(ends), pa.array(values)) for values in (source.voltage_v, source.current_a)]
        ranges = source.ranges
        told = None if ranges is None else {"ranges": [ranges.tick.tolist(), ranges.number.tolist(), ranges.settling_nj.tolist()]}
        self.append(pa.record_batch(columns, schema=_SCHEMA), told)


def journalled(directory: Path) -> Iterator[RailSource]:
    """The blocks of a journal, up to where it was cut. Raises CaptureError when there is none."""
    for batch, told in records(directory / NAME, _SCHEMA):
        single: dict[str, Any] = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in _OF_A_BLOCK}
        # copies: pyjls takes no memory that is for reading only
        several: dict[str, Any] = {name: np.array(batch.column(name).flatten()) for name in ("voltage_v", "current_a")}
        if any(len(values) != int(single["count"].astype(np.int64).sum()) for values in several.values()):
            return  # counts that differ from the number of samples: damaged
        ranges = None
        if told.get("ranges"):
            kinds = (np.int64, np.uint8, np.uint32)
            ranges = Ranges(*(np.array(values, kind) for values, kind in zip(told["ranges"], kinds, strict=True)))
        yield Samples(**single, **several, ranges=ranges)
