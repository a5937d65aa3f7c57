"""Results directories as `wattbell run SUITE` writes them, made by hand: a drive is a handful of numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

DEPTHS = (1, 2, 4, 8, 16, 32)
MIXES = tuple(k / 10 for k in range(11))
STATES = [
    {"ps": 0, "max_w": 4.0, "operational": True, "entry_us": 0, "exit_us": 0},
    {"ps": 1, "max_w": 3.0, "operational": True, "entry_us": 0, "exit_us": 0},
    {"ps": 2, "max_w": 2.2, "operational": True, "entry_us": 0, "exit_us": 0},
    {"ps": 3, "max_w": 0.03, "operational": False, "entry_us": 5000, "exit_us": 5000},
    {"ps": 4, "max_w": 0.004, "operational": False, "entry_us": 5000, "exit_us": 9000},
]
DRIVES: dict[str, dict[str, Any]] = {
    "intel-660p-1tb": {"model": "Intel SSD 660p 1TB", "base": 60.0, "top": 700.0, "watt": 1.6, "cache": 140.0, "after": 100.0,
                       "idle": 0.010, "wake": 0.055},
    "crucial-p1-1tb": {"model": "Crucial P1 1TB", "base": 45.0, "top": 520.0, "watt": 2.05, "cache": 150.0, "after": 110.0,
                       "idle": 0.012, "wake": 0.052},
    "intel-900p-280gb": {"model": "Intel Optane SSD 900p 280GB", "base": 330.0, "top": 2300.0, "watt": 6.5, "cache": 0.0,
                         "after": 2000.0, "idle": 4.9, "wake": 1e-5},
}  # fmt: skip


def q(value: float, relative: float = 0.002, lost: int = 0) -> dict[str, Any]:
    return {"value": float(value), "u": abs(float(value)) * relative, "n_lost": lost}


def point(x: dict[str, float], rate: float, watt: float, size: int, lost: int = 0) -> dict[str, Any]:
    qd = x.get("qd", 4)
    return {
        "x": x,
        "mb_per_s": q(rate, lost=lost),
        "iops": q(rate * 1e6 / size, lost=lost),
        "mean_w": q(watt, 0.001),
        "mb_per_j": q(rate / watt, lost=lost),
        "mean_latency_s": q(qd * size / rate / 1e6),
        "p99_latency_s": q(3 * qd * size / rate / 1e6, 0.05),
        "energy_j": q(watt * 60, 0.001),
    }


def scores_of(points: list[dict[str, Any]], over: str) -> list[dict[str, Any]]:
    mean = {k: float(np.mean([p[k]["value"] for p in points])) for k in ("mb_per_s", "mean_w", "mb_per_j")}
    return [
        {"name": over, "unit": "MB/s", "value": q(mean["mb_per_s"]), "reading": None},
        {"name": over, "unit": "W", "value": q(mean["mean_w"], 0.001), "reading": None},
        {"name": over, "unit": "MB/s/W", "value": q(mean["mb_per_j"]), "reading": "mean of ratios"},
        {"name": over, "unit": "MB/s/W", "value": q(mean["mb_per_s"] / mean["mean_w"]), "reading": "ratio of means"},
    ]


def _tests(d: dict[str, Any], folder: Path, lost: int) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = []
    for condition, slow in (("test-data", 1.0), ("full", 0.55)):
        for test, name in (("burst-random-read", "Burst random read"), ("burst-random-write", "Burst random write")):
            value = d["base"] * slow * (2.2 if "write" in test else 1.0)
            tests.append(
                {
                    "test": test,
                    "name": name,
                    "condition": condition,
                    "points": [],
                    "series": None,
                    "scores": [{"name": "mean of the bursts", "unit": "MB/s", "value": q(value), "reading": None}],
                }
            )
        for test, name, size in (
            ("sustained-random-read", "Sustained random read", 4096),
            ("sustained-random-write", "Sustained random write", 4096),
            ("sustained-sequential-read", "Sustained sequential read", 131072),
        ):
            points = []
            for qd in DEPTHS:
                rate = d["top"] * slow * (3 if size > 4096 else 1) * qd / (qd + d["top"] / d["base"])
                points.append(point({"qd": qd}, rate, d["watt"] + 0.25 * np.log2(qd), size, lost if qd == 32 else 0))
            tests.append(
                {
                    "test": test,
                    "name": name,
                    "condition": condition,
                    "points": points,
                    "scores": scores_of(points[:3], "mean of QD1, 2, 4"),
                    "series": None,
                    "lost": {"commands": lost} if lost else {},
                }
            )
        points = []
        for share in MIXES:
            rate = d["base"] * 3 * slow * (1 - 1.2 * share * (1 - share) + 0.5 * share**4)
            points.append(point({"write_share": share}, rate, d["watt"] * (1 + 0.5 * share), 4096))
        tests.append(
            {
                "test": "mixed-random",
                "name": "Mixed random",
                "condition": condition,
                "points": points,
                "scores": scores_of(points, "all mixes"),
                "series": None,
            }
        )
    tests.append(_fill(d, folder))
    for test, name, value in (("active-idle", "Active idle", d["idle"] + 0.6), ("idle", "Idle", d["idle"])):
        settled = {"name": "settled (second half of the idle time)", "unit": "W", "value": q(value, 0.01), "reading": None}
        tests.append({"test": test, "name": name, "condition": "test-data", "points": [], "series": None, "scores": [settled]})
    latencies = d["wake"] * (1 + 0.05 * np.sin(np.arange(10)))
    (folder / "series").mkdir(exist_ok=True)
    pl.DataFrame({"latency_s": latencies}).write_parquet(folder / "series" / "idle-wake-up.parquet")
    tests.append(
        {
            "test": "idle-wake-up",
            "name": "Idle wake-up",
            "condition": "test-data",
            "points": [],
            "scores": [{"name": "median, doorbell to completion", "unit": "s", "value": q(np.median(latencies)), "reading": None}],
            "series": "series/idle-wake-up.parquet",
        }
    )
    for condition, slow in (("test-data", 1.0), ("full", 0.2)):
        named = (
            ("data over busy time", "MB/s", 400 * slow),
            ("mean latency, all", "s", 3e-4 / slow),
            ("99th percentile of latency, all", "s", 4e-3 / slow),
            ("energy", "J", 500 / slow),
        )
        tests.append(
            {
                "test": "atsb-heavy-like",
                "name": "ATSB Heavy-like trace",
                "condition": condition,
                "points": [],
                "scores": [{"name": n, "unit": u, "value": q(v), "reading": None} for n, u, v in named],
                "series": None,
            }
        )
    return tests


def _fill(d: dict[str, Any], folder: Path) -> dict[str, Any]:
    gb = np.arange(1.0, 281.0 if "900p" in d["model"] else 1025.0)
    noise = 1 + 0.02 * np.sin(gb * 7.3)
    rate = np.where(gb <= d["cache"], 1800.0, d["after"]) * noise
    (folder / "series").mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame({"gb": gb, "t_s": np.cumsum(1e3 / rate), "mb_per_s": rate, "mean_w": np.where(gb <= d["cache"], 3.6, 2.4)})
    frame.write_parquet(folder / "series" / "whole-drive-fill.parquet")
    scores = [{"name": "after the last change", "unit": "MB/s", "value": q(d["after"], 0.02), "reading": None}]
    if d["cache"]:
        size = {"value": d["cache"], "u": 1.2, "n_lost": 0}
        scores.insert(0, {"name": "written before the rate falls (SLC cache)", "unit": "GB", "value": size, "reading": None})
    return {
        "test": "whole-drive-fill",
        "name": "Whole-drive fill",
        "condition": "empty",
        "points": [],
        "scores": scores,
        "series": "series/whole-drive-fill.parquet",
    }


def energy(scale: float = 1.0) -> dict[str, Any]:
    """Energies of a run that was made of a capture: two phases, commands alone, two states. ``scale``: of its joules and watts."""

    def j(value: float, share: float | None = 0.01) -> dict[str, Any]:
        return {"value": value * scale, "u": None if share is None else share * value * scale, "n_lost": 0}

    def of(name: str, value: float, share: float | None = 0.01, **more: Any) -> dict[str, Any]:
        return {"name": name, "energy_j": j(value, share), "depth": "1 to 4", "note": "", "mix": {}, **more}

    shares = {
        "total_j": j(2.0),
        "baseline_j": j(0.5),
        "classes_j": {"read 4 KiB": j(1.0), "write 4 KiB": j(0.4)},
        "after_j": j(0.01),
        "deferred_j": j(0.05),
        "unexplained_j": j(0.06, None),
    }
    single = {
        "total_j": j(1.0),
        "baseline_j": j(0.4),
        "classes_j": {"read 4 KiB": j(0.6)},
        "after_j": j(0.0),
        "deferred_j": j(0.0),
        "unexplained_j": j(0.0, None),
    }
    mixed = [of("read 4 KiB", 3e-5), of("write 4 KiB", 9e-5, None, note="no interval: too small a part")]
    passage = {
        "state": "PS4",
        "by": "read 4 KiB",
        "count": 3,
        "entry_s": j(0.01),
        "entry_j": j(2e-3),
        "exit_s": j(0.05),
        "exit_j": j(0.04),
        "break_even_s": j(0.2),
        "note": "",
        "absent": "",
    }
    return {
        "phases": [
            {"name": "reads", "classes": [of("read 4 KiB", 2e-5)], "absent": "", "shares": single},
            {"name": "mixed", "classes": mixed, "absent": "", "shares": shares},
            {"name": "none", "classes": [], "absent": "no steady operational idle level"},
        ],
        "alone": [of("read 4 KiB", 4e-5)],
        "states": [
            {"label": "PS0", "time_s": 3.0, "share": 0.3, "probability": 0.99, "levels": [{"link": "L0", "power_w": j(0.6)}]},
            {"label": "PS4", "time_s": 6.0, "share": 0.6, "probability": 0.9, "levels": [{"link": "L1.2", "power_w": j(0.004)}]},
            {"label": "unknown", "time_s": 1.0, "share": 0.1, "probability": None, "levels": []},
        ],
        "states_absent": "",
        "passages": [passage],
    }


def write_results(folder: Path, profile: str = "intel-660p-1tb", lost: int = 0, **more: Any) -> Path:
    """An anandtech-2018 run. ``more`` replaces keys of the document."""
    folder.mkdir(parents=True, exist_ok=True)
    d = DRIVES[profile]
    (folder / "jobs").mkdir(exist_ok=True)
    (folder / "jobs" / "sustained-random-read.fio").write_text("[qd1]\nrw=randread\nbs=4k\n")
    document = {
        "format": 1, "suite": "anandtech-2018", "suite_hash": "sha256:" + "ab" * 32, "scale": 1.0, "condition": "test-data",
        "drive": {"model": d["model"], "serial": f"WB-{profile}", "firmware": "NHF034C", "profile": profile,
                  "profile_hash": "sha256:" + "cd" * 32, "capacity_bytes": 1_024_209_543_168, "power_states": STATES,
                  "features": {"controller": "SM2263", "nvme_version": "1.3", "apst": True, "warning_c": 77,
                               "critical_c": 80, "hctm": True, "nopspm": False}},
        "started_utc": "2026-11-21T08:00:00+00:00",
        "versions": {"host": "0.1.0", "gateware": "1.4", "firmware": "1.0", "model": "0.1.0"},
        "conditions": {"fidelity": "fast", "timing": "model", "ambient_c": 25.0}, "virtual": True,
        "uncertainty": {"k": 2, "gain": 0.001, "offset_a": 5e-6},
        "lost": {"commands": lost} if lost else {}, "tests": _tests(d, folder, lost), **more,
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(document))
    return folder


def write_consistency(folder: Path, profile: str = "intel-600p-512gb", suite: str = "consistency-2016", **more: Any) -> Path:
    """A consistency run: a fast start, then a sawtooth with rare spikes."""
    (folder / "series").mkdir(parents=True, exist_ok=True)
    end = 3600 if "2016" in suite else 2000
    tests = []
    for test, floor in (("random-write", 2000.0), ("random-write-op75", 8000.0)):
        t = np.arange(end, dtype=float)
        iops = floor + 20000.0 * ((t % 37) / 37)
        iops[t < 240] = 90_000.0
        iops[np.arange(600, end, 190)] = 100_000.0
        pl.DataFrame({"t_s": t, "iops": iops, "mb_per_s": iops * 4096e-6, "mean_w": 2 + iops * 1e-5}).write_parquet(
            folder / "series" / f"{test}.parquet"
        )
        last = iops[-400:]
        scores = [("mean IOPS", "IOPS", last.mean()), ("mean / standard deviation", "1", last.mean() / last.std())]
        tests.append(
            {
                "test": test,
                "name": "Steady-state random write",
                "condition": "full" if floor < 3000 else "empty",
                "points": [],
                "series": f"series/{test}.parquet",
                "scores": [{"name": n, "unit": u, "value": q(v), "reading": None} for n, u, v in scores],
            }
        )
    document = {
        "format": 1,
        "suite": suite,
        "suite_hash": "sha256:" + "ef" * 32,
        "scale": 1.0,
        "condition": "full",
        "drive": {
            "model": "Intel SSD 600p 512GB",
            "serial": "WB-600P",
            "firmware": "121P",
            "profile": profile,
            "profile_hash": "sha256:" + "12" * 32,
            "capacity_bytes": 512_110_190_592,
        },
        "started_utc": "2026-11-21T09:00:00+00:00",
        "versions": {"host": "0.1.0"},
        "conditions": {"fidelity": "fast"},
        "virtual": True,
        "lost": {},
        "tests": tests,
        **more,
    }
    (folder / "results.json").write_text(json.dumps(document))
    return folder
