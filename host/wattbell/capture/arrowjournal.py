"""A journal as an Arrow stream: a recorder's input, on disk at once, so that a killed recorder loses none.

A record is written whole or not at all by the time :meth:`ArrowJournal.append` returns, and so survives ``kill -9``. The disk has the
record within :data:`~wattbell.durable.SYNC_S`; from then on it survives a power cut. The file is locked while its recorder lives. A free
lock on an unfinished capture means that the recorder died. A reader stops at the first record that is cut or damaged.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from .. import door
from ..durable import Syncer, flush
from ..errors import CaptureError
from ..jsondata import JsonObject
from .room import writing

_TOLD = b"told"


class _Whole:
    """A file as Arrow writes to it: all of a piece or an OSError, also on a disk that is just becoming full."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.closed = False

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self.descriptor, view) :]
        return len(data)

    def flush(self) -> None:
        pass


class ArrowJournal:
    """Appends records. ``about``: text on the whole journal. Raises CaptureError, here and in :meth:`append`, when the disk refuses a
    write.
    """

    def __init__(self, path: Path, schema: pa.Schema, about: Mapping[str, str] | None = None, compression: str | None = None) -> None:
        self.path = path
        with writing(path):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            options = pa.ipc.IpcWriteOptions(compression=compression)
            sink = pa.PythonFile(_Whole(self._fd), mode="w")
            self._schema = schema.with_metadata(dict(about)) if about else schema
            self._writer = pa.ipc.new_stream(sink, self._schema, options=options)
            flush(path.parent)
        self._syncer = Syncer(self._fd)

    def append(self, batch: pa.RecordBatch, told: JsonObject | None = None) -> None:
        """Append a record: rows, and the facts ``told`` beside them."""
        extra = None if told is None else pa.KeyValueMetadata({_TOLD: json.dumps(told).encode()})
        with writing(self.path):
            self._writer.write_batch(batch.replace_schema_metadata(self._schema.metadata), custom_metadata=extra)
            self._syncer.written()

    def moved_to(self, directory: Path) -> None:
        """The capture's folder was renamed."""
        self.path = directory / self.path.name

    def close(self, *, remove: bool) -> None:
        """Unlock, and remove if asked to; idempotent."""
        if self._fd < 0:
            return
        self._syncer.close()
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = -1


def about(path: Path) -> dict[str, str]:
    """Return a journal's text on itself. Raises CaptureError if the journal is missing, or damaged from the beginning."""
    try:
        with door.open_file(path, door.RECORDING) as file:
            return _texts(pa.ipc.open_stream(file).schema.metadata)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise CaptureError(
            f"{path} cannot be read ({(str(error).splitlines() or ['damaged'])[0]}): nothing can be rebuilt from it."
        ) from None


def records(path: Path, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, JsonObject]]:
    """Yield the records of a journal up to its first cut or damage, also during recording. Raises CaptureError when there is no journal."""
    try:
        file = door.open_file(path, door.RECORDING)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}): nothing can be rebuilt.") from None
    with file:
        try:
            reader = pa.ipc.open_stream(file)
        except (pa.ArrowException, OSError, EOFError):
            return
        if not reader.schema.equals(schema):
            raise CaptureError(f"{path} is of another version of Wattbell: open the capture with the one that recorded it.")
        while True:
            try:
                batch, extra = reader.read_next_batch_with_custom_metadata()
                batch.validate(full=True)
                told = json.loads((extra or {}).get(_TOLD, b"{}"))
            except (StopIteration, pa.ArrowException, OSError, EOFError, ValueError):
                return
            yield batch, told


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Nobody else rebuilds from a journal in this block. Raises CaptureError if its recorder is alive, or there is none."""
    try:
        file = door.open_file(path, door.RECORDING)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}): nothing can be rebuilt.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CaptureError(f"{path.parent} is still being recorded (or rebuilt); stop the recorder with Ctrl-C, or wait.") from None
        yield


def _texts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in (metadata or {}).items()}


__all__ = ["ArrowJournal", "about", "held", "records"]
