"""The drives that the drive model knows: found by name, and listed."""

from __future__ import annotations

import tomllib
from pathlib import Path

from .. import door
from ..errors import SimError, UsageError
from ..jsondata import JsonObject
from ..nearest import did_you_mean
from . import simulator


def find_profile(name: str) -> Path:
    """File of a drive's profile, by name or path."""
    path = Path(name)
    if path.suffix == ".toml" and path.exists():
        try:
            return door.check(path, door.SETTINGS)
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    path = simulator.profiles_dir() / f"{name}.toml"
    if not path.is_file():
        if not simulator.profile_files() and (why := simulator.without_simulator()):
            raise SimError(why)
        known = [file.stem for file in simulator.profile_files()]
        hint = did_you_mean(name, known)
        raise UsageError(f"There is no profile {name}; known: {', '.join(known) or 'none'}. A path to a .toml file works too.{hint}")
    return path


def known_profiles() -> list[dict[str, str]]:
    """Return ``profile``, ``path`` and, if stated, ``model`` and ``firmware`` of every drive. Raises SimError when there is none."""
    found = []
    for path in simulator.profile_files():
        try:
            content = tomllib.loads(door.read_text(path, door.SETTINGS))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise SimError(f"{path} is not a valid profile ({error}).") from None
        found.append({"profile": path.stem, "path": str(path), **_identity(content)})
    if not found:
        raise SimError(
            simulator.without_simulator()
            or f"There is no profile in {simulator.profiles_dir()}; set WATTBELL_PROFILES to the folder that has them."
        )
    return found


def _identity(content: JsonObject) -> dict[str, str]:
    """Model and firmware, wherever in the profile they stand."""
    for part in (content, *(value for value in content.values() if isinstance(value, dict))):
        if "model" in part:
            found = {name: part[name] for name in ("model", "firmware") if name in part}
            # a value of a profile may stand with its source
            return {name: str(fact["value"] if isinstance(fact, dict) else fact) for name, fact in found.items()}
    return {}
