"""Bus traces (docs/bus-trace.md) as lists of records: read, look at, change, write. Times are picoseconds."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

TLP_DOWN, TLP_UP, BURST, RAIL, SIDEBAND, END, SUMMARY = range(1, 8)
S, MS, US = 10**12, 10**9, 10**6
NEVER = 2**64 - 1
_RECORD = struct.Struct("<BBHQ")
_RAIL = struct.Struct("<qq")
_INSTANTS = struct.Struct("<7Q")
_INSTANTS_AT = 24
Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Record:
    """A record of a trace. ``time``: of its first symbol, in ps; of a SUMMARY the last of its instants."""

    kind: int
    flags: int
    time: int
    body: bytes

    @property
    def instants(self) -> tuple[int, ...]:
        """Return the instants of a SUMMARY: doorbell, fetch, first data, last data, CQE, interrupt, CQ head doorbell."""
        return _INSTANTS.unpack_from(self.body, _INSTANTS_AT)

    def with_instants(self, instants: tuple[int, ...]) -> Record:
        """Return the SUMMARY with other instants."""
        body = self.body[:_INSTANTS_AT] + _INSTANTS.pack(*instants)
        return replace(self, time=max(one for one in instants if one != NEVER), body=body)


@dataclass
class BusTrace:
    """A whole trace: its first bytes with the JSON, and its records by time."""

    head: bytes
    records: list[Record] = field(default_factory=list)

    @property
    def rail(self) -> tuple[Int64, Float]:
        """Return the instants of the rail's steps and the power in W from each on, by current times voltage."""
        steps = [(one.time, *_RAIL.unpack(one.body)) for one in self.records if one.kind == RAIL]
        table = np.array(steps, np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1] * 1e-9 * (table[:, 2] * 1e-9)

    @property
    def end_ps(self) -> int:
        """Time of the last record."""
        return self.records[-1].time

    @property
    def summaries(self) -> Iterator[Record]:
        """Yield the I/O commands that are summaries."""
        return (one for one in self.records if one.kind == SUMMARY)

    def energy_j(self, first: int, last: int) -> float:
        """Return the energy in J between two instants: the sum of power times length over the steps."""
        times, watts = self.rail
        edges = np.append(times, max(self.end_ps, last))
        low, high = np.clip(edges[:-1], first, last), np.clip(edges[1:], first, last)
        return float((watts * ((high - low) * 1e-12)).sum())

    def in_order(self) -> BusTrace:
        """Sort the records by time; equal times keep their order."""
        self.records.sort(key=lambda one: one.time)
        return self


def read(path: Path) -> BusTrace:
    """Read a trace. Raises ValueError for a file that is none."""
    data = path.read_bytes()
    if data[:4] != b"WBBT":
        raise ValueError(f"{path} is no bus trace")
    (length,) = struct.unpack_from("<I", data, 8)
    at = 12 + length
    out = BusTrace(data[:at])
    while at < len(data):
        kind, flags, size, time = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        out.records.append(Record(kind, flags, time, data[at : at + size]))
        at += size
    return out


def write(trace: BusTrace, path: Path) -> None:
    """Write a trace. Raises ValueError where the records are not in order of time."""
    before, parts = 0, [trace.head]
    for one in trace.records:
        if one.time < before:
            raise ValueError(f"a record at {one.time} ps behind {before} ps")
        before = one.time
        parts += [_RECORD.pack(one.kind, one.flags, len(one.body), one.time), one.body]
    path.write_bytes(b"".join(parts))


def rail_record(time: int, watts: float, volts_nv: int) -> Record:
    """Return a step of the rail to a power, at a voltage."""
    return Record(RAIL, 0, time, _RAIL.pack(round(watts / (volts_nv * 1e-9) * 1e9), volts_nv))


def rail_of(record: Record) -> tuple[int, int]:
    """Return the current in nA and the voltage in nV of a step."""
    current, voltage = _RAIL.unpack(record.body)
    return current, voltage
