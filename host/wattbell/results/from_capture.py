"""A capture that no suite wrote, as a run: each of its phases is a test with one point."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.loss import lost_counts
from ..jsondata import Json
from ..measure.encode import point_json, quantity_json, score_json
from ..measure.figure import Figure
from ..measure.point import Point, Score
from ..suites.kinds.idle import Idle
from ..suites.kinds.wake import Wake
from .model import Run, parse

if TYPE_CHECKING:
    from ..analysis.result import Analysis, PhaseResult


def _point(phase: PhaseResult) -> Point[Figure]:
    rates, power, latency = phase["rates"], phase["power"], phase["commands"]["all"]["latency_s"]
    lost = phase["commands"].get("lost", 0)
    found = {
        "mb_per_s": rates.get("mb_per_s"),
        "iops": rates.get("iops"),
        "mean_w": power.get("active", {}).get("mean_w") or power.get("mean_w"),
        "mb_per_s_per_w": phase["efficiency"].get("mb_per_s_per_w"),
        "energy_j": power.get("energy_j"),
        "mean_latency_s": Figure(latency["mean"], None, "s", lost),
        "p99_latency_s": Figure(latency["p99"], None, "s", lost),
    }
    return Point({}, {name: figure for name, figure in found.items() if figure is not None and figure.value is not None})


def _scores(scores: Sequence[Score[Figure]]) -> list[Json]:
    return [score_json(score) for score in scores if score.value.value is not None]


def _tests(result: Analysis) -> list[Json]:
    tests: list[Json] = []
    for phase in result["phases"]:
        if phase["kind"] in ("idle", "wake") or not phase["rates"]["count"]:
            continue
        point = _point(phase)
        units = (("mb_per_s", "MB/s"), ("mean_w", "W"), ("mb_per_s_per_w", "MB/s/W"))
        scores = _scores([Score("rate", unit, point[key]) for key, unit in units if key in point.figures])
        tests.append({"test": phase["name"], "name": phase["name"], "points": [point_json(point)], "scores": scores})
    for level in result["idle"]["levels"]:
        scores = _scores([Score("mean power", "W", level["mean_w"])])
        if scores:
            test = {"test": f"idle {level['label']}", "name": f"Idle, {level['label']}", "kind": Idle.name}
            tests.append({**test, "points": [], "scores": scores})
    for group in result["wakeup"]["by_state"]:
        latency = group["latency_s"]
        if latency["mean"] is None or group["class"].startswith(("marker", "admin")):
            continue
        found = {"median": latency["p50"], "mean": latency["mean"], "max": latency["max"]}
        us = {"median": latency["u"].get("p50"), "mean": latency["u"].get("mean"), "max": latency["u"].get("max")}
        name = f"Wake-up from {group['state']}, {group['class']}"
        scores = [
            {"name": reading, "unit": "s", "value": quantity_json(Figure(value, us[reading], "s", group["lost"]))}
            for reading, value in found.items()
            if value is not None
        ]
        tests.append({"test": f"wake-up {group['state']} {group['class']}", "name": name, "kind": Wake.name, "scores": scores})
    return tests


def _hash_jobs(folder: Path | None) -> str:
    """Hash of the job files a capture kept: two captures with the same one ran the same commands."""
    total = sha256()
    if folder is None or not folder.is_dir():
        return total.hexdigest()
    for path in sorted(folder.iterdir()):
        job = path.suffix in (".fio", ".iolog") or path.name.endswith("plan.toml")
        if job and path.is_file() and path.resolve().parent == folder.resolve():
            total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def run_from_capture(path: Path) -> Run:
    """Analyse a capture into a run with the suite name ``capture``. Raises CaptureError as opening it does."""
    from ..analysis.analyze import figures_of
    from ..capture import open_capture

    capture = open_capture(path)
    result = figures_of(capture)
    about = result["capture"]
    conditions = about["conditions"]
    drive = dict(about.get("drive") or {})
    loss = result["loss"]
    document = {
        "format": 1,
        "suite": "capture",
        "suite_hash": _hash_jobs(capture.workload_dir),
        "scale": 1.0,
        "condition": "",
        "drive": {**drive, "profile": conditions.get("profile")},
        "started_utc": (about.get("utc_anchor") or {}).get("utc"),
        "versions": {**{str(k): str(v) for k, v in about["software"].items()}, "gateware": about["rig"].get("gateware")},
        "conditions": conditions,
        "virtual": bool(conditions.get("virtual")),
        "lost": lost_counts(loss),
        "notes": result["warnings"],
        "capture": str(path.resolve()),
        "tests": _tests(result),
    }
    return parse(document, str(path), source=str(path.resolve()))
