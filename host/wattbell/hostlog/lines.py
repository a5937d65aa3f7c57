"""Lines of a text log, with their numbers; every way in which a file is no text gets one error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .. import door
from ..errors import CaptureError

_LONGEST = 1 << 16
_SHOWN = 60


def numbered(path: Path, *, damaged: bool = False, cut: list[str] | None = None) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line without its end).

    damaged: bytes that are no UTF-8 become U+FFFD, for formats with lines by others
    cut: takes a note on the last line if that has no end; it is not yielded then, since a number that is cut looks like a whole one

    Raises CaptureError if the file cannot be read, is UTF-16, or, unless ``damaged``, is no UTF-8 text, with the line.
    """
    number = 0
    try:
        with door.open_file(path, door.LOG) as file:
            while raw := file.readline(_LONGEST):
                number += 1
                if cut is not None and not raw.endswith(b"\n") and len(raw) < _LONGEST and raw.strip():
                    text = shown(raw.decode("utf-8", "replace"))
                    cut.append(f"line {number}, the last one, has no end and is left out, as it may be cut: {text}")
                    continue
                if number == 1 and (raw[:2] in (b"\xff\xfe", b"\xfe\xff") or raw[1:2] == b"\0"):
                    raise CaptureError(f"{path}, line 1: the file is UTF-16; convert it (iconv -f UTF-16 -t UTF-8).")
                if damaged:
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n")
                    continue
                if b"\0" in raw:
                    raise CaptureError(f"{path}, line {number}: a byte of zeros; this is not a text log, or it was cut.")
                if len(raw) == _LONGEST:
                    raise CaptureError(f"{path}, line {number}: longer than {_LONGEST} bytes; this is not a text log.")
                try:
                    yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise CaptureError(f"{path}, line {number}: byte {raw[error.start]:#04x} is not UTF-8; is this a text log?") from None
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None


def shown(text: str) -> str:
    """Return as much of a line as an error message has room for, without control characters."""
    text = text.strip()
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")


def whole(text: str, where: str, most: int = (1 << 63) - 1) -> int:
    """A whole number from 0 to ``most``. CaptureError beginning with ``where``."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most:
        return int(text)
    raise CaptureError(f"{where}: {shown(text)} is not a whole number from 0 to {most}.")
