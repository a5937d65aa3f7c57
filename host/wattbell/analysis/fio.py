"""Comparison of the wire with fio's own account of the same load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattbell.errors import CaptureError

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

DIRECTIONS = (("read", "read"), ("write", "write"), ("trim", "dsm"), ("sync", "flush"))
"""fio's data directions, and the opcode each becomes."""


def load_jobs(path: Path) -> list[dict[str, Any]]:
    """Jobs of a fio JSON file, text before the first brace (warnings of fio) skipped.

    Global options are put under each job's own.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    start = text.find("{")
    try:
        data = json.loads(text[max(start, 0) :])
        jobs = [dict(job) for job in data["jobs"]]
        common = dict(data.get("global options") or {})
    except (ValueError, KeyError, TypeError) as error:
        raise CaptureError(f"{path} is not fio JSON ({error}); run fio with --output-format=json.") from None
    for job in jobs:
        job["job options"] = {**common, **(job.get("job options") or {})}
    return jobs


def totals(jobs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Sum over jobs by opcode name: ``count``, ``bytes``, and ``lat_ns`` (min, mean, max) where fio had I/O."""
    out: dict[str, dict[str, Any]] = {}
    for direction, opcode in DIRECTIONS:
        count = nbytes = 0
        weighted = 0.0
        low: float | None = None
        high: float | None = None
        for job in jobs:
            part = job.get(direction) or {}
            n = int(part.get("total_ios", 0))
            if not n:
                continue
            count += n
            nbytes += int(part.get("io_bytes", 0))
            lat = part.get("lat_ns") or {}
            if lat.get("max"):
                weighted += float(lat.get("mean", 0.0)) * n
                low = float(lat["min"]) if low is None else min(low, float(lat["min"]))
                high = float(lat["max"]) if high is None else max(high, float(lat["max"]))
        if count:
            mean = weighted / count if low is not None else None
            out[opcode] = {"count": count, "bytes": nbytes, "lat_ns": {"min": low, "mean": mean, "max": high}}
    return out


def _depth_one(jobs: Sequence[Mapping[str, Any]]) -> bool:
    def option(job: Mapping[str, Any], name: str, default: str) -> str:
        return str((job.get("job options") or {}).get(name, default))

    return len(jobs) == 1 and all(option(j, "iodepth", "1") == "1" and option(j, "numjobs", "1") == "1" for j in jobs)


def match(wire: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row an opcode: counts and bytes of both sides, whether they are equal, and the latency check.

    ``latency_ok``: at queue depth 1 every latency on the wire must be at most fio's ``lat`` of the same kind, so the
    least, the mean and the largest must be. None where fio gave no latency or the depth is not 1. Equal bytes with more
    commands on the wire mean that the kernel split requests.
    """
    rows = []
    fio = totals(jobs)
    by_opcode = wire["by_opcode"]
    for opcode in dict.fromkeys([*fio, *(name for _, name in DIRECTIONS if name in by_opcode)]):
        ours = by_opcode.get(opcode) or {"count": 0, "bytes": 0, "latency_s": None}
        theirs = fio.get(opcode) or {"count": 0, "bytes": 0, "lat_ns": {}}
        row: dict[str, Any] = {
            "opcode": opcode,
            "wire_count": ours["count"],
            "fio_count": theirs["count"],
            "wire_bytes": ours["bytes"],
            "fio_bytes": theirs["bytes"],
            "equal": ours["count"] == theirs["count"] and (opcode == "flush" or ours["bytes"] == theirs["bytes"]),
            "bytes_equal": ours["bytes"] == theirs["bytes"],
            "latency_ok": None,
        }
        lat, wire_lat = theirs.get("lat_ns") or {}, ours.get("latency_s")
        if _depth_one(jobs) and lat.get("max") and wire_lat and wire_lat.get("max") is not None:
            row["latency_ok"] = all(wire_lat[k] <= lat[k] * 1e-9 for k in ("min", "mean", "max"))
            row["wire_latency_s"] = {k: wire_lat[k] for k in ("min", "mean", "max")}
            row["fio_latency_s"] = {k: lat[k] * 1e-9 for k in ("min", "mean", "max")}
        rows.append(row)
    return rows


def _file_of(described: Mapping[str, Any], workload: Path) -> Path | None:
    named = described.get("fio") or described.get("fio_json")
    if isinstance(named, str) and (workload / named).is_file():
        return workload / named
    return None


def compare(context: Context, result: Mapping[str, Any], workload: Path) -> dict[str, Any] | None:
    """fio against the wire, by phase where phases name their job or file, else over the whole capture.

    A phase names a fio JSON file by ``fio`` in ``workload.phases``, or a job of ``workload/fio.json`` by its own name
    (or ``jobs``: a list of names). None where no fio JSON was left.
    """
    main = workload / "fio.json"
    jobs = load_jobs(main) if main.is_file() else []
    sections: list[dict[str, Any]] = []
    for phase in result["phases"]:
        described = phase["described"]
        own = _file_of(described, workload)
        names = described.get("jobs") or [described.get("job") or phase["name"]]
        names = [names] if isinstance(names, str) else list(names)
        group = described.get("fio_group")
        mine = load_jobs(own) if own else [j for j in jobs if j.get("jobname") in names]
        if not own and group is not None:
            mine = [j for j in mine if j.get("groupid") == group]
        if mine:
            sections.append({"phase": phase["phase"], "name": phase["name"], "rows": match(phase["commands"], mine)})
    if not sections:
        if not jobs:
            return None
        sections.append({"phase": None, "name": "whole capture", "rows": match(result["commands"], jobs)})
    rows = [row for section in sections for row in section["rows"]]
    return {
        "source": str(main.name),
        "sections": sections,
        "equal": all(row["equal"] for row in rows),
        "latency_ok": all(row["latency_ok"] is not False for row in rows),
        "commands_lost": context.loss.between(context.first_tick, context.last_tick).commands,
    }
