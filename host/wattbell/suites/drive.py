"""Facts about the drive that a plan needs before it runs: capacity and power states."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec

from .. import door
from ..analysis.apst import Table, descent, linux_table
from ..errors import UsageError

_Us = Annotated[float, msgspec.Meta(ge=0, le=1 << 32)]
_Lbas = Annotated[int, msgspec.Meta(ge=2048, le=1 << 54)]


@dataclass(frozen=True)
class Drive:
    """``operational`` and ``non_operational``: numbers of the power states. ``digest``: of the profile, ``sha256:...``. ``nsid``: the
    namespace under test."""

    name: str
    capacity_bytes: int
    operational: tuple[int, ...]
    non_operational: tuple[int, ...]
    model: str = ""
    serial: str = ""
    firmware: str = ""
    digest: str | None = None
    title: str = ""
    nsid: int = 1
    settled_after_s: float = 0.0
    """Idle time until the drive is in the deepest state that APST's table leads to, if APST is on; 0 if the table leads nowhere."""

    slowest_transition_s: float = 0.0
    """Longest declared entry latency and longest declared exit latency together; 0 if the drive declares none."""

    def describe(self) -> dict[str, str | int | None]:
        """``drive`` of results.json."""
        return {
            "title": self.title or None,
            "model": self.model,
            "serial": self.serial,
            "firmware": self.firmware,
            "profile": self.name,
            "profile_hash": self.digest,
            "capacity_bytes": self.capacity_bytes,
        }


T = TypeVar("T")


class _Figure(msgspec.Struct, Generic[T]):
    """A figure of a profile: ``{ value, source }``."""

    value: T


class _Identity(msgspec.Struct):
    model: str | _Figure[str] = ""
    serial: str | _Figure[str] = ""
    firmware: str | _Figure[str] = ""


class _Namespace(msgspec.Struct):
    lbas_512: _Lbas | _Figure[_Lbas]


class _State(msgspec.Struct):
    operational: bool | _Figure[bool] = True
    entry_us: _Us | _Figure[_Us] = 0.0
    exit_us: _Us | _Figure[_Us] = 0.0


class _Profile(msgspec.Struct):
    """The part of a profile that a plan needs; the model itself reads the rest."""

    namespace: _Namespace
    power_state: Annotated[list[_State], msgspec.Meta(min_length=1, max_length=32)]
    identity: _Identity = msgspec.field(default_factory=_Identity)
    title: str = ""


def from_profile(path: Path) -> Drive:
    """The drive of a profile of the SSD model. Raises UsageError when the file is no profile."""
    try:
        content = door.read_bytes(path, door.SETTINGS)
        profile = msgspec.convert(tomllib.loads(content.decode("utf-8")), _Profile)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a key that is wrong
        raise UsageError(f"{path} is not a profile of a drive ({error}).") from None
    states = [(bool(_value(s.operational)), _value(s.entry_us), _value(s.exit_us)) for s in profile.power_state]
    operational = [awake for awake, *_ in states]
    return Drive(
        name=path.stem,
        capacity_bytes=_value(profile.namespace.lbas_512) * 512,
        operational=tuple(i for i, awake in enumerate(operational) if awake),
        non_operational=tuple(i for i, awake in enumerate(operational) if not awake),
        model=_value(profile.identity.model),
        serial=_value(profile.identity.serial),
        firmware=_value(profile.identity.firmware),
        digest=f"sha256:{hashlib.sha256(content).hexdigest()}",
        title=profile.title,
        settled_after_s=settled_after(states),
        slowest_transition_s=slowest_transition(states),
    )


def settled_after(states: Sequence[tuple[bool, float, float]], table: Table | None = None) -> float:
    """``settled_after_s`` of a drive that declares ``states``: (whether operational, entry latency in us, exit latency in us). ``table``:
    APST's; None for Linux's."""
    steps = descent(linux_table(states) if table is None else table)
    entries_s = sum(states[state][1] for state, _ in steps if state < len(states)) * 1e-6
    return steps[-1][1] + entries_s if steps else 0.0


def slowest_transition(states: Sequence[tuple[bool, float, float]]) -> float:
    """Return ``slowest_transition_s`` of a drive that declares ``states``, as :func:`settled_after` has them."""
    return (max((entry for _, entry, _ in states), default=0.0) + max((exit_us for *_, exit_us in states), default=0.0)) * 1e-6


def _value(entry: T | _Figure[T]) -> T:
    return entry.value if isinstance(entry, _Figure) else entry
