"""Prepare the folder of a campaign: make it anew, or continue an interrupted run of the same campaign.

The recordings of an interrupted session are kept in a folder of their own.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import durable
from ..errors import SimError, UsageError
from ..suites.results import RESULTS, Results, part_of, read_results

_NEW = "start anew in another --out"
_SAME: tuple[tuple[tuple[str, ...], str], ...] = (
    (("suite",), "suite {}"),
    (("conditions", "requirements"), "--requirements {}"),
    (("suite_hash",), "another version of the suite's files ({})"),
    (("scale",), "--scale {}"),
    (("planned",), "other tests: {}"),
    (("drive", "profile"), "profile {}"),
    (("drive", "profile_hash"), "another version of the profile ({})"),
    (("drive", "serial"), "drive {}"),
    (("conditions", "seed"), "--seed {}"),
    (("conditions", "rounds"), "--rounds {}"),
    (("conditions", "fidelity"), "--fidelity {}"),
    (("conditions", "preconditioning"), "a drive whose condition was {}"),
    (("conditions", "adc_interval_s"), "--interval {}"),
    (("conditions", "adc_decimation"), "--decimation {}"),
    (("conditions", "as_direct"), "--as-direct {}"),
    (("conditions", "meter"), "--meter {}"),
    (("conditions", "commands"), "--commands {}"),
    (("conditions", "link_speed_gt_s"), "--link-speed {}"),
    (("conditions", "governor"), "--governor {}"),
    (("versions", "host"), "Wattbell {}"),
    (("versions", "virtual_rig"), "another build of the virtual rig ({})"),
    (("versions", "model"), "another build of the drive model ({})"),
)
"""Entries that must agree for two parts to be one run: path in results.json, and the words for the old value in the error."""


def begin(fresh: Results, out: Path, resume: bool, force: bool) -> set[tuple[str, str]]:
    """Make room in ``out`` and write the fresh results there, or continue the run found there. Returns each (test, condition) that is done.

    fresh: everything known before the first session; with ``resume`` the tests that were done are added

    Raises UsageError when ``out`` was begun in another way, SimError when files are in the way.
    """
    in_the_way(out, resume, force)
    if not resume:
        make_room(out)
        fresh.write()
        return set()
    begun = read_results(out)
    difference = _difference(begun, fresh.data)
    if difference:
        raise UsageError(f"{out} was started with {difference}. Use the same options, or {_NEW}.")
    fresh.take_up(begun)
    return _done(begun)


def done_before(out: Path) -> set[tuple[str, str]]:
    """The (test, condition) that are done in ``out``; none where there are no results that could be read, as :func:`begin` will say."""
    try:
        return _done(read_results(out))
    except (UsageError, LookupError, TypeError):
        return set()


def _done(begun: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(t["test"], t["condition"]) for t in begun["tests"]}


def _difference(begun: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    for path, what in _SAME:
        old, new = _at(begun, path), _at(now, path)
        if old == new:
            continue
        if path == ("planned",):
            old = ", ".join(f"{test} ({condition})" for test, condition in old or ()) or "unknown ones"
        return f"{what.format(_shown(old))}, not {_shown(new)}" if path != ("planned",) else what.format(old)
    return None


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _shown(value: Any) -> str:
    return "the default" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def in_the_way(out: Path, resume: bool, force: bool) -> None:
    """UsageError or SimError when a run cannot begin in ``out``, or go on there. Nothing is changed."""
    if resume:
        if not (out / RESULTS).is_file():
            raise UsageError(f"{out} holds no {RESULTS}: there is nothing to resume. Leave out --resume.")
        return
    if occupied(out, RESULTS):
        if not force:
            hint = " (or --resume, if that run was interrupted)" if (out / RESULTS).is_file() else ""
            raise SimError(f"{out} exists already; choose another name, or add --force to replace it{hint}.")
        if not (out / RESULTS).is_file():
            raise UsageError(f"{out} holds no {RESULTS}; --force replaces only the results of a suite.")


def occupied(out: Path, first: str) -> bool:
    """Whether something is at ``out``. A folder that holds only the unfinished file ``first`` is free: a power cut left it so, before
    anything was run."""
    return out.exists() and (not out.is_dir() or any(path != part_of(out / first) for path in out.iterdir()))


def make_room(out: Path) -> None:
    """Make an empty folder for the results. Results of another run are removed, once :func:`in_the_way` found no objection."""
    if occupied(out, RESULTS):
        shutil.rmtree(out)
    try:
        durable.make_folder(out)
    except OSError as error:
        raise UsageError(f"{out} cannot be made ({error.strerror}); choose another --out.") from None


@contextlib.contextmanager
def set_aside(session: str, folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Keep the recording of an interrupted session in a folder with a telling name, also one that a killed run left in ``folder``."""
    if folder.is_dir():
        say(f"{session}: what was recorded before the interruption is in {_moved(folder)}.")
    try:
        yield
    except BaseException:
        if folder.is_dir():
            say(f"{session}: interrupted; what was recorded is in {_moved(folder)}. Continue with --resume.")
        else:
            say(f"{session}: interrupted. Continue with --resume.")
        raise


def _moved(folder: Path) -> Path:
    number = 1
    while (aside := folder.with_name(f"{folder.name}-interrupted" + (f"-{number}" if number > 1 else ""))).exists():
        number += 1
    return folder.rename(aside)
