"""fio's JSON among whatever else is in the file: lines of a wrapper, fio's warnings, its other outputs, several documents.

fio prints its JSON with the other outputs that were asked for (``--output-format=normal,json``), behind its warnings, and once per
``--status-interval``. So the documents are looked for: each is an object with ``jobs``, or with ``client_stats`` (``fio --client``).
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import door
from ..errors import CaptureError

_OBJECT = re.compile(r'\{(?=\s*["}])')
_FIO = re.compile(r'\{\s*"fio version"|"(?:jobs|client_stats)"\s*:')
_NOT_FINITE = re.compile(r'("\s*:\s*)-?(?:nan|inf)(?=\s*[,}\n])')
_MOST_BROKEN = 64
"""Most places that look like the begin of an object and are none; after these the search ends."""
_LOG = re.compile(r"\s*\d+\s*,\s*-?\d+\s*,\s*\d+\s*,\s*\d+")
_NORMAL = re.compile(r"\(g(?:roupid)?=\d+[,)]|^Run status group ", re.MULTILINE)
_TERSE = re.compile(r"^[2-5];fio-", re.MULTILINE)
_JOB_FILE = re.compile(r"\s*(?:[#;][^\n]*\s+)*\[[^\]\n]+\]\s*(?:[#;\n]|$)")


@dataclass(frozen=True)
class FioDocuments:
    """Documents of fio in a file, in its order. ``cut``: whether one that breaks off stands behind them."""

    found: list[dict[str, Any]]
    cut: bool


def documents(path: Path) -> FioDocuments:
    """Return the JSON documents of fio in a file. Raises CaptureError if there are none; the error identifies the file and advises."""
    try:
        raw = door.read_bytes(path, door.DOCUMENT)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None
    # "%f" of C writes nan and inf, which are no JSON; a figure that is used cannot be null
    text = _NOT_FINITE.sub(r"\1null", _text(raw))
    decoder = json.JSONDecoder(strict=False, parse_constant=_no_number)
    found: list[dict[str, Any]] = []
    broken: list[tuple[int, str]] = []
    others: list[str] = []
    at = 0
    while (begin := _OBJECT.search(text, at)) and len(broken) < _MOST_BROKEN:
        try:
            value, at = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError) as error:
            place = error.pos if isinstance(error, json.JSONDecodeError) else begin.start()
            broken.append((begin.start(), _why(text, place, error)))
            at = begin.end()
            continue
        if "jobs" in value or "client_stats" in value:
            found.append(value)
        else:
            others += list(value)[:3]
    # a document that breaks off behind the last whole one, and begins as one of fio's
    cut = [reason for start, reason in broken if _FIO.match(text, start) or (not found and start == broken[0][0])]
    if not found:
        raise CaptureError(f"{path} is not fio JSON{_instead(text, cut, others)}")
    return FioDocuments(found, bool(cut))


def _text(raw: bytes) -> str:
    """Decode a file of fio. A shell on Windows writes a program's output as UTF-16."""
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if raw.startswith(mark):
            return raw[len(mark) :].decode(name, "replace")
    return raw.decode("utf-8-sig", "replace")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _why(text: str, place: int, error: Exception) -> str:
    line = text.count("\n", 0, place) + 1
    if isinstance(error, RecursionError):
        return f"line {line}: nested too deeply"
    in_a_text = isinstance(error, json.JSONDecodeError) and error.msg.startswith("Unterminated string") and "\n" not in text[place:].strip()
    if isinstance(error, json.JSONDecodeError) and (place >= len(text.rstrip()) or in_a_text):
        return f"it breaks off in line {line}: was fio stopped, or its disk full? Run it again"
    return f"line {line}: {error.msg if isinstance(error, json.JSONDecodeError) else error}"


def _instead(text: str, cut: list[str], others: list[str]) -> str:
    """Identify a file without a document of fio's, and say what to do."""
    if cut and _FIO.search(text):
        return f" ({cut[0]})."
    if others:
        keys = ", ".join("".join(c if c.isprintable() else "�" for c in key[:20]) for key in others[:3])
        return f": it is JSON, but has no jobs (it has: {keys}). Give what fio printed with --output-format=json."
    if _LOG.match(text):
        return ": it is one of fio's logs of each I/O. Give it as --trace."
    if _TERSE.search(text):
        return ": it is fio's terse output, which does not say when a job began. Run fio with --output-format=json."
    if _NORMAL.search(text):
        return ": it is fio's output for people, which does not say when a job began. Run fio with --output-format=json."
    if _JOB_FILE.match(text):
        return ": it is a job file. Give what fio printed when it ran it, with --output-format=json."
    if cut:
        return f" ({cut[0]}); run fio with --output-format=json."
    nothing = "it is empty" if not text.strip() else "there is no object with jobs in it"
    return f" ({nothing}); run fio with --output-format=json."
