"""``wattbell check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import output
from .options import CaptureArgument, Json, Wide

if TYPE_CHECKING:
    from ..capture.check import Checkup

_COLOURS = {"whole": "green", "damaged": "bold red", "missing": "bold red", "no hash": "yellow"}


def check(
    capture: CaptureArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild what is damaged from the journal; without one, set it aside and mark the figures.")
    ] = False,
    seal: Annotated[bool, typer.Option("--seal", help="Accept the capture as it is now, after you edited it: new hashes.")] = False,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Check whether a capture is as it was recorded: every file is compared with its hash in meta.json.

    The exit code is 0 for a whole capture, 1 for a damaged one. A capture recorded with --keep-stream can be rebuilt from
    its journal. Without the journal, --repair sets a damaged file aside: the rest can be used, and its figures state the
    loss.

      wattbell check capture

      wattbell check capture --repair
    """
    from ..capture import check as checks

    with output.bar("checking") as progress:
        found = checks.check(capture, progress)
    done: dict[str, str] = {}
    if seal:
        _seal(found)
    if repair:
        from ..capture.repair import repair as mend

        with output.bar("repairing") as progress:
            done = {name: remedy.value for name, remedy in mend(found, progress)}
    if seal or repair:
        with output.bar("checking") as progress:
            found = checks.check(capture, progress)
    if json:
        output.print_json({**found.to_json(), "repaired": done})
    else:
        _show(found, done)
    if not found.whole:
        raise typer.Exit(1)


def _seal(found: Checkup) -> None:
    from ..capture import meta
    from ..errors import CaptureError

    if found.description is None:
        raise CaptureError(f"{found.files[0].detail} It cannot be sealed.")
    if found.unfinished:
        raise CaptureError(f"{found.path} is not finished: `wattbell check --repair` rebuilds it from its journal.")
    unreadable = [file.name for file in found.damaged if file.detail.startswith("cannot be read")]
    if unreadable:
        raise CaptureError(f"{found.path}: {', '.join(unreadable)} cannot be read, so it is not taken as it is; see --repair.")
    meta.seal(found.path, found.description)


def _show(found: Checkup, done: dict[str, str]) -> None:
    from rich.text import Text

    shown = output.table("file", "state", "")
    for file in found.files:
        shown.add_row(file.name, Text(file.health.value, _COLOURS[file.health.value]), file.detail)
    output.out.print(shown)
    for name, remedy in done.items():
        output.say(f"{name}: {remedy}.")
    for line in _advice(found):
        output.say(line)


def _advice(found: Checkup) -> list[str]:
    """Return the conclusion, and advice."""
    if found.unfinished:
        return ["Its recorder died; it is rebuilt from its journal when it is opened, or by --repair."]
    if found.whole and not found.sealed:
        return ["No hashes: it was written before there were any, so only what cannot be read is seen. --seal adds them."]
    if found.whole and found.aside:
        return [f"Whole, but for what was damaged and set aside: {', '.join(found.aside)}."]
    if found.whole:
        return ["Whole: every file is as it was recorded."]
    lines = []
    by_remedy: dict[str, list[str]] = {}
    for file in found.damaged:
        by_remedy.setdefault(found.remedy(file).name, []).append(file.name)
    names = {remedy: ", ".join(files) for remedy, files in by_remedy.items()}
    if "rebuild" in names:
        lines.append(f"The journal is whole: --repair rebuilds {names['rebuild']} from it.")
    if "set_aside" in names:
        usable = ", ".join(file.name for file in found.files if not file.bad)
        lines.append(f"Nothing to rebuild {names['set_aside']} from; usable: {usable}.")
        lines.append("--repair sets the damaged files aside, so that the rest can be used; its figures then say what is lost.")
    if "mark" in names:
        lines.append("If you edited meta.json yourself: --seal accepts it as it is. Otherwise --repair, with a note under every figure.")
    if "none" in names:
        lines.append(f"Nothing can be done about {names['none']} here: restore it from a copy of the capture.")
    return lines
