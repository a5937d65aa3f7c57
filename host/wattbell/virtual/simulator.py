"""Places of the simulator's parts: a folder that the environment names, the checkout, or the wheel ``wattbell_sim``.

The host package never imports ``wattbell_sim``: it starts the programs in there and reads the files.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from .. import __version__
from ..errors import SimError

PACKAGE = "wattbell_sim"
"""Import name of the wheel with the simulator's programs, libraries, profiles and plans."""
_CHECKOUT = Path(__file__).resolve().parents[3]


def find_program(name: str) -> Path:
    """Return the path of a simulation program. Raises SimError with advice if there is none.

    If ``WATTBELL_SIM_BIN`` is set, it is the only place. Otherwise the places are ``sim/target/release`` of the checkout, the wheel
    ``wattbell_sim``, and ``PATH``.
    """
    given = os.environ.get("WATTBELL_SIM_BIN")
    if given:
        path = Path(given) / name
        if not path.is_file():
            raise SimError(f"{name} is not in {given} (WATTBELL_SIM_BIN); build it with `make sim`, or unset that.")
        return path
    path = _CHECKOUT / "sim" / "target" / "release" / name
    if path.is_file():
        return path
    wheel = _wheel()
    if wheel is not None and (wheel / "bin" / name).is_file():
        return wheel / "bin" / name
    found = shutil.which(name)
    if found is None:
        raise SimError(
            without_simulator() or f"The simulation program {name} is not built; run `make sim` in the checkout (and `make rtl`)."
        )
    return Path(found)


def profiles_dir() -> Path:
    """Return the folder of the SSD profiles: ``WATTBELL_PROFILES``, else the checkout's or the wheel's."""
    given = os.environ.get("WATTBELL_PROFILES")
    return Path(given) if given else _folder("profiles")


def profile_files() -> list[Path]:
    """Return the files of the profiles in :func:`profiles_dir`. ``common.toml`` is no drive, but the base of all profiles."""
    return sorted(path for path in profiles_dir().glob("*.toml") if path.stem != "common")


def find_plan(name: str) -> Path:
    """Path of a plan or a fio job file: `name` itself, or the file of that name among the simulator's plans where `name` has no folder."""
    path = Path(name)
    if path.name != name or path.is_file() or path.suffix not in (".fio", ".toml"):
        return path
    ours = _folder("plans") / name
    return ours if ours.is_file() else path


def without_simulator() -> str:
    """Return advice if both the checkout and the wheel ``wattbell_sim`` are missing; else ""."""
    if _in_checkout() or _wheel() is not None:
        return ""
    return (
        f"This installation has no simulator (virtual rigs and drives): `pip install` the file {PACKAGE}-{__version__}-....whl, which "
        "`make wheels` makes beside that of wattbell, or run `wattbell` in a checkout after `make sim rtl`."
    )


def _folder(name: str) -> Path:
    """A folder of the simulator's files: of the checkout, else of the wheel; the checkout's path, which is not there, without both."""
    wheel = None if _in_checkout() else _wheel()
    return _CHECKOUT / "sim" / name if wheel is None else wheel / name


def _in_checkout() -> bool:
    return (_CHECKOUT / "sim" / "Cargo.toml").is_file()


@cache
def _wheel() -> Path | None:
    """Folder of the installed package ``wattbell_sim``; None without one. Raises SimError if it is of another version than this package."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:  # a folder of that name in the working directory is no package
        return None
    try:
        theirs = version(PACKAGE)
    except PackageNotFoundError:
        return None
    if theirs != __version__:
        raise SimError(
            f"The simulator is of version {theirs} ({PACKAGE}), and wattbell of {__version__}: `pip install` the two wheels of one version."
        )
    return Path(spec.origin).parent
