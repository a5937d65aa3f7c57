"""Run a suite several times to learn the spread between runs: a folder of results folders, with a list of the runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .. import door, durable
from ..errors import SimError, UsageError
from ..results.sides import REPEATS
from ..suites.results import RESULTS, part_of
from .bench import Bench
from .ending import Ending, Kept
from .folder import occupied
from .runner import Audience, SuiteOrder, run_suite

FORMAT = 1


def run_repeated(order: SuiteOrder, times: int, bench: Callable[[int, Path], Bench], ending: Ending, audience: Audience) -> list[Kept]:
    """Run a suite ``times`` times, into ``1``, ``2``, ... of ``order.out``. With ``resume``, run only the rest.

    bench: makes the bench of a run from its number (0 first) and its folder

    Raises UsageError or SimError when files are in the way.
    """
    in_the_way_of_repeats(order, times)
    folders = _begin(order, times)
    kept = []
    for number, folder in enumerate(folders):
        audience.say(f"run {number + 1} of {times}")
        begun = order.resume and (folder / RESULTS).is_file()
        kept.append(run_suite(replace(order, out=folder, resume=begun, force=False), bench(number, folder), ending, audience))
    return kept


def in_the_way_of_repeats(order: SuiteOrder, times: int) -> None:
    """UsageError or SimError when repeated runs cannot begin in ``order.out``, or go on there. Nothing is changed."""
    out, listed = order.out, order.out / REPEATS
    if order.resume:
        if not listed.is_file():
            raise UsageError(f"{out} holds no {REPEATS}: no repeated runs were begun there. Leave out --resume.")
        begun = len(_names(listed))
        if begun != times:
            raise UsageError(f"{out} was started with --repeat {begun}, not {times}. Use the same, or start anew in another --out.")
        return
    if occupied(out, REPEATS):
        if not order.force:
            hint = " (or --resume, if those runs were interrupted)" if listed.is_file() else ""
            raise SimError(f"{out} exists already; choose another name, or add --force to replace it{hint}.")
        if not listed.is_file():
            raise UsageError(f"{out} holds no {REPEATS}; with --repeat, --force replaces only repeated runs.")


def _names(listed: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads(door.read_text(listed, door.SETTINGS))["runs"]]
    except (OSError, ValueError, LookupError, TypeError):
        raise UsageError(f"{listed} is damaged: start anew in another --out.") from None


def _begin(order: SuiteOrder, times: int) -> list[Path]:
    """Return the folders of the runs. Their list is written before the first run, so that an interrupted run can go on."""
    out = order.out
    names = [str(number) for number in range(1, times + 1)]
    if not order.resume:
        if out.exists():
            shutil.rmtree(out)
        try:
            durable.make_folder(out)
            part = part_of(out / REPEATS)
            part.write_text(json.dumps({"format": FORMAT, "runs": names}) + "\n", encoding="utf-8")
            durable.replace(part, out / REPEATS)
        except OSError as error:
            raise UsageError(f"{out} cannot be made ({error.strerror}); choose another --out.") from None
    return [out / name for name in names]
