"""Work for a real drive other than a suite: a plan, a fio job file, a trace or a command, as a session by itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from .. import door
from ..errors import CommandEnded, UsageError
from ..suites.jobs import named, of_a_suite
from ..suites.outlook import writes_data
from ..suites.planfile import read_plan
from ..suites.session import Session
from ..suites.step import Step
from ..text import printable
from ..virtual.tracefile import is_trace, replay_plan
from ..virtual.voice import Voice

RAIL_INTERVAL_S = 1e-4
"""Interval of a rail sample in s for work without a suite: one sample for each 100 us that OCP asks for."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a command that is not there, or that cannot be run."""


@dataclass(frozen=True)
class Work:
    """Work as a session.

    source: ``workload`` of the capture's metadata
    writes: whether the work may change data on the drive; unknown for a command, and without meaning for a model
    command: whether the work is a command
    """

    session: Session
    source: Mapping[str, Any]
    writes: bool
    command: bool = False
    notes: tuple[str, ...] = ()


def read_work(file: Path, drive: str | None, folder: Path, voice: Voice) -> Work:
    """Read the work in a file: a plan (.toml), a fio job file (.fio), or a trace, which is converted to an iolog in ``folder``.

    drive: path of the drive under test, which a job file has to name; None for a model, which ignores the path

    Raises UsageError when the file makes no sense, or names another drive.
    """
    if is_trace(file):
        return _planned(replay_plan(file, folder, voice), file, drive)
    if file.suffix == ".toml":
        return _planned(file, file, drive)
    step = Step(name=_one_line(file.stem), fio=file.name)
    return _made(file, [step], {file.name: _job(file, drive)}, drive)


def _planned(plan: Path, file: Path, drive: str | None) -> Work:
    read = read_plan(plan)
    files: dict[str, str] = {}
    names: dict[Path, str] = {}
    steps = []
    for step in read.steps:
        if step.fio is not None:
            path = read.folder / step.fio
            if path not in names:  # files of two folders may have one name
                name = f"{path.name.removesuffix('.fio')}.fio"
                names[path] = f"{len(names) + 1}-{name}" if name in files else name
                files[names[path]] = _job(path, drive)
            step = _replaced(step, fio=names[path])
        elif step.trace is not None:
            step = _replaced(step, trace=str(read.folder / step.trace))
        steps.append(step)
    about = [text for text, given in (("condition", read.condition), ("data_bytes", read.data_bytes)) if given is not None]
    notes = (f"the plan's {' and '.join(about)} describe a model's drive: this one was as it was found",) if about else ()
    return _made(file, steps, files, drive, notes)


def _replaced(step: Step, **keys: str) -> Step:
    return msgspec.structs.replace(step, **keys)


def _made(file: Path, steps: Sequence[Step], files: dict[str, str], drive: str | None, notes: tuple[str, ...] = ()) -> Work:
    session = Session(_one_line(file.stem), "as found", [], RAIL_INTERVAL_S, steps=list(steps), files=files)
    writes = drive is not None and any(writes_data(step, files) for step in steps)
    return Work(session, {"source": "fio", "job": file.name}, writes, notes=notes)


def _job(path: Path, drive: str | None) -> str:
    """A job file that fio may run on the drive, and on nothing else."""
    try:
        text = named(door.read_text(path, door.SETTINGS), drive)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file ({error}).") from None
    if drive is None:
        return text
    try:
        of_a_suite(text, str(path))
    except UsageError as error:
        raise UsageError(
            f"{error} On a real drive a job file names that drive and no other file (${{WATTBELL_DRIVE}}, or {drive}); "
            f"fio as it is runs with `-- fio {path}`."
        ) from None
    return text


def command_work(words: Sequence[str]) -> Work:
    """A command with its arguments. CommandEnded with a shell's exit code when there is no such program."""
    if not words:
        raise UsageError("There is no command behind `--`.")
    if shutil.which(words[0]) is None:
        there = os.path.exists(words[0]) and os.sep in words[0]
        reason = "cannot be executed" if there else "is not a program that can be found"
        raise CommandEnded(f"{words[0]} {reason}. Nothing was recorded.", NOT_EXECUTABLE if there else NOT_FOUND)
    name = _one_line(Path(words[0]).name)
    step = Step(name=name, command=tuple(words), apst=None, aspm=None)
    session = Session(name, "as found", [], RAIL_INTERVAL_S, steps=[step])
    shown = [printable(word) for word in words]
    return Work(session, {"source": "command", "job": name, "command": shown}, writes=False, command=True)


def with_power(work: Work, apst: bool | None, aspm: str | None) -> Work:
    """The work with APST and ASPM as asked for, where they are not None."""
    asked = {name: value for name, value in (("apst", apst), ("aspm", aspm)) if value is not None}
    if not asked:
        return work
    steps = [msgspec.structs.replace(step, **asked) for step in work.session.steps]
    return replace(work, session=replace(work.session, steps=steps))


def _one_line(name: str) -> str:
    return " ".join(printable(name).split())[:100] or "work"
