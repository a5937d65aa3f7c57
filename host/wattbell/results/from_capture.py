"""A capture that no suite wrote, as a run: each of its phases is a test with one point."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..analysis.loss import lost_counts
from ..suites.kinds.idle import Idle
from ..suites.kinds.wake import Wake
from .model import Run, parse

_RATES = ("mb_per_s", "iops")


def _q(figure: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not figure or figure.get("value") is None:
        return None
    return {"value": figure["value"], "u": figure.get("u"), "n_lost": int(figure.get("lost") or 0)}


def _point(phase: Mapping[str, Any]) -> dict[str, Any]:
    point: dict[str, Any] = {"x": {}}
    for key in _RATES:
        point[key] = _q(phase["rates"].get(key))
    point["mean_w"] = _q(phase["power"].get("active", {}).get("mean_w") or phase["power"].get("mean_w"))
    point["mb_per_s_per_w"] = _q(phase["efficiency"].get("mb_per_s_per_w"))
    point["energy_j"] = _q(phase["power"].get("energy_j"))
    latency = phase["commands"]["all"]["latency_s"]
    lost = int(phase["commands"].get("lost") or 0)
    for key, name in (("mean", "mean_latency_s"), ("p99", "p99_latency_s")):
        if latency.get(key) is not None:
            point[name] = {"value": latency[key], "u": None, "n_lost": lost}
    return {k: v for k, v in point.items() if v is not None}


def _tests(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = []
    for phase in result["phases"]:
        if phase["kind"] in ("idle", "wake") or not phase["rates"]["count"]:
            continue
        point = _point(phase)
        scores = [
            {"name": "rate", "unit": unit, "value": point[key], "reading": None}
            for key, unit in (("mb_per_s", "MB/s"), ("mean_w", "W"), ("mb_per_s_per_w", "MB/s/W"))
            if key in point
        ]
        tests.append({"test": str(phase["name"]), "name": str(phase["name"]), "points": [point], "scores": scores})
    for level in result["idle"]["levels"]:
        value = _q(level["mean_w"])
        if value is not None:
            name = f"Idle, {level['label']}"
            scores = [{"name": "mean power", "unit": "W", "value": value, "reading": None}]
            tests.append({"test": f"idle {level['label']}", "name": name, "kind": Idle.name, "points": [], "scores": scores})
    for group in result["wakeup"]["by_state"]:
        latency = group["latency_s"]
        if latency["mean"] is None or group["class"].startswith(("marker", "admin")):
            continue
        scores = [
            {"name": name, "unit": "s", "value": {"value": latency[key], "u": latency["u"].get(key), "n_lost": int(group["lost"])}}
            for key, name in (("p50", "median"), ("mean", "mean"), ("max", "max"))
            if latency.get(key) is not None
        ]
        name = f"Wake-up from {group['state']}, {group['class']}"
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
    from ..analysis import analyze
    from ..capture import open_capture

    capture = open_capture(path)
    result = analyze(capture)
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
