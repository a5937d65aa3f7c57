"""The interface of a live source of rail samples, and how to open one.

A meter has a clock of its own: its samples lie on an exact grid of its ticks, from tick 0 at :meth:`Meter.start`. A sample that the meter
did not send is missing there, never made up. :meth:`Meter.clock_pairs` relates its ticks to the host's clock
(:func:`wattbell.clocks.host.host_ns`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Protocol, TypeVar, runtime_checkable

from ..capture.source import RailSource
from ..errors import UsageError
from ..extras import install_command
from ..nearest import did_you_mean
from ..plugins import PartRegister


@dataclass(frozen=True)
class ClockPair:
    """The meter's clock stood at `tick` at an instant of the host's clock from `before_ns` to `after_ns`. `before_ns` None: only known to
    be no later than `after_ns`, as for a sample that had arrived then."""

    before_ns: int | None
    after_ns: int
    tick: int


@dataclass(frozen=True)
class MeterAbout:
    """The meter, its grid, and its limits of error, read as k = 2.

    tick_ps: picoseconds a tick
    interval_ticks: ticks between two samples
    has_voltage: False if the meter does not measure the voltage, and the user states it
    gain: relative, of the power (voltage and current together)
    offset_a: of the current, in A
    timebase: relative
    accuracy: source of these three limits, in words for the user
    placement_u_s: largest distance in s of a sample from its tick, where no clock of the meter's own paces it
    conditions, notes: for the ``conditions`` of ``meta.json``
    ranges: (gain, offset_a) of each range of a meter that reports its changes of range (:class:`~..capture.source.Ranges`). ``gain`` and
        ``offset_a`` above then hold for readers that ignore the range
    """

    model: str
    serial: str
    firmware: str
    tick_ps: int
    interval_ticks: int
    has_voltage: bool
    gain: float
    offset_a: float
    timebase: float
    accuracy: str
    placement_u_s: float = 0.0
    conditions: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()

    def all_conditions(self) -> dict[str, object]:
        """``conditions`` of ``meta.json``."""
        apart = {"alignment_u_s": self.placement_u_s} if self.placement_u_s else {}
        return {"virtual": False, **apart, **self.conditions}

    def rig(self) -> dict[str, object]:
        """``rig`` of ``meta.json``."""
        stated: dict[str, object] = {"gain": self.gain, "offset_a": self.offset_a, "timebase": self.timebase}
        if self.ranges:
            stated["ranges"] = [{"gain": gain, "offset_a": offset} for gain, offset in self.ranges]
        return {
            "model": self.model,
            "serial": self.serial,
            "firmware": self.firmware,
            "error_model": stated,
            "accuracy": self.accuracy,
            "has_voltage": self.has_voltage,
        }


class Meter(Protocol):
    """An open meter. Use as a context manager: leaving it stops and closes the meter."""

    @property
    def about(self) -> MeterAbout:
        """Known from the moment the meter is open."""

    def start(self) -> None:
        """Begin to measure; tick 0 is the first sample. Raises RigError when the meter refuses."""

    def read(self, timeout_s: float) -> list[RailSource]:
        """Return the blocks that came since the last call, in order of time; ``[]`` if none came within `timeout_s`.

        Samples that the meter lost are missing from the grid. Raises RigError when the meter is gone or sends unknown content, but only
        once everything that came before was returned. After :meth:`stop`, the blocks still under way are returned, then ``[]``.
        """

    def stop(self) -> None:
        """End measuring. Nothing happens if it has ended."""

    def clock_pairs(self) -> list[ClockPair]:
        """Every pair since :meth:`start`, in order of time. :meth:`read` asks a meter for its counter once a second, if it has one."""

    def remarks(self) -> list[str]:
        """Return sentences for the notes of the capture on events since :meth:`start` that the samples do not show, such as changes of
        range.
        """

    def __enter__(self) -> Meter:
        """Itself."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop and close."""


@runtime_checkable
class StreamMeter(Meter, Protocol):
    """A meter that sends its samples in a rig's stream.

    A recorder gives the stream to :meth:`~..capture.writer.CaptureWriter.decode`, which accounts for its losses.
    """

    @property
    def origin_tick(self) -> int:
        """Tick of the stream at tick 0 of the meter; known from :meth:`start` on."""

    def take_stream(self, timeout_s: float) -> list[bytes]:
        """Take a stream in place of :meth:`read`."""

    def sender(self) -> str | None:
        """See :meth:`~..capture.writer.CaptureWriter.ask_sender`."""


Opener = TypeVar("Opener", bound=Callable[[str], Meter])


@dataclass(frozen=True)
class MeterKind:
    """A kind of meter.

    usage: value of ``--meter``
    opener: opens the meter that the rest of the value names, behind the colon; raises UsageError for a bad option, RigError without a meter
    extra: of pyproject.toml, which installs ``needs`` (names to import)
    """

    usage: str
    what: str
    opener: Callable[[str], Meter]
    extra: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        """Whether all that it needs is."""
        return self.lacks is None

    @property
    def lacks(self) -> str | None:
        """Return the command that installs missing packages; None if all are installed."""
        if self.extra is None or all(find_spec(name) is not None for name in self.needs):
            return None
        return install_command(self.extra)


KINDS: PartRegister[MeterKind] = PartRegister("wattbell.meters", "wattbell.meters")
"""Kinds by the first word of ``--meter``. All also take gain=, offset= (A) and timebase= from the user's own calibration."""


def meter(what: str, usage: str, extra: str | None = None, needs: tuple[str, ...] = ()) -> Callable[[Opener], Opener]:
    """Register a function that opens a meter, under the first word of ``usage``; the fields of :class:`MeterKind` say the rest."""

    def register(opener: Opener) -> Opener:
        KINDS.add(re.split("[:[]", usage)[0], MeterKind(usage, what, opener, extra, needs))
        return opener

    return register


def open_meter(text: str) -> Meter:
    """The meter that ``--meter`` names, opened. Raises UsageError for an unknown name, a bad option or a library that is not installed,
    and RigError when the meter cannot be opened."""
    name, _, rest = text.partition(":")
    kind = KINDS.get(name)
    if kind is None:
        known = ", ".join(known.usage for known in KINDS.values())
        hint = did_you_mean(name, KINDS)
        raise UsageError(f"--meter {text}: there is no meter of that name. Give one of {known}; `wattbell meters` explains them.{hint}")
    if kind.lacks is not None:
        raise UsageError(f"--meter {name} needs a library that is not installed: {kind.lacks}")
    return kind.opener(rest)


def _limit(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


ERRORS: dict[str, Callable[[str], object]] = {"gain": _limit, "offset": _limit, "timebase": _limit}
"""Options of every meter."""


def stated(about: MeterAbout, given: Mapping[str, object]) -> MeterAbout:
    """`about` with the error terms that the user states (:data:`ERRORS`)."""
    names = {"gain": "gain", "offset": "offset_a", "timebase": "timebase"}
    terms: dict[str, Any] = {names[name]: given[name] for name in names if name in given}
    if not terms:
        return about
    if "gain" in given or "offset" in given:  # of all ranges
        terms["ranges"] = tuple((terms.get("gain", gain), terms.get("offset_a", offset)) for gain, offset in about.ranges)
    return replace(about, **terms, accuracy=f"stated by the user: {', '.join(sorted(terms))}; the rest: {about.accuracy}")


_OPTION = re.compile(r",([a-z_]+)=([^,]*)$")


def options(rest: str, usage: str, known: Mapping[str, Callable[[str], object]]) -> tuple[str, dict[str, object]]:
    """``PORT,name=value,...`` as PORT and the values, each read by its function in `known`. Raises UsageError."""
    found: dict[str, object] = {}
    while match := _OPTION.search(rest):
        name, value = match.groups()
        if name not in known:
            raise UsageError(f"--meter {usage.partition(':')[0]}: there is no option {name}; give {usage}.")
        try:
            found[name] = known[name](value)
        except ValueError:
            raise UsageError(f"--meter {usage.partition(':')[0]}: {name}={value} cannot be read; give {usage}.") from None
        rest = rest[: match.start()]
    return rest, found
