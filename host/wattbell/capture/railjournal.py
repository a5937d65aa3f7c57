"""``rail.arrow``: what a meter's recorder has been given, on disk at once, so that a killed recorder loses none of it.

A rig's stream is its own journal (:mod:`.journal`); a meter sends in whatever form it likes, so that its samples are kept as they enter the
capture: an Arrow stream with a row for each block. It is locked while its recorder lives, and goes when the capture is complete. What was
written survives ``kill -9``, but not a power failure.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import CaptureError
from .room import writing
from .source import RailSource, Samples

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


class RailJournal:
    """Appends blocks. Raises CaptureError, here and in :meth:`append`, when the disk refuses a write."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        with writing(self.path):
            self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - closed in close()
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, mode="w"), _SCHEMA)

    def append(self, source: RailSource) -> None:
        """Blocks, in order of time."""
        ends = np.concatenate(([0], np.cumsum(source.count.astype(np.int64)))).astype(np.int32)
        columns = [pa.array(getattr(source, name)) for name in _OF_A_BLOCK]
        columns += [pa.ListArray.from_arrays(pa.array(ends), pa.array(values)) for values in (source.voltage_v, source.current_a)]
        with writing(self.path):
            self._writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))

    def moved_to(self, directory: Path) -> None:
        """The capture's folder was renamed."""
        self.path = directory / NAME

    def close(self, *, remove: bool) -> None:
        """Unlock, and remove unless it is to be kept; idempotent."""
        if self._file.closed:
            return
        if remove:
            self.path.unlink(missing_ok=True)
        self._file.close()


def journalled(directory: Path) -> Iterator[RailSource]:
    """The blocks of a journal whose recorder is dead, up to where it was cut. CaptureError when the recorder is alive, or there is none."""
    path = directory / NAME
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}): nothing can be rebuilt.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CaptureError(f"{directory} is still being recorded (or rebuilt); stop the recorder with Ctrl-C, or wait.") from None
        try:
            reader = pa.ipc.open_stream(file)
            if not reader.schema.equals(_SCHEMA):
                raise CaptureError(f"{path} is of another version of Wattbell: open the capture with the one that recorded it.")
            while True:
                batch = reader.read_next_batch()
                batch.validate(full=True)
                yield _source(batch)
        except (StopIteration, pa.ArrowException, OSError, EOFError):
            return


def _source(batch: pa.RecordBatch) -> Samples:
    single: dict[str, Any] = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in _OF_A_BLOCK}
    # copies: pyjls takes no memory that is for reading only
    several: dict[str, Any] = {name: np.array(batch.column(name).flatten()) for name in ("voltage_v", "current_a")}
    if any(len(values) != int(single["count"].astype(np.int64).sum()) for values in several.values()):
        raise pa.ArrowInvalid("blocks whose counts are not their samples'")
    return Samples(**single, **several)
