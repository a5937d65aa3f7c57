"""``wattbell run TRACE``: a user's own trace as a plan with one step."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ..suites import traces
from . import output

_JOBS = (".fio", ".toml")


def is_trace(path: Path) -> bool:
    """Whether a file is a trace: an iolog by its first line, text of blkparse where it is no job file by its name."""
    with path.open("rb") as stream:
        return stream.read(12) == b"fio version " or path.suffix not in _JOBS


def replay_plan(trace: Path, folder: Path) -> Path:
    """A plan in ``folder`` that replays a trace; the plan says the trace's hash. UsageError when the file is no trace."""
    content = trace.read_bytes()
    source = trace
    if not content.startswith(b"fio version "):
        source = folder / f"{trace.stem}.iolog"
        entries = traces.read_blkparse(trace)
        traces.write_iolog(source, entries)
        output.say(f"{trace}: {len(entries)} entries of blkparse.")
    plan = folder / f"{trace.stem}.toml"
    lines = [
        f"# {trace.name}, sha256 {hashlib.sha256(content).hexdigest()}",
        "[[step]]",
        f"name = {json.dumps(trace.stem)}",
        f"trace = {json.dumps(str(source.resolve()))}",
    ]
    plan.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return plan
