"""What a drive model that does not know the newer plan keys is given instead: said in the results."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import SimError
from ..suites.drive import Drive
from ..suites.plan import Session


def simplify(session: Session, drive: Drive) -> list[str]:
    """Takes ``duty``, ``format``, ``fill`` and ``measured`` out of the session's steps; returns what that changed."""
    notes: set[str] = set()
    steps = []
    for step in session.steps:
        if "trace" in step:
            raise SimError("This drive model cannot replay traces yet.")
        if step.pop("duty", None) is not None:
            step.pop("duty_idle_max_s")
            notes.add("no idle time between bursts, depths and mixes: the drive model does not know `duty` yet")
        step.pop("measured", None)
        if "format" in step:
            continue
        if "fill" in step:
            fill = step.pop("fill")
            name = f"{step['name'].replace('#', '-')}.fio"
            size = int(fill["span"] * drive.capacity_bytes) // 131072 * 131072
            session.files[name] = (
                f"[fill]\nfilename=${{WATTBELL_DRIVE}}\nioengine=libaio\ndirect=1\nrw=write\nbs={fill['bs']}\niodepth=32\nsize={size}\n"
            )
            step["fio"] = name
        steps.append(step)
    session.steps = steps
    for name, text in session.files.items():
        session.files[name] = re.sub(r"^refill_buffers=1\n", "", text, flags=re.M)
    return sorted(notes)


def understands(program: Path) -> bool:
    """Whether the drive model knows the newer plan keys."""
    return b"duty_idle_max_s" in program.read_bytes()


def knows_all_but_duty(program: Path) -> bool:
    """Whether only ``duty`` is missing."""
    return b"trace_idle_cut_s" in program.read_bytes()


def without_duty(session: Session) -> list[str]:
    """Takes ``duty`` out of the session's steps; returns what that changed."""
    found = [step for step in session.steps if step.pop("duty", None) is not None]
    for step in found:
        step.pop("duty_idle_max_s")
    return ["no idle time between bursts, depths and mixes: the drive model does not know `duty` yet"] if found else []
