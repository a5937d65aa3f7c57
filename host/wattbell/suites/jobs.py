"""fio job files: reading their sections, and scaling them down (``--scale``).

A suite may come from anybody, and fio runs as root. So its job files may set the options in ``OPTIONS`` and nothing else. fio can write any
file (``filename``, ``write_bw_log``) and load any library (``ioengine=external:``). It can also run any command (``exec_prerun``, and
expressions, which it gives to a shell). So each option and the form of its value are allowed by name.

This is a list of harmless options, not of understood ones. The drive model reads a user's own job file by its own, longer list
(``sim/ssd/src/fio``), without this module. The model obeys each option here or knows it to have no effect, except ``NOT_ON_A_MODEL``; a
test asks the model about every entry.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..errors import UsageError
from .units import size_bytes, time_s

MIN_BLOCKS = 16
"""A scaled size or amount is at least this many blocks."""
MIN_RUNTIME_S = 2e-3
DRIVE = "${WATTBELL_DRIVE}"
"""The only file a job may name: the drive under test."""
_SECTION = re.compile(r"\[([A-Za-z0-9][A-Za-z0-9._+-]{0,99})\]")
_LINE_MOST = 1000
"""fio reads lines by 4096 bytes: the rest of a longer comment would be an option."""
_PATTERNS = ("read", "write", "trim", "randread", "randwrite", "randtrim", "rw", "readwrite", "randrw")
_ENGINES = ("libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2")


def _number(least: int = 0, most: int = (1 << 63) - 1) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(r"[0-9]{1,19}", text) or not least <= int(text) <= most:
            raise ValueError(f"is not a whole number from {least} to {most}")

    return check


def _flag(text: str) -> None:
    if text not in ("0", "1"):
        raise ValueError("is neither 0 nor 1")


def _one_of(*words: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text not in words:
            raise ValueError(f"is none of {', '.join(words)}")

    return check


def _time(text: str) -> None:
    time_s(text)


def _share_or_size(text: str) -> None:
    if text.endswith("%"):
        _number(0, 100)(text[:-1])
    else:
        size_bytes(text)


def _three(one: Callable[[str], object]) -> Callable[[str], None]:
    """``read[,write[,trim]]``."""

    def check(text: str) -> None:
        parts = text.split(",")
        if len(parts) > 3:
            raise ValueError("has more than three values")
        for part in (parts[0], *(p for p in parts[1:] if p)):
            one(part)

    return check


def _block(text: str) -> None:
    if size_bytes(text) < 1:
        raise ValueError("must be at least 1 byte")


def _text(text: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9 .,:_+-]{0,200}", text):
        raise ValueError("may hold letters, digits, spaces and .,:_+- only")


_PERCENT = _number(0, 100)
OPTIONS: dict[str, Callable[[str], None]] = {
    "filename": _one_of(DRIVE),
    "ioengine": _one_of(*_ENGINES),
    "rw": _one_of(*_PATTERNS),
    "readwrite": _one_of(*_PATTERNS),
    "bs": _three(_block),
    "blocksize": _three(_block),
    "size": _share_or_size,
    "io_size": _share_or_size,
    "offset": _share_or_size,
    "number_ios": _number(),
    "runtime": _time,
    "ramp_time": _time,
    "startdelay": _time,
    "thinktime": _time,
    "thinktime_blocks": _number(1),
    "rate": _three(size_bytes),
    "rate_iops": _three(_number()),
    "iodepth": _number(1, 65535),
    "iodepth_batch_submit": _number(1, 65535),
    "iodepth_batch_complete_min": _number(0, 65535),
    "iodepth_batch_complete_max": _number(1, 65535),
    "iodepth_low": _number(1, 65535),
    "numjobs": _number(1, 1024),
    "loops": _number(1),
    "rwmixread": _PERCENT,
    "rwmixwrite": _PERCENT,
    "percentage_random": _three(_PERCENT),
    "fsync": _number(),
    "fdatasync": _number(),
    "randseed": _number(),
    "buffer_compress_percentage": _PERCENT,
    "dedupe_percentage": _PERCENT,
    "description": _text,
    **dict.fromkeys(
        (
            "direct",
            "time_based",
            "stonewall",
            "wait_for_previous",
            "group_reporting",
            "new_group",
            "norandommap",
            "randrepeat",
            "allrandrepeat",
            "refill_buffers",
            "zero_buffers",
            "scramble_buffers",
            "thread",
            "hipri",
            "fixedbufs",
            "registerfiles",
            "sqthread_poll",
            "nonvectored",
            "lat_percentiles",
            "clat_percentiles",
        ),
        _flag,
    ),
}
"""Options that a job file may set, and the check of each value (ValueError). No option names a file, a program or another device."""


NOT_ON_A_MODEL = frozenset({"iodepth_batch_submit", "iodepth_batch_complete_min", "iodepth_batch_complete_max", "iodepth_low"})
"""Options of this list that the drive model refuses, naming them: its host submits I/Os one by one, and takes completions as they come."""


@dataclass(frozen=True)
class JobSection:
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


@dataclass(frozen=True)
class _Line:
    """``header``: name of the section that begins here; else an option, or (``key`` empty) nothing."""

    number: int
    raw: str
    header: str | None = None
    key: str = ""
    value: str = ""


def sections(text: str, where: str = "The job file") -> list[JobSection]:
    """The jobs of a job file, in order.

    UsageError, with ``where`` and the line, when there is none or when something in it is not in ``OPTIONS``.
    """
    options: dict[str, str] = {}
    found: list[JobSection] = []
    current: dict[str, str] | None = None
    for line in _lines(text, where):
        if line.header == "global":
            current = options
        elif line.header is not None:
            if any(section.name == line.header for section in found):
                raise UsageError(f"{where}:{line.number}: two jobs are called {line.header}.")
            found.append(JobSection(line.header, dict(options)))
            current = found[-1].options
        elif line.key:
            if current is None:
                raise UsageError(f"{where}:{line.number}: option `{line.key}` stands before any [section].")
            current[line.key] = line.value
    if not found:
        raise UsageError(f"{where} has no job: a job is a [section] other than [global].")
    return found


def of_a_suite(text: str, where: str) -> list[JobSection]:
    """:func:`sections` of a file that fio itself may run: UsageError also for a job that does not name the drive, as fio would make
    a file of the job's own name."""
    found = sections(text, where)
    for section in found:
        if "filename" not in section.options:
            raise UsageError(f"{where}: job {section.name} names no drive: it needs filename={DRIVE}.")
    return found


def writes(section: JobSection) -> bool:
    """Return whether a job may change the data on the drive: any pattern but reads alone, in either of the option's spellings."""
    return any(section.options.get(key, "read") not in ("read", "randread") for key in ("rw", "readwrite"))


def named(text: str, path: str | None) -> str:
    """A job file in which every ``filename`` that is ``path``, or a link to it, is the drive under test; None: whatever it is."""
    return "\n".join(f"filename={DRIVE}" if _is_file(line, path) else line for line in text.split("\n"))


def _is_file(line: str, path: str | None) -> bool:
    key, separator, value = (part.strip(" \t\r") for part in re.split("[#;]", line, maxsplit=1)[0].partition("="))
    if key != "filename" or not separator:
        return False
    return path is None or (value.startswith("/") and os.path.realpath(value) == os.path.realpath(path))


def _lines(text: str, where: str) -> Iterator[_Line]:
    """Every line, checked on its own."""
    for number, raw in enumerate(text.split("\n"), start=1):
        place = f"{where}:{number}"
        # fio and we differ on some characters that may end a line or vanish: none is let in
        if any(character != "\t" and not character.isprintable() for character in raw.removesuffix("\r")):
            raise UsageError(f"{place}: it holds a character that is not printable; a job file is plain text.")
        if len(raw.encode("utf-8", "surrogatepass")) > _LINE_MOST:
            raise UsageError(f"{place}: the line is longer than {_LINE_MOST} bytes.")
        line = re.split("[#;]", raw, maxsplit=1)[0].strip(" \t\r")
        if not line:
            yield _Line(number, raw)
        elif line.startswith("["):
            yield _Line(number, raw, header=_header(line, place))
        else:
            yield _option(number, raw, line, place)


def _header(line: str, place: str) -> str:
    match = _SECTION.fullmatch(line)
    if not match:
        raise UsageError(
            f"{place}: `{_short(line)}` is no [section]: a name has letters, digits and ._+- only, and begins with one of the former."
        )
    if match[1] != "global" and match[1].startswith("global"):
        raise UsageError(f"{place}: fio treats [{match[1]}] as [global]; call the job something else.")
    return match[1]


def _option(number: int, raw: str, line: str, place: str) -> _Line:
    key, separator, value = (part.strip(" \t") for part in line.partition("="))
    if not separator:
        value = "1"
    check = OPTIONS.get(key)
    if check is None:
        raise UsageError(f"{place}: option `{_short(key)}` is not one a suite may set. It may set {', '.join(sorted(OPTIONS))}.")
    try:
        check(value)
    except ValueError as error:
        reason = str(error)
        said = reason if reason.startswith("`") else f"`{_short(value)}` {reason}"
        raise UsageError(f"{place}: option `{key}`: {said}.") from None
    return _Line(number, raw, key=key, value=value)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def scaled(text: str, scale: float, capacity_bytes: int, where: str = "The job file") -> str:
    """Return the job file with sizes, amounts, offsets and run times times ``scale``; text unchanged at 1.

    Shares of the drive (``size=75%``) become bytes of ``capacity_bytes``. Sizes stay multiples of the largest block, at least
    ``MIN_BLOCKS`` blocks. Run times stay at least ``MIN_RUNTIME_S``. Numbers of jobs, block sizes, depths and mixes stay. Raises UsageError
    as :func:`sections`.
    """
    jobs = sections(text, where)
    if scale == 1:
        return text
    block = max(size_bytes(s.options.get("bs", "4k").split(",")[0]) for s in jobs)
    out = [f"; Scaled by {scale:g}: not the published test."]
    for line in _lines(text.removesuffix("\n"), where):
        if line.key in ("size", "io_size", "offset"):
            whole = _bytes(line.value, capacity_bytes)
            least = 0 if line.key == "offset" else MIN_BLOCKS * block
            out.append(f"{line.key}={max(least, int(whole * scale) // block * block)}")
        elif line.key == "runtime":
            out.append(f"runtime={round(max(MIN_RUNTIME_S, time_s(line.value) * scale) * 1e6)}us")
        else:
            out.append(line.raw)
    return "\n".join(out) + "\n"


def lasting(text: str, seconds: float, where: str = "The job file") -> str:
    """Return the job file with its sections running ``seconds`` in all, one after the other, each for an equal share.

    Raises UsageError as :func:`sections`, and for a section that ends by itself or that runs beside another.
    """
    jobs = sections(text, where)
    for section in jobs:
        if not {("time_based", "1"), ("stonewall", "1")} <= section.options.items() or "runtime" not in section.options:
            raise UsageError(f"{where}: job {section.name} needs runtime, time_based=1 and stonewall=1, since its test has load_s.")
    share = math.ceil(seconds * 1e6 / len(jobs) - 1e-6)
    return "\n".join(f"runtime={share}us" if line.key == "runtime" else line.raw for line in _lines(text.removesuffix("\n"), where)) + "\n"


def _bytes(text: str, capacity_bytes: int) -> int:
    if text.endswith("%"):
        return capacity_bytes * int(text[:-1]) // 100
    return size_bytes(text)
