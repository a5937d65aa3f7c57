"""Rows of numbers in text files: read in blocks of bounded size, and every error with its line.

A block is read by Arrow; only a block that it refuses is looked at line by line, to say what is wrong.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pcsv

from ..errors import CaptureError

F64 = npt.NDArray[np.float64]
_BLOCK = 1 << 24
_LONGEST_LINE = 1 << 16
_HEAD = 1 << 16
_SHOWN = 40
_MISSING = ["", "nan", "NaN", "NAN", "-"]
"""What stands for a value that was not measured."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file, to tell its format: ``raw`` bytes, and its first lines as text (none where it is not text)."""

    path: Path
    raw: bytes
    lines: tuple[str, ...]


def read_head(path: Path) -> Head:
    """The first 64 KiB of a file. Raises CaptureError when it cannot be read or is empty."""
    try:
        if path.is_dir():
            raise CaptureError(f"{path} is a directory; give the file that the instrument's program exported.")
        with open(path, "rb") as file:
            raw = file.read(_HEAD)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None
    if not raw:
        raise CaptureError(f"{path} is empty.")
    text = raw.decode("utf-8-sig", "replace") if b"\0" not in raw else ""
    return Head(path, raw, tuple(text.splitlines()[:20]))


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
    """Consecutive rows: ``line`` of the first (from 1), one float64 array a column; NaN where a field is empty."""

    line: int
    columns: list[F64]

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass
class Table:
    """Columns of a text file behind ``skip`` lines of names. ``wanted``: their places among ``width``. ``remarks``: text lines behind the
    last row, where they are allowed."""

    path: Path
    wanted: Sequence[int]
    width: int
    delimiter: str = ","
    remarks_allowed: bool = False
    skip: int = 1
    remarks: list[str] = field(default_factory=list)
    unended: bool = False
    """The last line has no end: the file may be cut."""

    def rows(self) -> Iterator[Rows]:
        """All rows, in pieces. Raises CaptureError with the line."""
        return (rows for rows in self._pieces(False) if rows is not None)

    def follow(self) -> Iterator[Rows | None]:
        """All rows of a file that grows, in pieces; None whenever there is no more yet. A line counts when its end is there. Never ends;
        raises CaptureError with the line, and when the file is gone, is another one or has become shorter."""
        return self._pieces(True)

    def _pieces(self, follow: bool) -> Iterator[Rows | None]:
        self.remarks.clear()
        line, held, first = 1, b"", True
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - closed below, in the generator's own end
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
                if first:
                    _refuse_encoding(self.path, data)
                    data, first = data.removeprefix(b"\xef\xbb\xbf"), False
                end = data.rfind(b"\n") + 1
                if data and not end:
                    held += data
                    if len(held) > _LONGEST_LINE:
                        raise CaptureError(f"{self.path}, line {line}: longer than {_LONGEST_LINE} bytes; this is not a table of numbers.")
                    continue
                block, held = held + (data[:end] if data else b""), data[end:]
                if block:
                    self.unended = not block.endswith(b"\n")
                    lines = block.count(b"\n") + self.unended
                    yield from self._block(line, block)
                    line += lines
                if not data:
                    return

    def _refuse_change(self, file: BinaryIO) -> None:
        """Raises CaptureError when what stands at the path is not the file any more that was read so far."""
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
        if self.remarks:
            block = self._without_remarks(line, block)
        try:
            columns = self._read(block)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            columns = None
        if columns is None:
            block = self._without_remarks(line, block)
            if not block:
                return
            try:
                columns = self._read(block)
            except pa.ArrowInvalid as error:
                raise CaptureError(f"{self.path}, at line {line} or after it: {str(error).splitlines()[0]}.") from None
        if len(columns[0]) != block.count(b"\n") + (not block.endswith(b"\n")):
            raise CaptureError(f"{self.path}, at line {line} or after it: a field with a line end in it; write the file without quotes.")
        yield Rows(line, columns)

    def _read(self, block: bytes) -> list[F64]:
        """Raises ArrowInvalid."""
        every = [f"c{i}" for i in range(self.width)]
        wanted = [every[i] for i in self.wanted]
        if b"\0" in block:
            raise pa.ArrowInvalid("NUL")
        table = pcsv.read_csv(
            io.BytesIO(block),
            read_options=pcsv.ReadOptions(column_names=every, use_threads=False, block_size=max(len(block) + 1, 1 << 10)),
            parse_options=pcsv.ParseOptions(delimiter=self.delimiter, ignore_empty_lines=False),
            convert_options=pcsv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.float64()), include_columns=wanted, null_values=_MISSING, strings_can_be_null=True
            ),
        )
        return [np.asarray(table.column(name).to_numpy(), np.float64) for name in wanted]

    def _without_remarks(self, line: int, block: bytes) -> bytes:
        """The block up to the first line that is no row. Raises CaptureError unless all that follows is text (a remark of the program)."""
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for number, raw in enumerate(lines):
            wrong = self._wrong(raw)
            if wrong is None and not self.remarks:
                continue
            at = line + number
            if not self.remarks_allowed or not (self._is_remark(raw) or (self.remarks and not raw.strip())):
                last = number == len(lines) - 1 and self.unended
                cut = " The file seems to be cut there: delete that line to import what is before it." if last else ""
                raise CaptureError(f"{self.path}, line {at}: {wrong or 'numbers behind a line of text'}.{cut}")
            self.remarks.append(raw.decode("utf-8", "replace").strip())
            if len(self.remarks) > 100:
                raise CaptureError(f"{self.path}, line {at}: more text than remarks behind the last row.")
            rest = lines[number + 1 :]
            for extra, behind in enumerate(rest):
                if behind.strip() and not self._is_remark(behind):
                    raise CaptureError(f"{self.path}, line {at + 1 + extra}: numbers behind a line of text ({self.remarks[0][:_SHOWN]}).")
                if behind.strip():
                    self.remarks.append(behind.decode("utf-8", "replace").strip())
            return b"".join(raw + b"\n" for raw in lines[:number])
        return block

    def _is_remark(self, raw: bytes) -> bool:
        first = raw.decode("utf-8", "replace").split(self.delimiter)[0].strip().strip('"')
        return bool(first) and first[0].isalpha() and _number(first) is None

    def _wrong(self, raw: bytes) -> str | None:
        """What is wrong with a line; None if nothing is."""
        if b"\0" in raw:
            return "a byte of zeros; this is not a text file, or the disk lost a part of it"
        try:
            text = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            return f"byte {raw[error.start]:#04x} is not UTF-8; convert the file (iconv -f LATIN1 -t UTF-8)"
        if not text.strip():
            return "empty"
        found = next(csv.reader([text], delimiter=self.delimiter), [])
        for place in self.wanted:
            value = found[place].strip() if place < len(found) else ""
            if value and value not in _MISSING and _number(value) is None:
                if self.delimiter != "," and "," in value and _number(value.replace(",", ".")) is not None:
                    return f"{value[:_SHOWN]} has a decimal comma; write the file with decimal points (LC_ALL=C)"
                return f"{_printable(value)} is not a number"
        if len(found) != self.width:
            return f"{len(found)} of {self.width} columns"
        return None


def header(path: Path, delimiter: str = ",") -> tuple[str, list[str]]:
    """The first line of a text file and its fields. Raises CaptureError when it is empty or not UTF-8."""
    head = read_head(path)
    _refuse_encoding(path, head.raw)
    raw = head.raw.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].rstrip(b"\r")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CaptureError(
            f"{path}, line 1: byte {raw[error.start]:#04x} is not UTF-8; convert the file (iconv -f LATIN1 -t UTF-8)."
        ) from None
    return text, fields(text, delimiter)


def _refuse_encoding(path: Path, raw: bytes) -> None:
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or raw[1:2] == b"\0":
        raise CaptureError(f"{path}, line 1: the file is UTF-16; convert it (iconv -f UTF-16 -t UTF-8).")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN])
