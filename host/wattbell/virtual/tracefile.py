"""A user's own trace as a plan with one step."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from .. import door
from ..errors import UsageError
from ..hostlog.iolog import write_iolog
from ..suites.traces.blkparse import read_blkparse
from ..text import printable
from .voice import Voice

_JOBS = (".fio", ".toml")


def is_trace(path: Path) -> bool:
    """Whether a file is a trace: an iolog by its first line, text of blkparse where it is no job file by its name.

    Raises UsageError when it cannot be read.
    """
    try:
        with door.open_file(path, door.LOG) as stream:
            return stream.read(12) == b"fio version " or path.suffix not in _JOBS
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None


def replay_plan(trace: Path, folder: Path, voice: Voice) -> Path:
    """A plan in ``folder`` that replays a trace; the plan says the trace's hash.

    Raises UsageError when the file is no trace, or cannot be read.
    """
    try:
        content = door.read_bytes(trace, door.TRACE)
        str(trace.resolve()).encode()
    except OSError as error:
        raise UsageError(f"{trace} cannot be read ({error.strerror}).") from None
    except UnicodeEncodeError:
        raise UsageError(f"{trace}: its name is no UTF-8, which a plan is; rename it.") from None
    source = trace
    if not content.startswith(b"fio version "):
        source = folder / "trace.iolog"
        entries = read_blkparse(trace)
        write_iolog(source, entries)
        voice.say(f"{trace}: {len(entries)} entries of blkparse.")
    plan = folder / "trace.toml"
    lines = [
        f"# {_one_line(trace.name)}, sha256 {hashlib.sha256(content).hexdigest()}",
        "[[step]]",
        f"name = {json.dumps(_one_line(trace.stem))}",
        f"trace = {json.dumps(str(source.resolve()))}",
    ]
    plan.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return plan


def _one_line(name: str) -> str:
    return " ".join(printable(name).split())
