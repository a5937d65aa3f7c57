"""A capture that no suite wrote, as a run: each of its phases is a test with one point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from .. import door
from ..analysis.loss import lost_counts
from ..analysis.names import size_text
from ..jsondata import Json, JsonObject
from ..measure.encode import point_json, quantity_json, score_json
from ..measure.figure import Figure
from ..measure.point import Point, Score
from ..origin import origin_of_capture
from ..suites.kinds.idle import IdleTest
from ..suites.kinds.wake import WakeTest
from .model import Run, parse

if TYPE_CHECKING:
    from ..analysis.result import Analysis, PhaseResult


_ALL = 0.99
"""Share of a state's time in which the link was in one state, above which that is the state's."""


def _point(phase: PhaseResult) -> Point[Figure]:
    rates, power, latency = phase["rates"], phase["power"], phase["commands"]["all"]["latency_s"]
    lost = phase["commands"].get("lost", 0)
    found = {
        "mb_per_s": rates.get("mb_per_s"),
        "iops": rates.get("iops"),
        "mean_w": power.get("active", {}).get("mean_w") or power.get("mean_w"),
        "mb_per_j": phase["efficiency"].get("mb_per_j"),
        "energy_j": power.get("energy_j"),
        "mean_latency_s": Figure(latency["mean"], latency["u"].get("mean"), "s", lost),
        "p99_latency_s": Figure(latency["p99"], latency["u"].get("p99"), "s", lost),
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
        units = (("mb_per_s", "MB/s"), ("mean_w", "W"), ("mb_per_j", "MB/J"))
        scores = _scores([Score("rate", unit, point[key]) for key, unit in units if key in point.figures])
        tests.append({"test": phase["name"], "name": phase["name"], "points": [point_json(point)], "scores": scores})
    for level in result["idle"]["levels"]:
        scores = _scores([Score("mean power", "W", level["mean_w"])])
        if scores:
            test = {"test": f"idle {level['label']}", "name": f"Idle, {level['label']}", "kind": IdleTest.name}
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
        tests.append({"test": f"wake-up {group['state']} {group['class']}", "name": name, "kind": WakeTest.name, "scores": scores})
    return tests


def _energies(result: Analysis) -> JsonObject:
    """Return the energies of an analysis in the form of :class:`.energies.Energies`."""
    return {
        "phases": [_phase_energy(phase) for phase in result["phases"] if "energy_per_command" in phase],
        "alone": [
            {"name": name, "energy_j": quantity_json(one["mean_j"]), "note": str(one["mean_j"].conditions.get("absent") or "")}
            for name, one in result["alone"].get("classes", {}).items()
        ],
        "states": _states(result),
        "states_absent": result["power_states"].get("absent", ""),
        "passages": [
            {
                "state": one["state"],
                "by": one["class"],
                "count": one["count"],
                "entry_s": quantity_json(one["entry_s"]),
                "entry_j": quantity_json(one["entry_j"]),
                "exit_s": quantity_json(one["exit_s"]),
                "exit_j": quantity_json(one["exit_j"]),
                "break_even_s": quantity_json(one["break_even_s"]),
                "note": _said(one["exit_j"], "note"),
                "absent": _said(one["break_even_s"], "absent"),
            }
            for one in result["wakeup"]["transitions"]
        ],
    }


def _said(figure: Figure, *names: str) -> str:
    return "; ".join(str(figure.conditions[name]) for name in names if figure.conditions.get(name))


def _phase_energy(phase: PhaseResult) -> JsonObject:
    found = phase["energy_per_command"]
    shares = found.get("shares")
    woken = phase["kind"] == WakeTest.name  # its command cost the energy of the drive's waking
    made: JsonObject = {
        "name": phase["name"],
        "classes": [
            {
                "name": name,
                "energy_j": quantity_json(figure),
                "depth": str(figure.conditions.get("depth", "")),
                "note": _said(figure, "note"),
                "mix": _mix(name, phase) if " + " in name else {},
            }
            for name, figure in found.get("classes", {}).items()
            if not woken
        ],
        "absent": found.get("absent", ""),
    }
    if shares is not None and "absent" not in shares:
        made["shares"] = {
            "total_j": quantity_json(shares["total_j"]),
            "baseline_j": quantity_json(shares["baseline_j"]),
            "classes_j": {name: quantity_json(figure) for name, figure in shares["classes_j"].items()},
            "after_j": quantity_json(shares["after_j"]),
            "deferred_j": quantity_json(shares["deferred_j"]),
            "unexplained_j": quantity_json(shares["unexplained_j"]),
        }
    return made


def _mix(name: str, phase: PhaseResult) -> JsonObject:
    """Return the number of commands of each class that shares one figure; empty if a class is not all of its opcode and size."""
    counted: JsonObject = {}
    for opcode, by_size in phase["commands"]["by_opcode_size"].items():
        counted |= {f"{opcode} {size_text(int(size))}": one["count"] for size, one in by_size.items() if size.isdigit() and int(size)}
    counted |= {opcode: one["count"] for opcode, one in phase["commands"]["by_opcode"].items()}
    classes = name.split(" + ")
    return {one: counted[one] for one in classes} if all(one in counted for one in classes) else {}


def _states(result: Analysis) -> list[Json]:
    """The states by label, with the levels of idle power that have it. Without any, it is the mean of the spans, which has no interval."""
    found = result["power_states"]
    made: list[Json] = []
    for label, time_s in found["time_s"].items():
        spans = [span for span in found["spans"] if span["label"] == label]
        sure = _mean([(span["probability"], span["duration_s"]) for span in spans])
        levels = {_link(level["link"]): level["mean_w"] for level in reversed(result["idle"]["levels"]) if level["label"] == label}
        if not levels and (mean_w := _mean([(span["mean_w"], span["duration_s"]) for span in spans])) is not None:
            levels[""] = Figure(mean_w, None, "W")
        made.append(
            {
                "label": label,
                "time_s": time_s,
                "share": found["share"].get(label, 0.0),
                "probability": None if sure is None else min(sure, 1.0),  # a sum of shares, which rounds
                "levels": [{"link": link, "power_w": quantity_json(power_w)} for link, power_w in levels.items()],
            }
        )
    return made


def _link(shares: Mapping[str, float] | None) -> str:
    return next((name.replace("_", ".") for name, share in (shares or {}).items() if share > _ALL), "")


def _mean(weighted: Sequence[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None]
    whole = sum(weight for _, weight in known)
    return float(sum(value * weight for value, weight in known) / whole) if whole else None


def _hash_jobs(folder: Path | None) -> str:
    """Hash of the job files a capture kept: two captures with the same one ran the same commands."""
    total = sha256()
    if folder is None or not folder.is_dir():
        return total.hexdigest()
    for path in sorted(folder.iterdir()):
        job = path.suffix in (".fio", ".iolog") or path.name.endswith("plan.toml")
        if job and path.is_file() and path.resolve().parent == folder.resolve():
            total.update(path.name.encode() + b"\0" + door.read_bytes(path, door.TRACE))
    return total.hexdigest()


def run_from_capture(path: Path) -> Run:
    """Analyse a capture into a run with the suite name ``capture``. Raises CaptureError as opening it does."""
    from ..analysis.analyze import figures_of
    from ..capture import open_capture

    capture = open_capture(path)
    result = figures_of(capture)
    about = result["capture"]
    conditions = about["conditions"]
    seed = (capture.meta.get("workload") or {}).get("seed")
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
        "conditions": {**conditions, **({} if seed is None else {"seed": seed})},
        "virtual": origin_of_capture(capture.meta).stated,
        "lost": lost_counts(loss),
        "notes": result["warnings"],
        "capture": str(path.resolve()),
        "tests": _tests(result),
        "energy": _energies(result),
    }
    return parse(document, str(path), source=str(path.resolve()))
