"""Rows of numbers in text files: read in blocks of bounded size, and every error with its line.

A block is read by Arrow. Only a block that Arrow refuses is read line by line, to drop lines that are no rows, or to report the fault. The
text may be UTF-8, UTF-16 (with or without a byte order mark) or, failing both, Windows-1252.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from .. import door
from ..errors import CaptureError
from .cells import Reader, is_no_reading, tidy, tidy_text, ungrouped
from .ranges import without_sentinels
from .times import TextTimes

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
_BLOCK = 1 << 24
_LONGEST_LINE = 1 << 16
_HEAD = 1 << 16
_SHOWN = 40
_TAIL = 4096
"""Bytes of the rows before a last line without an end. Their numbers tell whether that line is whole."""
_MISSING = ["", "nan", "NaN", "NAN", "-"]
"""Words that Arrow takes for a missing value. A block with other such words (:data:`~.ranges.NO_NUMBER`) is read in another way."""
_UTF16 = 0.8
"""Share of zeros among the bytes of one parity that makes a text without a byte order mark UTF-16."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file, to tell its format: ``raw`` bytes, their ``encoding``, and its lines as text (none where it is not text; the
    last one may be cut)."""

    path: Path
    raw: bytes
    encoding: str
    lines: tuple[str, ...]


def read_head(path: Path) -> Head:
    """The first 64 KiB of a file. Raises CaptureError when it cannot be read or is empty."""
    try:
        if path.is_dir():
            raise CaptureError(f"{path} is a directory; give the file that the instrument's program exported.")
        with door.open_file(path, door.RECORDING) as file:
            raw = file.read(_HEAD)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None
    if not raw:
        raise CaptureError(f"{path} is empty.")
    encoding = encoding_of(raw)
    text = raw.decode(encoding, "replace").removeprefix("\ufeff")
    return Head(path, raw, encoding, tuple(text.splitlines()) if "\0" not in text else ())


def encoding_of(raw: bytes) -> str:
    """Return the encoding of a text by its beginning: ``utf-16-le``, ``utf-16-be``, ``utf-8`` or ``cp1252``; ``utf-8`` if it is no text."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16-le" if raw[:1] == b"\xff" else "utf-16-be"
    begin = raw[:4096]
    zeros = [begin[parity::2].count(0) / max(1, len(begin[parity::2])) for parity in (0, 1)]
    if max(zeros) > _UTF16 and min(zeros) < 1 - _UTF16:
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)  # the last character may be cut
    except UnicodeDecodeError:
        control = set(raw) & (set(range(32)) - {9, 10, 11, 12, 13})
        return "utf-8" if control else "cp1252"
    return "utf-8"


def names(head: Head, delimiter: str = ",") -> list[str]:
    """The fields of the first line, quotes removed; none where the file is not text."""
    return fields(head.lines[0], delimiter) if head.lines else []


def fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line, quotes and outer space removed."""
    if delimiter == " ":
        return line.split()
    return [field.strip().strip('"') for field in next(csv.reader([line], delimiter=delimiter), [])]


@dataclass(frozen=True)
class Rows:
    """Consecutive rows: one float64 array a column; NaN where a field is empty. ``line``: of the first (from 1); ``lines``: of each, where
    lines that are no rows stand between them."""

    line: int
    columns: list[F64]
    lines: I64 | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    def line_of(self, place: int) -> int:
        """The line of a row."""
        return self.line + place if self.lines is None else int(self.lines[place])


@dataclass
class TextColumns:
    """Columns of a text file behind ``skip`` lines of names.

    wanted: their places among ``width``
    remarks: text lines behind the last row, if they are allowed
    timed: a wanted column gives a row's place in time, so that a row without any value is no row
    decimal_comma: numbers have one
    times: the first wanted column holds times as text
    readers: of columns with units or other text in their cells, by place
    thousands: mark between thousands, wherever it may be one; empty if there is none
    foreign: returns whether an unreadable line may be left out; empty lines always are
    skipped: number of lines left out
    skipped_first: the first such line
    """

    path: Path
    wanted: Sequence[int]
    width: int
    delimiter: str = ","
    remarks_allowed: bool = False
    skip: int = 1
    timed: bool = True
    decimal_comma: bool = False
    times: TextTimes | None = None
    readers: Mapping[int, Reader] = field(default_factory=dict)
    thousands: str = ""
    foreign: Callable[[str], bool] | None = None
    remarks: list[str] = field(default_factory=list)
    skipped: int = 0
    skipped_first: str = ""
    unended: bool = False
    """The last line has no end and is left out: a row that is cut within a number looks like a whole one."""

    def rows(self) -> Iterator[Rows]:
        """All rows, in pieces. Raises CaptureError with the line."""
        return (rows for rows in self._pieces(False) if rows is not None)

    def follow(self) -> Iterator[Rows | None]:
        """All rows of a file that grows, in pieces; None whenever there is no more yet. A line counts when its end is there. Never ends;
        raises CaptureError with the line, and when the file is gone, is another one or has become shorter."""
        return self._pieces(True)

    def skipped_words(self) -> list[str]:
        """Return words for the notes on lines left out between the rows; empty if there were none."""
        if not self.skipped:
            return []
        one = self.skipped == 1
        return [f"{self.skipped} line{'' if one else 's'} that {'is' if one else 'are'} no row left out, such as {self.skipped_first!r}"]

    def _pieces(self, follow: bool) -> Iterator[Rows | None]:
        self.remarks.clear()
        self.skipped, self.skipped_first = 0, ""
        self.unended = False
        if self.times is not None:
            self.times = self.times.again()
        line, held, before = 1, b"", b""
        decoder: codecs.IncrementalDecoder | None = None
        first, old_ends = True, False
        try:
            file = door.open_file(self.path, door.LOG)
        except OSError as error:
            raise CaptureError(f"{self.path} cannot be read ({error.strerror}).") from None
        with file:
            while True:
                try:
                    data = file.read(_BLOCK)
                except OSError as error:
                    raise CaptureError(f"{self.path} cannot be read ({error.strerror}).") from None
                if follow and not data:
                    self._refuse_change(file)
                    yield None
                    continue
                ended = not data
                if first:
                    encoding = encoding_of(data[:_HEAD])
                    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)("replace")
                if decoder is not None:
                    data = decoder.decode(data, final=ended).encode()
                if first:
                    data, first = data.removeprefix(b"\xef\xbb\xbf"), False
                    old_ends = b"\r" in data and b"\n" not in data  # of old Macs, and of Excel's "CSV (Macintosh)"
                if old_ends:
                    data = data.replace(b"\r", b"\n")
                end = data.rfind(b"\n") + 1
                if data and not end:
                    held += data
                    if len(held) > _LONGEST_LINE:
                        raise CaptureError(f"{self.path}, line {line}: longer than {_LONGEST_LINE} bytes; this is not a table of numbers.")
                    if not ended:
                        continue
                    data = b""
                block, held = held + (data[:end] if data else b""), data[end:]
                if block and self._is_cut(line, block, before):
                    self.unended = True
                elif block:
                    yield from self._block(line, block)
                    line, before = line + block.count(b"\n"), block[-_TAIL:]
                if ended:
                    return

    def _is_cut(self, line: int, block: bytes, before: bytes) -> bool:
        """Whether a block is a last line without an end that may be cut within a number; text behind the rows is none.

        A number with as many decimals as all numbers above it is whole.
        """
        if block.endswith(b"\n") or line <= self.skip:
            return False
        text = block.decode("utf-8", "replace").strip()
        above = [found for row in before.decode("utf-8", "replace").splitlines()[1:] if (found := self._decimals(row)) is not None]
        if len(above) > 1 and {*above, self._decimals(text)} == {max(above)} != {0}:
            return False
        foreign = self.foreign is not None and self.foreign(text)
        return bool(text) and not foreign and not (self.remarks_allowed and self._is_remark(block))

    def _decimals(self, row: str) -> int | None:
        """Return how many digits the last field of a row has behind the decimal mark; None where that is no plain number."""
        mark = "," if self.decimal_comma else r"\."
        last = row.rpartition(self.delimiter)[2].strip().strip('"')
        found = re.fullmatch(rf"[+-]?\d+(?:{mark}(\d*))?", last)
        return len(found[1] or "") if found and row.count(self.delimiter) == self.width - 1 else None

    def _refuse_change(self, file: BinaryIO) -> None:
        """Raise CaptureError if the path no longer holds the file that was read so far."""
        here = os.fstat(file.fileno())
        try:
            there = os.stat(self.path)
        except OSError as error:
            raise CaptureError(f"{self.path} is gone ({error.strerror}).") from None
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise CaptureError(f"{self.path} was replaced by another file.")
        if there.st_size < file.tell():
            raise CaptureError(f"{self.path} became shorter: from {file.tell()} to {there.st_size} bytes.")

    def _block(self, line: int, block: bytes) -> Iterator[Rows]:
        if line <= self.skip:
            for _ in range(min(self.skip - line + 1, block.count(b"\n") + 1)):
                _, _, block = block.partition(b"\n")
                line += 1
        bare = block.lstrip(b"\r\n")
        line, block = line + block[: len(block) - len(bare)].count(b"\n"), bare
        ended = block.rstrip(b"\r\n")
        block = block[: len(ended) + 2] if block[len(ended) : len(ended) + 2] == b"\r\n" else block[: len(ended) + 1]
        if not block:
            return
        numbers: I64 | None = None
        columns = None if self.remarks else self._try(block)
        if columns is None:
            numbers, block = self._without_foreign(line, block)
            if block and not self.remarks:
                columns = self._try(block)
        if columns is None:
            assert numbers is not None
            numbers, block = self._without_remarks(numbers, block)
            if not block:
                return
            try:
                columns = self._read(block)
            except (pa.ArrowInvalid, ValueError) as error:
                raise CaptureError(f"{self.path}, at line {numbers[0]} or after it: {str(error).splitlines()[0]}.") from None
        if len(columns[0]) != block.count(b"\n") + (not block.endswith(b"\n")):
            raise CaptureError(f"{self.path}, at line {line} or after it: a field with a line end in it; write the file without quotes.")
        if self.timed and (empty := np.all([np.isnan(column) for column in columns], axis=0)).any():
            numbers = (np.arange(line, line + len(empty)) if numbers is None else numbers)[~empty]
            columns = [column[~empty] for column in columns]
        if len(columns[0]):
            yield Rows(line if numbers is None else int(numbers[0]), columns, numbers)

    def _try(self, block: bytes) -> list[F64] | None:
        """The columns; None if a line is none of numbers."""
        for read in (self._read, self._read_words):
            try:
                return read(block)
            except ValueError:  # of Arrow, of a decoder, of a reader of texts
                continue
        return None

    def _is_text(self, place: int) -> bool:
        return place in self.readers or (self.times is not None and place == self.wanted[0])

    def _read(self, block: bytes) -> list[F64]:
        """Raises ValueError (ArrowInvalid and UnicodeDecodeError are such errors)."""
        table = self._parsed(block, {self._name(i): pa.string() if self._is_text(i) else pa.float64() for i in self.wanted})
        return [self._column(table, i) if self._is_text(i) else _numbers(table.column(self._name(i))) for i in self.wanted]

    def _column(self, table: pa.Table, place: int) -> F64:
        """Raises ValueError."""
        column = table.column(self._name(place))
        return self.readers[place](column.combine_chunks()) if place in self.readers else self._seconds(column)

    def _read_words(self, block: bytes) -> list[F64]:
        """Read a block with other words for a missing number, or with marks between thousands. Raises ValueError."""
        table = self._parsed(block, {self._name(i): pa.string() for i in self.wanted})
        found = []
        for place in self.wanted:
            if self._is_text(place):
                found.append(self._column(table, place))
                continue
            text = ungrouped(tidy(table.column(self._name(place)).combine_chunks()), self.thousands, decimal_comma=self.decimal_comma)
            found.append(_numbers(pc.cast(text, pa.float64())))
        return found

    @staticmethod
    def _name(place: int) -> str:
        return f"c{place}"

    def _seconds(self, column: pa.ChunkedArray) -> F64:
        """Return the times of a text column in s. Raises ValueError, and CaptureError for dates with two meanings."""
        assert self.times is not None
        try:
            return self.times.seconds(column.combine_chunks())
        except CaptureError as error:
            raise CaptureError(f"{self.path}: {error}.") from None

    def _parsed(self, block: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        """Raises ArrowInvalid."""
        if b"\0" in block:
            raise pa.ArrowInvalid("NUL")
        if self.delimiter == " ":
            block = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", block)
            block = re.sub(rb"[ \t]+", b" ", block)
        return pcsv.read_csv(
            io.BytesIO(block),
            read_options=pcsv.ReadOptions(
                column_names=[self._name(i) for i in range(self.width)], use_threads=False, block_size=max(len(block) + 1, 1 << 10)
            ),
            parse_options=pcsv.ParseOptions(delimiter=self.delimiter, ignore_empty_lines=False),
            convert_options=pcsv.ConvertOptions(
                column_types=types,
                include_columns=list(dict.fromkeys(types)),
                null_values=_MISSING,
                strings_can_be_null=True,
                decimal_point="," if self.decimal_comma else ".",
            ),
        )

    def _without_foreign(self, line: int, block: bytes) -> tuple[I64, bytes]:
        """(number of each line, the lines) without those that are no rows of the table, which are counted."""
        numbers, kept = [], []
        for number, raw in enumerate(_lines(block), line):
            text = raw.decode("utf-8", "replace").strip()
            if not text and self.width > 1:
                continue
            if text and self.foreign is not None and self.foreign(text) and self._wrong(raw) is not None:
                self.skipped += 1
                self.skipped_first = self.skipped_first or _printable(text)
                continue
            numbers.append(number)
            kept.append(raw)
        return np.array(numbers, np.int64), b"".join(raw + b"\n" for raw in kept)

    def _without_remarks(self, numbers: I64, block: bytes) -> tuple[I64, bytes]:
        """The lines up to the first that is no row. Raises CaptureError unless all that follows is text (a remark of the program)."""
        lines = _lines(block)
        for place, raw in enumerate(lines):
            wrong = self._wrong(raw)
            if wrong is None and not self.remarks:
                continue
            at = int(numbers[place])
            if not self.remarks_allowed or not self._is_remark(raw):
                raise CaptureError(f"{self.path}, line {at}: {wrong or 'numbers behind a line of text'}.")
            for number, behind in zip(numbers[place:].tolist(), lines[place:], strict=True):
                if not self._is_remark(behind):
                    raise CaptureError(f"{self.path}, line {number}: numbers behind a line of text ({self.remarks[0][:_SHOWN]}).")
                self.remarks.append(behind.decode("utf-8", "replace").strip())
                if len(self.remarks) > 100:
                    raise CaptureError(f"{self.path}, line {number}: more text than remarks behind the last row.")
            return numbers[:place], b"".join(raw + b"\n" for raw in lines[:place])
        return numbers, block

    def _is_remark(self, raw: bytes) -> bool:
        cells = [cell.strip().strip('"') for cell in raw.decode("utf-8", "replace").split(self.delimiter)]
        first = next((cell for cell in cells if cell), "")
        words = bool(first) and first[0].isalpha() and _number(first) is None
        return words and (bool(cells[0]) or not any(_number(cell) is not None for cell in cells))

    def _wrong(self, raw: bytes) -> str | None:
        """Return the fault of a line; None without a fault."""
        if b"\0" in raw:
            return "a byte of zeros; this is not a text file, or the disk lost a part of it"
        try:
            text = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            return f"byte {raw[error.start]:#04x} is not UTF-8; convert the file (iconv -f LATIN1 -t UTF-8)"
        if not text.strip():
            return "empty"
        found = fields(text, " ") if self.delimiter == " " else next(csv.reader([text], delimiter=self.delimiter), [])
        for place in self.wanted:
            value = tidy_text(found[place]) if place < len(found) else ""
            if is_no_reading(value):
                continue
            if place in self.readers:
                try:
                    self.readers[place](pa.array([value]))
                except ValueError as error:
                    return _printable(str(error))
                continue
            if self.times is not None and place == self.wanted[0]:
                try:
                    self.times.again().seconds(pa.array([value]))
                except ValueError:
                    return f"{_printable(value)} is no time like {_printable(self.times.first)}"
                continue
            try:
                number = _number(ungrouped(pa.array([value]), self.thousands, decimal_comma=self.decimal_comma)[0].as_py())
            except ValueError:
                if _number(value) is not None:
                    return f"{_printable(value)} has a decimal point, and the rows before it have decimal commas"
                number = None
            if number is None:
                if self.delimiter != "," and "," in value and _number(value.replace(",", ".")) is not None:
                    return f"{value[:_SHOWN]} has a decimal comma; write the file with decimal points (LC_ALL=C)"
                return f"{_printable(value)} is not a number"
        if len(found) != self.width:
            return f"{len(found)} of {self.width} columns"
        return None


def header(path: Path, delimiter: str = ",") -> tuple[str, list[str]]:
    """The first line of a text file and its fields. Raises CaptureError when it is empty or no text."""
    head = read_head(path)
    text = head.lines[0] if head.lines else ""
    if "\ufffd" in text or not head.lines:
        raise CaptureError(f"{path}, line 1: this is no text.")
    return text, fields(text, delimiter)


def _numbers(column: pa.ChunkedArray | pa.Array) -> F64:
    return without_sentinels(np.asarray(column.to_numpy(zero_copy_only=False), np.float64))


def _lines(block: bytes) -> list[bytes]:
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN])
