"""The one door for files from outside: every reader of a file that somebody else may have made comes through it.

The door checks the kind of the file (a plain file, also behind links; opening waits for nobody). It checks the size: a limit for each kind
of file, and no gigabytes of holes. Of Parquet files and ZIP archives it also checks that their own tables of contents are possible. The
door refuses by :class:`FileRefused`, an OSError: readers of files handle both in one place, with the file's name and advice. A test
(tests/host/test_door.py) walks the package for readers that pass by the door.
"""

from __future__ import annotations

import errno
import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_DENSE_BYTES = 1 << 30
_MOST_HOLES = 1000
"""A larger file than ``_DENSE_BYTES`` has at least a byte on the disk for so many of its length. File systems that compress reach less."""
_FEW_ROWS, _ROWS_PER_BYTE = 1 << 24, 1000
"""More rows than ``_FEW_ROWS`` must be paid for in bytes; the best packed table of a capture has some 100 rows a byte."""
_MOST_GROUP_ROWS = 1 << 27
_MOST_FOOTER_BYTES = 1 << 28
_MOST_ENTRIES = 100_000
_FEW_BYTES, _MOST_PACKED = 1 << 26, 2000
"""Deflate packs 1032 to 1 at best; a file that claims more was not made by it."""


@dataclass(frozen=True)
class FileKind:
    """The expected kind of a file. ``name``: with its article; ``most_bytes``: the size above which the file is of another kind."""

    name: str
    most_bytes: int


SETTINGS = FileKind("a file of settings", 1 << 24)
"""Manifests, plans, profiles, job files, identity data, lists of runs."""
DOCUMENT = FileKind("a JSON document", 1 << 28)
"""Results and fio's output, which are held in memory."""
TRACE = FileKind("a trace", 1 << 32)
"""A trace of commands, held in memory to be made into a plan."""
SERIES = FileKind("a time series", 1 << 30)
LOG = FileKind("a log or a table of text", 1 << 40)
"""Read in pieces; the CSV of an instrument may have weeks."""
RECORDING = FileKind("a recording", 1 << 43)
"""A waveform, a journal, or a table of a capture."""
STORE = FileKind("a results store", 1 << 40)


class FileRefused(OSError):
    """A file that the door does not let in. ``strerror`` is the reason and the advice."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(errno.EINVAL, reason, os.fspath(path))

    def __str__(self) -> str:
        return str(self.strerror)


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def _size(number: int) -> str:
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if number >= 1 << shift:
            return f"{number / (1 << shift):.3g} {unit}"
    return f"{number} bytes"


def _judge(path: str | os.PathLike[str], found: os.stat_result, kind: FileKind) -> None:
    """Raises FileRefused, or IsADirectoryError as the kernel does."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(found.st_mode):
        what = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise FileRefused(path, f"it is {what}, not a plain file; save its content as a file first")
    if found.st_size > kind.most_bytes:
        raise FileRefused(
            path, f"it has {_size(found.st_size)}, and {kind.name} has {_size(kind.most_bytes)} at most; is it the right file?"
        )
    if found.st_size > _DENSE_BYTES and found.st_blocks * 512 < found.st_size // _MOST_HOLES:
        raise FileRefused(
            path,
            f"it has {_size(found.st_size)}, of which the disk holds {_size(found.st_blocks * 512)}: the rest are holes; copy it again",
        )


def check(path: str | os.PathLike[str], kind: FileKind) -> Path:
    """The path again, for a library that opens files itself. Raises OSError."""
    with open_file(path, kind):
        return Path(path)


def open_file(path: str | os.PathLike[str], kind: FileKind, *, follow: bool = True) -> BufferedReader:
    """Open a plain file to read its bytes. ``follow``: through a link too. Raises OSError."""
    # the kernel waits for nobody with O_NONBLOCK; a node that is no file is looked at before it is opened, as opening can act on a device
    if follow:
        _judge(path, os.stat(path), kind)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        _judge(path, os.fstat(descriptor), kind)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: str | os.PathLike[str], kind: FileKind) -> bytes:
    """All bytes of a plain file; of one that grows meanwhile no more than its kind may have. Raises OSError."""
    data = b""
    with open_file(path, kind) as file:
        # read() reserves the requested size, and a recording may have terabytes
        while piece := file.read(min(os.fstat(file.fileno()).st_size + 1, kind.most_bytes + 1 - len(data))):
            data += piece
    if len(data) > kind.most_bytes:
        raise FileRefused(path, f"it has more than the {_size(kind.most_bytes)} of {kind.name}; is it the right file?")
    return data


def read_text(path: str | os.PathLike[str], kind: FileKind, errors: str = "strict") -> str:
    """All text of a plain UTF-8 file, with line ends as ``\\n``. Raises OSError and UnicodeDecodeError."""
    text = read_bytes(path, kind).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


# -- Parquet ---------------------------------------------------------------------------------------------------------


def parquet_metadata(path: str | os.PathLike[str]) -> pq.FileMetaData:
    """Return the metadata of a Parquet file, if it is possible. Raises OSError and ArrowException."""
    with parquet_file(path) as file:
        return file.metadata


@contextmanager
def parquet_file(path: str | os.PathLike[str]) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for reading, if its footer is possible. Raises OSError and ArrowException."""
    import pyarrow.parquet as pq

    with open_file(path, RECORDING) as source:
        _judge_footer(source, path)
        try:
            file = pq.ParquetFile(source)
            _ = file.schema_arrow
            judge_parquet(file.metadata, os.fstat(source.fileno()).st_size, path)
        except (ValueError, LookupError, OverflowError) as error:  # Arrow decodes some fields only when they are asked for
            raise FileRefused(path, f"damaged: its footer cannot be read ({error})") from None
        with file:
            yield file


def parquet_table(path: str | os.PathLike[str], columns: list[str] | None = None) -> pa.Table:
    """Return all rows of a Parquet file, if its footer is possible. Raises OSError and ArrowException."""
    with parquet_file(path) as file:
        return file.read(columns)


def check_parquet(path: str | os.PathLike[str]) -> Path:
    """The path again, for a library that reads Parquet itself. Raises OSError and ArrowException."""
    with parquet_file(path):
        return Path(path)


def _judge_footer(source: BufferedReader, path: str | os.PathLike[str]) -> None:
    """Check the last 8 bytes: the length of the footer, and the magic. Arrow would reserve memory for the stated length."""
    size = source.seek(0, os.SEEK_END)
    if size >= 12:
        source.seek(-8, os.SEEK_END)
        length = int.from_bytes(source.read(4), "little")
        if length > min(size - 12, _MOST_FOOTER_BYTES):
            raise FileRefused(path, f"damaged: its footer says {length} bytes of {size}")
    source.seek(0)


def judge_parquet(found: pq.FileMetaData, size: int, path: str | os.PathLike[str]) -> None:
    """Whether the numbers of a footer are possible in a file of ``size`` bytes. Raises FileRefused."""
    groups = [found.row_group(i) for i in range(found.num_row_groups)]
    rows = [group.num_rows for group in groups]
    if min(rows, default=0) < 0 or sum(rows) != found.num_rows:
        raise FileRefused(path, f"damaged: its footer says {found.num_rows} rows, and its row groups {sum(rows)}")
    if found.num_rows > max(_FEW_ROWS, _ROWS_PER_BYTE * size) or max(rows, default=0) > _MOST_GROUP_ROWS:
        raise FileRefused(path, f"damaged: its footer says {found.num_rows} rows in {size} bytes")
    for group in groups:
        for i in range(group.num_columns):
            column = group.column(i)
            name, told = column.path_in_schema, column.statistics
            if told is not None and told.has_min_max:
                _ = told.min, told.max  # Arrow decodes them only now, and the readers take them for granted
            begin = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            packed, whole = column.total_compressed_size, column.total_uncompressed_size
            if min(begin or 0, packed, whole) < 0 or (begin or 0) + packed > size or column.num_values < 0:
                raise FileRefused(path, f"damaged: its footer places column {name} outside the file")
            if whole > _FEW_BYTES and whole > _ROWS_PER_BYTE * 32 * packed:
                raise FileRefused(path, f"damaged: its footer unpacks {packed} bytes of column {name} to {whole}")


# -- ZIP -------------------------------------------------------------------------------------------------------------


@contextmanager
def archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP archive, if its table of contents is possible. Raises OSError and the errors of :mod:`zipfile`."""
    with open_file(path, RECORDING) as source, zipfile.ZipFile(source) as found:
        entries = found.infolist()
        if len(entries) > _MOST_ENTRIES:
            raise FileRefused(path, f"it has {len(entries)} files in it, and a recording has {_MOST_ENTRIES} at most")
        for entry in entries:
            if entry.file_size > _FEW_BYTES and entry.file_size > _MOST_PACKED * entry.compress_size:
                raise FileRefused(
                    path, f"damaged: {entry.filename[:60]} in it unpacks {entry.compress_size} bytes to {_size(entry.file_size)}"
                )
        if len({entry.header_offset for entry in entries}) < len(entries):
            raise FileRefused(path, "damaged: files in it lie upon one another")
        yield found
