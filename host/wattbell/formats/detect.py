"""Which format a file is: by its content, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CaptureError, UsageError
from ..nearest import did_you_mean
from . import jls, joulescope, otii, plain, powersensor3, ppk2, quarch, sigrok
from .text import Head, read_head
from .waveform import Options, Waveform


@dataclass(frozen=True)
class Format:
    """A format: what ``--format`` calls it, whether a file looks like it, and what opens files of it. ``several``: one file a channel;
    ``takes``: fields of :class:`Options` that it has a use for, besides the voltage."""

    name: str
    title: str
    matches: Callable[[Head], bool]
    open_files: Callable[[Sequence[Path], Options], Waveform]
    several: bool = False
    takes: frozenset[str] = frozenset()


_MODULES = (jls, sigrok, joulescope, quarch, ppk2, powersensor3, otii, plain)
"""The plain CSV comes last: some of the others look like one."""
FORMATS = {m.NAME: Format(m.NAME, m.TITLE, m.matches, m.open_files, m is otii, m.TAKES) for m in _MODULES}


def detect(path: Path) -> Format:
    """The format of a file. Raises CaptureError for one that is unknown, with what it begins with."""
    head = read_head(path)
    found = next((known for known in FORMATS.values() if known.matches(head)), None)
    if found is None:
        if head.raw[:2] in (b"\xff\xfe", b"\xfe\xff") or head.raw[1:2] == b"\0":
            raise CaptureError(f"{path}, line 1: the file is UTF-16; convert it (iconv -f UTF-16 -t UTF-8).")
        shown = "".join(c if c.isprintable() else "�" for c in (head.lines[0] if head.lines else repr(head.raw[:16]))[:60])
        raise CaptureError(
            f"{path}, line 1: of no format that is known ({', '.join(FORMATS)}); it begins with {shown}. "
            "If it is CSV, say which column is which: --format csv --column time=NAME:s --column current=NAME:A."
        )
    return found


def open_files(paths: Sequence[Path], options: Options, name: str | None = None) -> tuple[Format, Waveform]:
    """The waveform of one file (or of one a channel) and its format; `name` forces one.

    Raises CaptureError where it is not understood, with the line, and UsageError for an unknown `name` or several files that are not
    channels of one, and for options that this format or this file has no use for.
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
    return kind, waveform
