"""Which format a file is: by its content, never by its name."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import door
from ..errors import CaptureError, UsageError
from ..nearest import did_you_mean
from .fileformat import FORMATS, FileFormat
from .text import read_head
from .waveform import Waveform, WaveformOptions

_LAYOUT = {ord(c): None for c in "\t\r\n\v\f"}


def detect(path: Path) -> FileFormat:
    """Return the format of a file. Raises CaptureError for an unknown one, with the beginning of the file."""
    head = read_head(path)
    tried = sorted(FORMATS.values(), key=lambda known: known.general)
    found = next((known for known in tried if known.matches(head)), None)
    if found is None:
        if head.raw.startswith(b"PK\x03\x04"):
            raise CaptureError(f"{path} {_zip_words(path)}")
        if _is_old_ppk(head.raw):
            raise CaptureError(
                f"{path} is a recording of the old Power Profiler (.ppk); open it in nRF Connect Power Profiler, and save it as .ppk2 or "
                "export CSV."
            )
        _refuse_zeros(path, head.raw)
        first = next((line for line in head.lines if line.strip()), "") if head.lines else repr(head.raw[:16])
        shown = "".join(c if c.isprintable() else "�" for c in first[:60]) or "nothing but empty lines"
        raise CaptureError(
            f"{path}, line 1: of no format that is known ({', '.join(FORMATS)}), and without rows of numbers; it begins with {shown}. "
            "Export it from the instrument's program as CSV, with a column of times."
        )
    return found


def _refuse_zeros(path: Path, raw: bytes) -> None:
    """Raise CaptureError for a text with zeros in it, as a disk leaves them for blocks unwritten at a power cut."""
    text, zero, _ = raw.partition(b"\0")
    if zero and text.count(b"\n") > 1 and text.decode("utf-8", "replace").replace("\ufffd", "").translate(_LAYOUT).isprintable():
        raise CaptureError(
            f"{path}, line {text.count(bytes([10])) + 1}: a byte of zeros, where the lines before are text; the disk lost a part of the "
            "file. Copy it again. If the zeros are in the original, too, delete the lines that have them."
        )


def _is_old_ppk(raw: bytes) -> bool:
    """Whether a file is raw deflate of a BSON document, as pc-nrfconnect-ppk saved before ``.ppk2`` (``loadFileHandler.ts``)."""
    try:
        begin = zlib.decompressobj(-15).decompress(raw, 5)
    except zlib.error:
        return False
    return len(begin) == 5 and 5 < int.from_bytes(begin[:4], "little") < 1 << 24 and 1 <= begin[4] <= 0x13


def _zip_words(path: Path) -> str:
    """Return words on a ZIP that is no recording here, with advice."""
    try:
        with door.archive(path) as archive:
            inside = set(archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return "is a ZIP, and cut or damaged; copy it again."
    if "[Content_Types].xml" in inside:
        return "is a workbook of a spreadsheet; save its sheet as CSV, and import that."
    if "meta.json" in inside:
        return "is a capture of Saleae Logic; export its analog channels as CSV (File, Export raw data), and import that."
    return "is a ZIP, and neither a sigrok session nor a PPK2 recording; unpack it, and import the recording that is in it."


def open_files(paths: Sequence[Path], options: WaveformOptions, name: str | None = None) -> tuple[FileFormat, Waveform]:
    """Return the waveform of one file (or of one a channel) and its format; `name` forces a format.

    Raises CaptureError with the line for a file that is not understood. Raises UsageError for an unknown `name`, for several files that are
    not channels of one recording, and for options without use for this format or file.
    """
    if name is not None and name not in FORMATS:
        raise UsageError(f"--format {name}: there is no such format; give one of {', '.join(FORMATS)}.{did_you_mean(name, FORMATS)}")
    kinds = {path: FORMATS[name] if name else detect(path) for path in paths}
    different = {kind.name for kind in kinds.values()}
    if len(different) > 1:
        each = ", ".join(f"{path} is {kind.title}" for path, kind in kinds.items())
        raise UsageError(f"these are no channels of one recording: {each}.")
    kind = next(iter(kinds.values()))
    if len(paths) > 1 and not kind.several:
        raise UsageError(f"{kind.title} has all channels in one file: give one, not {len(paths)}.")
    unused = {"rail": "has one rail", "columns": "says itself which column is which", "interval_s": "has times of its own"}
    for field in unused.keys() - kind.takes:
        options.refuse_unused(paths[0], **{field: f"({kind.title}) {unused[field]}"})
    waveform = kind.open_files(paths, options)
    if waveform.about.volts is None:
        options.refuse_unused(paths[0], volts=f"({kind.title}) has a voltage of its own")
    columns = "Is it the right column, and the right unit? Say both with --column ROLE=NAME:UNIT, such as --column current=NAME:mA."
    named = replace(waveform, name=str(paths[0]), advice=columns if "columns" in kind.takes else waveform.advice)
    return kind, named
