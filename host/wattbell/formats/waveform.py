"""The form in which the importer gets another instrument's file: samples on a grid, and a description of the instrument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..capture.rail import F32
from ..capture.source import Samples
from ..errors import CaptureError, UsageError
from .ranges import RAIL, LeftOut, MeasuringRange

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_MOST_IN_A_BLOCK = 1 << 15
"""A block's count has 16 bits."""
_FINEST_PS, _COARSEST_PS = 1, 1000
_MOST_TICKS, _LAST_TICK = (1 << 32) - 1, 1 << 59
_LONGEST_PS = 1e21
"""30 years."""
_CLOSE = 1e-9
"""A grid that is off by less than this (relative) is the same grid: 1 ns a second."""


@dataclass(frozen=True)
class Volts:
    """The voltage that the user states for an instrument without one; ``u``: its uncertainty (k = 2), V."""

    value: float
    u: float


@dataclass(frozen=True)
class Accuracy:
    """Limits of the instrument, read as k = 2: ``gain`` of the power (relative), ``offset_a`` of the current (A), ``timebase`` (relative).
    ``source``: where they are from, in words for the user."""

    gain: float
    offset_a: float
    timebase: float
    source: str


@dataclass(frozen=True)
class NamedColumn:
    """A column that the user names; ``unit`` None: as its name says."""

    name: str
    unit: str | None = None


_OPTION = {"rail": "--rail", "volts": "--volts", "columns": "--column", "interval_s": "--interval"}


@dataclass(frozen=True)
class WaveformOptions:
    """The user's statements on a file.

    rail: which of several
    columns: by role (``time``, ``current``, ``voltage``, ``power``), for formats that do not identify them
    interval_s: between rows, for a file that only counts them
    for_others: names of options that apply to files of other kinds, and may be useless for this file
    """

    rail: str | None = None
    volts: Volts | None = None
    columns: Mapping[str, NamedColumn] = field(default_factory=dict)
    interval_s: float | None = None
    for_others: frozenset[str] = frozenset()

    def refuse_unused(self, path: Path, **unused: str) -> None:
        """UsageError for an option that is stated and that a file has no use for. ``unused``: why not, by the name of the field."""
        for name, why in unused.items():
            if getattr(self, name) and name not in self.for_others:
                raise UsageError(f"{_OPTION[name]} has no effect: {path} {why}. Leave it out.")


@dataclass(frozen=True)
class Utc:
    """The time of day of some samples by the instrument's host: indices on the grid (ascending) and UTC in ns since 1970."""

    index: I64
    ns: I64


@dataclass(frozen=True)
class About:
    """The instrument and its grid.

    Sample i is centred at i x ``interval_ticks`` ticks of ``tick_ps`` picoseconds.

    span: samples of the grid, missing ones included
    grid_s: the largest distance of a time stamp of the file from its place on the grid
    accuracy: None if unknown
    volts: the stated voltage, if the file has none
    range_: measuring range of the instrument; samples beyond it are missing
    conditions, notes: for ``conditions`` of ``meta.json``
    """

    title: str
    instrument: str
    tick_ps: int
    interval_ticks: int
    span: int
    serial: str = ""
    firmware: str = ""
    grid_s: float = 0.0
    accuracy: Accuracy | None = None
    volts: Volts | None = None
    utc: Utc | None = None
    range_: MeasuringRange = RAIL
    notes: tuple[str, ...] = ()
    conditions: dict[str, object] = field(default_factory=dict)

    @property
    def interval_s(self) -> float:
        """Time between two samples in s."""
        return self.interval_ticks * self.tick_ps / 1e12


@dataclass(frozen=True)
class WaveformPiece:
    """Consecutive rows of a file: place on the grid (ascending), V and A. NaN in either is a missing sample."""

    index: I64
    voltage_v: F32
    current_a: F32


@dataclass(frozen=True)
class Growing:
    """A file that another program appends to.

    read: yields its pieces once, on the grid of the waveform; None whenever there is no more yet, and so never ends
    remarks: events that no sample shows, such as lines of text behind the rows
    """

    read: Iterator[WaveformPiece | None]
    remarks: Callable[[], list[str]]


@dataclass(frozen=True)
class Waveform:
    """An open file.

    raw: yields the file once, unchanged, in pieces of bounded size
    grow: follows a file at that path which begins with this one; None for a format that is only whole when it is finished
    judged: set if ``raw`` itself drops values that are no measurements, and counts them in ``left_out``
    name: of the file, in errors
    advice: likely cause if most of its samples are impossible
    """

    about: About
    raw: Callable[[], Iterator[WaveformPiece]]
    grow: Callable[[Path], Growing] | None = None
    judged: LeftOut | None = None
    name: str = "the waveform"
    advice: str = "The file is damaged, or of another instrument."
    left_out: LeftOut = field(init=False)
    """Values that were no measurements in the last reading."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "left_out", self.judged or LeftOut(self.about.range_))

    def read(self) -> Iterator[WaveformPiece]:
        """Yield the file once, in pieces of bounded size, without samples that the instrument cannot have measured.

        Raises CaptureError if these are most samples.
        """
        self.left_out.clear()
        for piece in self.raw():
            yield piece if self.judged is not None else believable(piece, self.left_out, stated_volts=self.about.volts is not None)
        self.left_out.refuse_mostly(self.name, self.advice)

    def sources(self) -> Iterator[Samples]:
        """Yield sources for a CaptureWriter, in order of time; missing samples are missing ticks."""
        interval = self.about.interval_ticks
        for piece in self.read():
            made = samples(piece, interval)
            if made is not None:
                yield made


def believable(piece: WaveformPiece, left_out: LeftOut, *, stated_volts: bool) -> WaveformPiece:
    """Return a piece without values that its instrument cannot have measured, and count these."""
    inside = left_out.add(piece.voltage_v, piece.current_a, stated_volts=stated_volts)
    if inside.all():
        return piece
    return WaveformPiece(piece.index, piece.voltage_v, np.where(inside, piece.current_a, np.float32(np.nan)).astype(np.float32))


def samples(piece: WaveformPiece, interval: int) -> Samples | None:
    """A block for each run of consecutive samples; None if all are missing."""
    there = np.isfinite(piece.voltage_v) & np.isfinite(piece.current_a)
    index, voltage, current = piece.index[there], piece.voltage_v[there], piece.current_a[there]
    if not len(index):
        return None
    begins = np.flatnonzero(np.concatenate(([True], np.diff(index) != 1)))
    ends = np.append(begins[1:], len(index))
    if int((ends - begins).max()) > _MOST_IN_A_BLOCK:
        begins = np.concatenate([np.arange(begin, end, _MOST_IN_A_BLOCK) for begin, end in zip(begins, ends, strict=True)])
    count = np.diff(np.append(begins, len(index)))
    blocks = len(begins)
    return Samples(
        index[begins] * interval,
        np.full(blocks, interval, np.uint32),
        count.astype(np.uint16),
        np.zeros(blocks, np.uint16),
        np.zeros(blocks, np.uint32),
        np.ascontiguousarray(voltage, np.float32),
        np.ascontiguousarray(current, np.float32),
    )


def ticks(interval_s: float, span: int, path: Path) -> tuple[int, int]:
    """Return (picoseconds a tick, ticks a sample) of a grid of `span` samples. Raises CaptureError for a grid that no capture can have.

    The tick is the coarsest from 1 ns down to 1 ps with which the interval is off by less than 1e-9. If none is, it is the finest that
    fits.
    """
    ps = interval_s * 1e12
    if not (1e3 <= ps <= 4e18 and ps * max(span, 1) <= _LONGEST_PS):
        raise CaptureError(f"{path}: {span} samples {interval_s:g} s apart cannot be stored.")
    tick_ps = _COARSEST_PS
    while ps / tick_ps > _MOST_TICKS or ps * span / tick_ps > _LAST_TICK:
        tick_ps *= 10
    while tick_ps > _FINEST_PS and abs(ps / tick_ps - round(ps / tick_ps)) > _CLOSE * ps / tick_ps:
        if ps * 10 / tick_ps > _MOST_TICKS or ps * span * 10 / tick_ps > _LAST_TICK:
            break
        tick_ps //= 10
    return tick_ps, max(1, round(ps / tick_ps))


def with_power(voltage: F64, current: F64, power: F64) -> F64:
    """Return the current that gives the instrument's own power with its own voltage.

    An instrument that averages its readings gives the mean of the products, which differs from the product of the means. A capture's power
    is voltage x current. Without a voltage, the current stays unchanged.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = power / voltage
    usable = np.isfinite(effective) & (np.abs(voltage) > 1e-3)
    return np.where(usable, effective, np.where(np.isfinite(power), current, np.nan))


def no_volts(path: Path, what: str, other: str = "") -> CaptureError:
    """The error for an instrument that measures no voltage, when the user states none."""
    return CaptureError(
        f"{path}: {what} and no voltage: state that of the rail, as --volts 3.3 or --volts 3.3,0.05 (with its uncertainty){other}."
    )


def choose_rail(path: Path | str, rails: list[str], wanted: str | None) -> str:
    """One of several rails: the one that `wanted` names (case and space aside), the only one, or the only one of 3.3 V. Raises CaptureError
    otherwise."""
    shown = ", ".join(rails)
    if wanted is not None:
        same = [name for name in rails if _plain(name) == _plain(wanted)]
        if len(same) == 1:
            return same[0]
        raise CaptureError(f"{path}: there is no rail {wanted}; it has {shown or 'none with voltage and current'}.")
    if not rails:
        raise CaptureError(f"{path}: no rail in it has a current.")
    likely = [name for name in rails if _plain(name) in ("3.3v", "3v3")]
    if len(rails) > 1 and len(likely) != 1:
        raise CaptureError(f"{path} has several rails ({shown}): choose one with --rail.")
    return likely[0] if likely else rails[0]


def _plain(name: str) -> str:
    return "".join(name.split()).lower()
