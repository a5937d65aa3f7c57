"""The sides of a comparison: each is a drive in one state, with the runs that repeat one another on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import door
from ..errors import ResultsError
from ..origin import Origin
from .model import Run

_CONDITIONS = (
    "fidelity",
    "preconditioning",
    "adc_interval_s",
    "adc_decimation",
    "as_direct",
    "rounds",
    "meter",
    "commands",
    "link_speed_gt_s",
    "governor",
)
REPEATS = "repeats.json"
"""In the folder of ``wattbell run --repeat``: names the runs that belong together."""


@dataclass(frozen=True)
class DriveSide:
    """Side of a comparison: at least one run; several repeat one another. ``letter``: the side's name in tables."""

    runs: tuple[Run, ...]
    letter: str

    @property
    def first(self) -> Run:
        """The run that represents the side where one is enough."""
        return self.runs[0]


def letter(i: int) -> str:
    """``A``, ``B``, ...; ``run 27`` after ``Z``."""
    return chr(ord("A") + i) if i < 26 else f"run {i + 1}"


def sides_of(groups: Sequence[Sequence[Run]], *, given: bool) -> list[DriveSide]:
    """Return the sides of these groups of runs.

    given: the user said which runs repeat one another. Otherwise each group has the runs of one reference. Groups of one drive with the
        same work in the same way are then put together, unless nothing would be left to compare.

    Raises ResultsError for a side with runs that do not repeat one another.
    """
    groups = list(groups) if given else _together(groups)
    made = [DriveSide(tuple(group), letter(i)) for i, group in enumerate(groups)]
    for side in made:
        _check(side)
    return made


def _together(groups: Sequence[Sequence[Run]]) -> list[list[Run]]:
    by_key: dict[str, list[Run]] = {}
    for group in groups:
        by_key.setdefault(repeats_key(group[0]), []).extend(group)
    return list(by_key.values()) if len(by_key) > 1 else [list(group) for group in groups]


def repeats_key(run: Run) -> str:
    """The same for all runs that repeat one another: drive, firmware, work, scale and conditions are the same."""
    drive: Any = [str(run.drive.get(key) or "").strip() for key in ("model", "serial", "firmware", "profile", "profile_hash")]
    return json.dumps([*drive, run.suite, run.suite_hash, run.scale, run.origin, work_of(run)])


def work_of(run: Run) -> str:
    """The same for all runs with the same conditions: of the drive, the host and the rig."""
    stated = run.told.get("conditions")
    return json.dumps([run.condition, [str(stated.get(key)) for key in _CONDITIONS] if isinstance(stated, dict) else []])


def _check(side: DriveSide) -> None:
    if len(side.runs) < 2:
        return
    for what, names in (
        ("models", ("model", "profile")),
        ("versions of the drive's firmware", ("firmware",)),
    ):
        found = dict.fromkeys(" ".join(str(run.drive.get(name) or "") for name in names).strip() for run in side.runs)
        if len(found) > 1:
            text = f"Side {side.letter} has runs of different {what} ({', '.join(one or 'unknown' for one in found)})"
            raise ResultsError(f"{text}, which do not repeat one another. Put --with before the runs of another side.")
    hashes: dict[str, str] = {}
    for run in side.runs:
        profile_hash = str(run.drive.get("profile_hash") or "")
        if hashes.setdefault(str(run.drive.get("serial") or ""), profile_hash) != profile_hash:
            text = f"Side {side.letter} has runs of different versions of the drive model's profile with one serial number"
            raise ResultsError(f"{text}, which do not repeat one another. Put --with before the runs of another side.")
    twins: dict[tuple[Any, ...], Run] = {}
    for run in side.runs:
        seed = seed_of(run)
        if run.origin is Origin.MEASURED or seed is None:
            continue
        key = (seed, repeats_key(run))
        if key in twins:
            both = f"{_named(twins[key])} and {_named(run)}"
            text = f"{both} are runs of a drive model with one seed ({seed}): the second repeats every figure of the first"
            raise ResultsError(f"{text} and says nothing of the spread. Run the model with --repeat, or with another --seed.")
        twins[key] = run


def seed_of(run: Run) -> int | None:
    """Seed of a run on a drive model; None if it is not known."""
    stated = run.told.get("conditions")
    found = stated.get("seed") if isinstance(stated, dict) else None
    return found if isinstance(found, int) else None


def _named(run: Run) -> str:
    return run.source or run.id or run.content_hash[:12]


def repeated_in(folder: Path) -> list[Path]:
    """Return the folders of the runs that ``wattbell run --repeat`` left in ``folder``; empty for any other folder.

    Raises ResultsError when the list of runs is damaged, or a run is missing.
    """
    file = folder / REPEATS
    if not file.is_file():
        return []
    try:
        listed = json.loads(door.read_text(file, door.SETTINGS))["runs"]
        names = [str(name) for name in listed]
    except (OSError, ValueError, LookupError, TypeError):
        raise ResultsError(f"{file} is damaged; name the folders of its runs one by one.") from None
    if not names or any(Path(name).name != name for name in names):
        raise ResultsError(f"{file} names no runs, or some that lie elsewhere; name the folders of its runs one by one.")
    missing = [name for name in names if not (folder / name / "results.json").is_file()]
    if missing:
        text = f"{folder} lacks the results of {len(missing)} of its {len(names)} runs ({', '.join(missing)})"
        raise ResultsError(f"{text}; finish them with --resume, or name the folders of the others one by one.")
    return [folder / name for name in names]
