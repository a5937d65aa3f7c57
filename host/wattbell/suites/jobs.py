"""fio job files: reading their sections, and making smaller ones of them (``--scale``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import UsageError
from .units import size_bytes, time_s

MIN_BLOCKS = 16
"""A scaled size or amount is at least this many blocks."""
MIN_RUNTIME_S = 2e-3
_SECTION = re.compile(r"\[([^\]]+)\]")


@dataclass(frozen=True)
class Section:
    """One job: its name and its options, the globals before it taken in."""

    name: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """``iodepth``; 1 without one."""
        return int(self.options.get("iodepth", "1"))

    @property
    def write_share(self) -> float:
        """Share of writes, 0 to 1."""
        rw = self.options.get("rw", "read")
        if rw in ("rw", "randrw", "readwrite"):
            if "rwmixwrite" in self.options:
                return int(self.options["rwmixwrite"]) / 100
            return 1 - int(self.options.get("rwmixread", "50")) / 100
        return 1.0 if "write" in rw else 0.0


def sections(text: str) -> list[Section]:
    """The jobs of a job file, in order. UsageError when it has none or a size makes no sense."""
    options: dict[str, str] = {}
    found: list[Section] = []
    current = options
    for name, key, value in _lines(text):
        if name == "global":
            current = options
        elif name is not None:
            found.append(Section(name, dict(options)))
            current = found[-1].options
        else:
            current[key] = value
    if not found:
        raise UsageError("The job file has no job: a job is a [section] other than [global].")
    return found


def _lines(text: str) -> Iterator[tuple[str | None, str, str]]:
    """(section, "", "") for a header, (None, key, value) for an option."""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        header = _SECTION.fullmatch(line)
        if header:
            yield header[1], "", ""
        else:
            key, _, value = line.partition("=")
            yield None, key.strip(), value.strip() or "1"


def scaled(text: str, scale: float, capacity_bytes: int) -> str:
    """The job file with sizes, amounts, offsets and run times times ``scale``; text unchanged at 1.

    Shares of the drive (``size=75%``) become bytes of ``capacity_bytes``. Sizes stay multiples of the largest block and
    at least ``MIN_BLOCKS`` of it, run times at least ``MIN_RUNTIME_S``. Numbers of jobs, block sizes, depths and mixes stay.
    """
    if scale == 1:
        return text
    blocks = [size_bytes(s.options.get("bs", "4k").split(",")[0]) for s in sections(text)]
    block = max(blocks)
    out = [f"; Scaled by {scale:g}: not the published test."]
    for raw in text.splitlines():
        key, separator, value = raw.partition("=")
        if separator and key.strip() in ("size", "io_size", "offset"):
            whole = _bytes(value.strip(), capacity_bytes)
            least = 0 if key.strip() == "offset" else MIN_BLOCKS * block
            out.append(f"{key.strip()}={max(least, int(whole * scale) // block * block)}")
        elif separator and key.strip() == "runtime":
            out.append(f"runtime={round(max(MIN_RUNTIME_S, time_s(value) * scale) * 1e6)}us")
        else:
            out.append(raw)
    return "\n".join(out) + "\n"


def _bytes(text: str, capacity_bytes: int) -> int:
    if text.endswith("%"):
        return capacity_bytes * int(text[:-1]) // 100
    return size_bytes(text)
