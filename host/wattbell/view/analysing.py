"""``python -m wattbell.view.analysing CAPTURE``: the figures of a capture and the part that the page shows, as JSON.

It runs beside the page's server, which would otherwise share one interpreter with it, and lets everything else on the machine go first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, Literal

from ..analysis import figures_of
from ..analysis.result import Analysis, EnergyPerCommand, Span
from ..capture import open_capture
from ..errors import WattbellError
from ..jsondata import JsonObject
from ..measure.encode import tree_json
from ..measure.figure import Figure
from ..present.joules import stacked

REFUSED = 3
"""Exit code where stdout is a line for the user."""
_NICE = 10
Look = Literal["active", "awake", "asleep", "waking", "work", "reset", "unknown"]
_LOOKS: dict[str, Look] = {"active": "active", "waking": "waking", "reset": "reset", "unknown": "unknown", "background work": "work"}


def energy_of(result: Analysis) -> JsonObject:
    """Return the part of an analysis that the page shows: states, and by phase the classes and the uses of energy.

    Ticks are the capture's.
    """
    about, found = result["capture"], result["power_states"]
    asleep = {f"PS{state['state']}" for state in (about.get("drive") or {}).get("power_states") or [] if state.get("non_operational")}
    phases = [_phase(phase["phase"], phase["name"], phase["kind"], phase) for phase in result["phases"]]
    return {
        "states": {
            "absent": found.get("absent"),
            "total": found["spans_total"],
            "share": found["share"],
            "spans": [_span(span, asleep) for span in found["spans"]],
        },
        "phases": phases or [_phase(0, "whole capture", "", {**about, **result})],
        "alone": [{"name": name, **_figure(one["mean_j"])} for name, one in result["alone"].get("classes", {}).items()],
    }


def _span(span: Span, asleep: set[str]) -> JsonObject:
    names = span["label"].split(" or ")
    return {
        "begin": span["first_tick"],
        "end": span["last_tick"],
        "label": span["label"],
        "look": _LOOKS.get(span["label"]) or ("asleep" if all(name in asleep for name in names) else "awake"),
        "probability": span["probability"],
        "mean_w": span["mean_w"],
        "link": span["link"],
        "why": span["why"],
        "shares": span["shares"],
    }


def _phase(number: int, name: str, kind: str, window: Mapping[str, Any]) -> JsonObject:
    none: EnergyPerCommand = {"absent": str(window["efficiency"].get("absent") or "no I/O")}
    found: EnergyPerCommand = window.get("energy_per_command", none)
    shares = found.get("shares")
    made: JsonObject = {
        "number": number,
        "name": name,
        "kind": kind,
        "begin": window["first_tick"],
        "end": window["last_tick"],
        "absent": found.get("absent"),
        "classes": [
            {"name": each, **_figure(one), "depth": str(one.conditions.get("depth", "")), "note": str(one.conditions.get("note") or "")}
            for each, one in found.get("classes", {}).items()
        ],
        "stack": None,
    }
    if shares is not None and "absent" not in shares:
        bar = stacked(name, shares)
        made["stack"] = {
            "total_j": bar.value.value,
            "unexplained_j": shares["unexplained_j"].known,
            "parts": [{"name": part.name, "j": part.value} for part in bar.parts],
        }
    return made


def _figure(one: Figure) -> JsonObject:
    return {"j": one.value, "u_j": one.u, "lost": one.lost, "absent": str(one.conditions.get("absent") or "")}


def main(path: str) -> int:
    """The exit code: 0, or ``REFUSED``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is the server's to answer; this ends by it without a word
    os.nice(_NICE)
    try:
        result = figures_of(open_capture(path, verify=False))
    except WattbellError as error:
        sys.stdout.write(str(error))
        return REFUSED
    json.dump({"figures": tree_json(result), "energy": energy_of(result)}, sys.stdout, allow_nan=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
