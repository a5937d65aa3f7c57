"""``results.json``: the result of a suite's run, with everything needed to know how it was made (docs/suites.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import door, durable
from ..capture import Capture
from ..errors import UsageError
from ..jsondata import JsonObject
from ..measure.encode import point_json, score_json
from ..measure.errormodel import error_model
from ..version import described
from .drive import Drive
from .outcome import Outcome
from .suite import Suite, Test

FORMAT = 1
RESULTS = "results.json"
INTERRUPTED = re.compile(r".+-interrupted(-\d+)?")
"""Name of the folder with the recording of an interrupted session, beside the capture of the session that replaced it."""


class Results:
    """The results of one run, written after every session: an interrupted suite keeps its results so far.

    planned: (test, condition) of everything that is to run
    versions: those known before the first session
    """

    def __init__(
        self,
        folder: Path,
        suite: Suite,
        drive: Drive,
        scale: float,
        conditions: Mapping[str, Any],
        planned: Sequence[tuple[Test, str]] = (),
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self.data: JsonObject = {
            "format": FORMAT,
            "suite": suite.name,
            "suite_hash": suite.digest,
            "scale": scale,
            "scaled": scale != 1,
            "condition": None,
            "drive": drive.describe(),
            "started_utc": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"host": described(), "gateware": None, "firmware": None, "model": None, **(versions or {})},
            "conditions": dict(conditions),
            "virtual": True,
            "lost": {},
            "planned": [[test.id, condition] for test, condition in planned],
            "tests": [],
        }

    def take_up(self, begun: Mapping[str, Any]) -> None:
        """Continue with the results of an interrupted run."""
        self.data = dict(begun)

    def add(self, test: Test, condition: str, outcome: Outcome, capture: Path, seconds: float) -> JsonObject:
        """One more test; its series goes to ``series/``. Returns its entry."""
        series = None
        if outcome.series is not None and len(outcome.series):
            series = f"series/{test.id}-{condition}.parquet"
            path = self._folder / series
            path.parent.mkdir(parents=True, exist_ok=True)
            outcome.series.write_parquet(path)
            durable.flush(path)
            durable.flush(path.parent)
        entry = {
            "test": test.id,
            "name": test.name,
            "kind": test.kind,
            "condition": condition,
            "points": [point_json(point) for point in outcome.points],
            "scores": [score_json(score) for score in outcome.scores],
            "peaks": {window: peak.json for window, peak in outcome.peaks.items()},
            "series": series,
            "notes": outcome.notes,
            "lost": outcome.lost,
            "capture": str(capture.relative_to(self._folder)),
            "wall_s": round(seconds, 3),
            **({} if outcome.health is None else {"health": outcome.health}),
        }
        self.data["tests"].append(entry)
        for kind, n in outcome.lost.items():
            self.data["lost"][kind] = self.data["lost"].get(kind, 0) + n
        found = sorted({t["condition"] for t in self.data["tests"]})
        self.data["condition"] = found[0] if len(found) == 1 else "both" if "full" in found else "test-data"
        return entry

    def describe(self, capture: Capture) -> None:
        """Take versions, the error model, and the drive's own description (Identify) from a capture."""
        meta = capture.meta
        rig, drive = meta.get("rig") or {}, meta.get("drive") or {}
        versions = self.data["versions"]
        for key in ("gateware", "firmware"):
            versions[key] = rig.get(key) or versions[key]
        versions["model"] = (meta.get("workload") or {}).get("model") or versions["model"]
        self.data["drive"] |= {k: v for k, v in drive.items() if v is not None and k not in ("source", "namespaces")}
        self.data["uncertainty"] = error_model(meta).to_json()
        notes = (meta.get("conditions") or {}).get("notes") or []
        self.data["conditions"].setdefault("notes", [])
        self.data["conditions"]["notes"] += [n for n in notes if n not in self.data["conditions"]["notes"]]

    def write(self) -> Path:
        """Write the file atomically, safe against a power cut."""
        path = self._folder / RESULTS
        part = part_of(path)
        part.write_text(json.dumps(self.data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        durable.replace(part, path)
        return path


def part_of(path: Path) -> Path:
    """The name under which a file is written until it is whole."""
    return path.with_suffix(".part")


def read_results(path: Path) -> JsonObject:
    """``results.json`` of a folder (or the file itself). Raises UsageError when it is missing or none."""
    file = path / RESULTS if path.is_dir() else path
    try:
        data = json.loads(door.read_text(file, door.DOCUMENT))
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise UsageError(f"{file} is not JSON ({error}).") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("tests"), list):
        raise UsageError(f"{file} holds no results of format {FORMAT}.")
    return data
