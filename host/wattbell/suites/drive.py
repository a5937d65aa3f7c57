"""What a plan must know about the drive before it runs: capacity and power states."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError


@dataclass(frozen=True)
class Drive:
    """``operational`` and ``non_operational``: numbers of the power states. ``digest``: of the profile, ``sha256:...``."""

    name: str
    capacity_bytes: int
    operational: tuple[int, ...]
    non_operational: tuple[int, ...]
    model: str = ""
    serial: str = ""
    firmware: str = ""
    digest: str | None = None
    title: str = ""

    def describe(self) -> dict[str, Any]:
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


def from_profile(path: Path) -> Drive:
    """The drive of a profile of the SSD model. UsageError when the file is no profile."""
    try:
        content = path.read_bytes()
        profile = tomllib.loads(content.decode("utf-8"))
        states = profile["power_state"]
        identity = profile.get("identity", {})
        return Drive(
            name=path.stem,
            capacity_bytes=int(_value(profile["namespace"]["lbas_512"])) * 512,
            operational=tuple(i for i, s in enumerate(states) if not _non_operational(s)),
            non_operational=tuple(i for i, s in enumerate(states) if _non_operational(s)),
            model=str(_value(identity.get("model", ""))),
            serial=str(_value(identity.get("serial", ""))),
            firmware=str(_value(identity.get("firmware", ""))),
            digest=f"sha256:{hashlib.sha256(content).hexdigest()}",
            title=str(profile.get("title", "")),
        )
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is no profile of a drive ({error}).") from None


def _value(entry: Any) -> Any:
    """A figure of a profile is ``{ value, source }``."""
    return entry["value"] if isinstance(entry, Mapping) else entry


def _non_operational(state: Mapping[str, Any]) -> bool:
    return not bool(_value(state.get("operational", True)))
