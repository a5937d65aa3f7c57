"""Parts of the page that need all commands and the whole rail: power states, energies, the figures of the whole capture.

A separate process computes them (:mod:`.analysing`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..jsondata import JsonObject
from . import analysing
from .asked import Asked

LIGHT_COMMANDS, LIGHT_SAMPLES = 300_000, 20_000_000
"""Most commands and samples of a capture for which the page asks unprompted: it takes a few seconds."""
_one_at_a_time = threading.Lock()


def is_light(meta: Mapping[str, Any]) -> bool:
    """Whether the page may ask for the energies of this capture by itself."""
    commands, samples = ((meta.get(part) or {}).get(name) or 0 for part, name in (("counts", "commands"), ("rail", "samples")))
    return bool(commands <= LIGHT_COMMANDS and samples <= LIGHT_SAMPLES)


def figures(asked: Asked) -> Response:
    """Return the output of `wattbell analyze --json`."""
    return Response(json.dumps(_worked_out(asked)["figures"], allow_nan=False), media_type="application/json")


def energy(asked: Asked) -> JsonObject:
    """Spans of states with their probabilities, and by phase the energy of one command of each class and where the joules went."""
    found, origin = _worked_out(asked)["energy"], asked.origin

    def moved(part: JsonObject) -> JsonObject:
        return {**part, "begin": part["begin"] - origin, "end": part["end"] - origin}

    states = {**found["states"], "spans": [moved(span) for span in found["states"]["spans"]]}
    return {**found, "states": states, "phases": [moved(phase) for phase in found["phases"]]}


def _worked_out(asked: Asked) -> JsonObject:
    """``figures`` and ``energy``. Computed once; others wait meanwhile. Raises HTTPException with the reason where that cannot be."""
    path = asked.zoom.capture.path.absolute()
    with _one_at_a_time:
        if asked.shown.analysis is None:
            done = subprocess.run([sys.executable, "-m", analysing.__name__, str(path)], capture_output=True, check=False)
            if done.returncode == analysing.REFUSED:
                raise HTTPException(409, done.stdout.decode(errors="replace"))
            if done.returncode:
                raise HTTPException(500, f"The analysis ended without a result; `wattbell analyze {path}` says why.")
            asked.shown.analysis = json.loads(done.stdout)
        return asked.shown.analysis
