"""Coverage of a test bench: which kinds of commands it has seen, counted over many runs, with a page to look at.

    coverage = Coverage()
    coverage.add(command)          # each finished command of the monitor
    coverage.begin_life()          # after each reset of the controller
    coverage.save(folder / "run1.json")
    merged = Coverage.merged(folder.glob("*.json"))
    merged.write_page(folder / "coverage.html")

A kind is opcode x data pointer x queue depth x size x reset. A value that the monitor does not know is the bin "unknown", never another.
"""

from __future__ import annotations

import html
import json
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

UNKNOWN = "unknown"
AXES = ("opcode", "pointer", "depth", "size", "reset")
_FORMAT = "cocotbext-nvmetap coverage 1"
_NAMES = {
    0x00: "flush",
    0x01: "write",
    0x02: "read",
    0x04: "write uncorrectable",
    0x05: "compare",
    0x08: "write zeroes",
    0x09: "dataset management",
    0x0C: "verify",
}
_ADMIN_NAMES = {
    0x00: "delete SQ",
    0x01: "create SQ",
    0x02: "get log page",
    0x04: "delete CQ",
    0x05: "create CQ",
    0x06: "identify",
    0x08: "abort",
    0x09: "set features",
    0x0A: "get features",
    0x0C: "asynchronous event request",
}
_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
_SIZES = (0, 1, 8, 16, 32, 64, 128, 256, 1024)
_DEPTH_BINS = ("1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128", "129-256", "257-1024", "over 1024")
_SIZE_BINS = ("none", "1", "2-8", "9-16", "17-32", "33-64", "65-128", "129-256", "257-1024", "over 1024")


class CoverageError(ValueError):
    """Reports a file that is no coverage, or a goal that no bin can fulfil."""


class SeenCommand(Protocol):
    """The fields of a finished command that coverage looks at; the monitor's `Command` has them."""

    @property
    def function(self) -> int:
        """Bus, device and function number of the controller."""

    @property
    def sqid(self) -> int:
        """Submission queue, 0 for the admin queue."""

    @property
    def opcode(self) -> int | None:
        """Opcode, None if the entry was not seen."""

    @property
    def blocks(self) -> int | None:
        """Count of blocks, None if the command has none or it is not known."""

    @property
    def sgl(self) -> bool | None:
        """Whether SGLs name the data, None if that is not known."""

    @property
    def doorbell_ps(self) -> int | None:
        """Instant of the doorbell, None without one."""

    @property
    def data_bytes(self) -> int:
        """Bytes of data on the link."""

    @property
    def cqe_ps(self) -> int | None:
        """Instant of the completion, None without one."""


@dataclass(frozen=True, slots=True, order=True)
class CommandKind:
    """One bin of the coverage: a value for each axis.

    opcode: such as "02h read" or "admin 06h identify"
    pointer: "PRP", "SGL", "none" for a command that moved no data, or "unknown"
    depth: range of commands in flight in the queue, from doorbell to completion, at the command's doorbell and with it
    size: range of blocks, "none" for a command without blocks
    reset: "first life", "after a reset", or "cut by a reset" for a command without completion
    """

    opcode: str
    pointer: str
    depth: str
    size: str
    reset: str


def _bin(value: int | None, limits: tuple[int, ...], names: tuple[str, ...]) -> str:
    if value is None or value < 0:
        return UNKNOWN
    return names[sum(value > limit for limit in limits)]


def opcode_name(sqid: int, opcode: int | None) -> str:
    """Return the bin of an opcode."""
    if opcode is None:
        return UNKNOWN
    names, prefix = (_NAMES, "") if sqid else (_ADMIN_NAMES, "admin ")
    return f"{prefix}{opcode:02X}h {names.get(opcode, 'other')}"


@dataclass(frozen=True, slots=True)
class _Seen:
    queue: tuple[int, int, int]
    """Life, function and submission queue."""
    doorbell_ps: int | None
    cqe_ps: int | None
    opcode: str
    pointer: str
    size: str
    reset: str


class Coverage:
    """Counts of commands by kind.

    runs: runs that these counts come from
    resets: resets of the controller in all runs
    """

    def __init__(self) -> None:
        self.runs = 1
        self.resets = 0
        self._life = 0
        self._seen: list[_Seen] = []
        self._loaded: Counter[CommandKind] = Counter()

    def begin_life(self) -> None:
        """Count a reset; commands from now on are "after a reset"."""
        self.resets += 1
        self._life += 1

    def add(self, command: SeenCommand) -> None:
        """Count a finished command."""
        if command.opcode is None or (command.sgl is None and command.data_bytes):
            pointer = UNKNOWN
        else:
            pointer = "none" if not command.data_bytes else "SGL" if command.sgl else "PRP"
        sized = command.sqid != 0 and command.opcode != 0x00
        seen = _Seen(
            (self._life, command.function, command.sqid),
            command.doorbell_ps,
            command.cqe_ps,
            opcode_name(command.sqid, command.opcode),
            pointer,
            _bin(command.blocks if sized or command.opcode is None else 0, _SIZES, _SIZE_BINS),
            "cut by a reset" if command.cqe_ps is None else "after a reset" if self._life else "first life",
        )
        self._seen.append(seen)

    @property
    def counts(self) -> Counter[CommandKind]:
        """Commands of each kind. Depths are counted here, because a command that is in flight at a doorbell may be added later."""
        begun: dict[tuple[int, int, int], list[int]] = {}
        ended: dict[tuple[int, int, int], list[int]] = {}
        for seen in self._seen:
            if seen.doorbell_ps is not None:
                begun.setdefault(seen.queue, []).append(seen.doorbell_ps)
                if seen.cqe_ps is not None:
                    ended.setdefault(seen.queue, []).append(seen.cqe_ps)
        for instants in (*begun.values(), *ended.values()):
            instants.sort()
        total = Counter(self._loaded)
        for seen in self._seen:
            at, depth = seen.doorbell_ps, None
            if at is not None:
                depth = bisect_right(begun[seen.queue], at) - bisect_right(ended.get(seen.queue, []), at)
            total[CommandKind(seen.opcode, seen.pointer, _bin(depth, _DEPTHS, _DEPTH_BINS), seen.size, seen.reset)] += 1
        return total

    def save(self, path: Path | str) -> None:
        """Write the counts as JSON; the file is whole or absent."""
        rows = [[*(getattr(kind, axis) for axis in AXES), count] for kind, count in sorted(self.counts.items())]
        text = json.dumps({"format": _FORMAT, "runs": self.runs, "resets": self.resets, "axes": AXES, "counts": rows}, indent=1)
        path = Path(path)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path | str) -> Coverage:
        """Read the counts of `save`. Raises CoverageError that names the file."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if data["format"] != _FORMAT or tuple(data["axes"]) != AXES:
                raise CoverageError(f"{path} is no coverage of this version: it says {data['format']!r}")
            made = cls()
            made.runs, made.resets = int(data["runs"]), int(data["resets"])
            for *values, count in data["counts"]:
                made._loaded[CommandKind(*map(str, values))] += int(count)
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, CoverageError):
                raise
            raise CoverageError(f"{path} is no coverage: {error}") from None
        return made

    @classmethod
    def merged(cls, paths: Iterable[Path | str]) -> Coverage:
        """Return the sum of the files of several runs. Raises CoverageError if there is none."""
        files = sorted(map(Path, paths))
        if not files:
            raise CoverageError("there is no file of coverage to merge")
        total = cls()
        total.runs = 0
        for path in files:
            one = cls.load(path)
            total._loaded += one.counts
            total.runs += one.runs
            total.resets += one.resets
        return total

    def along(self, axis: str) -> dict[str, int]:
        """Return commands by the values of an axis; values of `depth` and `size` that no command has are there with 0."""
        if axis not in AXES:
            raise CoverageError(f"{axis!r} is no axis: there are {', '.join(AXES)}")
        fixed = {"depth": _DEPTH_BINS, "size": _SIZE_BINS, "pointer": ("PRP", "SGL", "none")}.get(axis, ())
        fixed = fixed or (("first life", "after a reset", "cut by a reset") if axis == "reset" else ())
        found: dict[str, int] = dict.fromkeys(fixed, 0)
        for kind, count in sorted(self.counts.items()):
            value = getattr(kind, axis)
            found[value] = found.get(value, 0) + count
        return found

    def missing(self, goal: Mapping[str, Iterable[str]]) -> list[dict[str, str]]:
        """Return the combinations of a goal that no command has.

        goal: values wanted of some axes, such as ``{"opcode": ["02h read"], "depth": ["1", "2"]}``; all combinations are wanted.

        Raises CoverageError for an axis or a range that does not exist.
        """
        wanted: list[dict[str, str]] = [{}]
        for axis, values in goal.items():
            known = self.along(axis)
            for value in values:
                if axis != "opcode" and value not in known:
                    raise CoverageError(f"{value!r} is no value of {axis}: there are {', '.join(known)}")
            wanted = [{**chosen, axis: value} for chosen in wanted for value in values]
        seen = [{axis: getattr(kind, axis) for axis in goal} for kind in self.counts]
        return [choice for choice in wanted if choice not in seen]

    def write_page(self, path: Path | str, title: str = "NVMe coverage") -> None:
        """Write one HTML page that needs no other file and no network."""
        Path(path).write_text(self._page(title), encoding="utf-8")

    def _page(self, title: str) -> str:
        counts = self.counts
        title = html.escape(title)
        summary = f"{counts.total()} commands of {len(counts)} kinds in {self.runs} run(s), with {self.resets} reset(s)"
        tables = [self._cross("opcode", axis) for axis in AXES[1:]] + [self._cross("depth", "size"), self._all()]
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
            f"<body><h1>{title}</h1><p>{summary}. An empty field is a combination that no command has had.</p>\n"
            + "\n".join(tables)
            + "</body></html>\n"
        )

    def _cross(self, down: str, across: str) -> str:
        rows, columns = self.along(down), self.along(across)
        cells: Counter[tuple[str, str]] = Counter()
        for kind, count in self.counts.items():
            cells[getattr(kind, down), getattr(kind, across)] += count
        head = "".join(f"<th scope=col>{html.escape(column)}</th>" for column in columns)
        lines = [f"<tr><th scope=row>{html.escape(row)}</th>{_fields(cells, row, columns)}</tr>" for row in rows]
        filled = sum((row, column) in cells for row in rows for column in columns)
        return (
            f"<h2>{down} by {across}</h2><p>{filled} of {len(rows) * len(columns)} fields</p>"
            f"<div class=wide><table><tr><td></td>{head}</tr>\n" + "\n".join(lines) + "</table></div>"
        )

    def _all(self) -> str:
        head = "".join(f"<th scope=col>{axis}</th>" for axis in (*AXES, "commands"))
        lines = [
            "<tr>" + "".join(f"<td>{html.escape(getattr(kind, axis))}</td>" for axis in AXES) + f"<td class=n>{count}</td></tr>"
            for kind, count in sorted(self.counts.items())
        ]
        return (
            f"<details><summary>All {len(lines)} kinds</summary><div class=wide><table><tr>{head}</tr>\n"
            + "\n".join(lines)
            + "</table></div></details>"
        )


def _fields(cells: Mapping[tuple[str, str], int], row: str, columns: Iterable[str]) -> str:
    counts = (cells.get((row, column), 0) for column in columns)
    return "".join(f"<td class=y>{count}</td>" if count else "<td class=e></td>" for count in counts)


_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1f24;background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.1rem;margin:1.6rem 0 0}p{margin:.3rem 0}.wide{overflow-x:auto}"
    "table{border-collapse:collapse;margin:.4rem 0}th,td{border:1px solid #c9ced4;padding:.2rem .55rem;text-align:left;white-space:nowrap}"
    "th{font-weight:600;background:#f3f5f7}.y,.n{text-align:right;font-variant-numeric:tabular-nums}.y{background:#d6f0da}.e{background:#f6f4f1}"
    "@media(prefers-color-scheme:dark){body{color:#e4e7eb;background:#15181c}th{background:#23282e}th,td{border-color:#454c55}"
    ".y{background:#1f4a2a}.e{background:#1c1f23}}"
)
