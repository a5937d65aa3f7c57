"""Comparison of the wire with fio's own account of the same load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wattbell.errors import CaptureError
from wattbell.measure.fiojson import Job, inside, load_jobs

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

DIRECTIONS = (("read", "read"), ("write", "write"), ("trim", "dsm"), ("sync", "flush"))
"""fio's data directions, and the opcode each becomes."""


def totals(jobs: Sequence[Job]) -> dict[str, dict[str, Any]]:
    """Sum over jobs by opcode name: ``count``, ``bytes``, and ``lat_ns`` (min, mean, max) where fio had I/O."""
    out: dict[str, dict[str, Any]] = {}
    for direction, opcode in DIRECTIONS:
        parts = [part for job in jobs if (part := getattr(job, direction)) is not None and part.total_ios]
        if not parts:
            continue
        count = sum(part.total_ios for part in parts)
        timed = [(part.total_ios, part.lat_ns) for part in parts if part.lat_ns is not None and part.lat_ns.max]
        out[opcode] = {
            "count": count,
            "bytes": sum(part.io_bytes for part in parts),
            "lat_ns": {
                "min": min((lat.min for _, lat in timed), default=None),
                "mean": sum(n * lat.mean for n, lat in timed) / count if timed else None,
                "max": max((lat.max for _, lat in timed), default=None),
            },
        }
    return out


def _depth_one(jobs: Sequence[Job]) -> bool:
    return len(jobs) == 1 and all(j.option("iodepth", "1") == "1" and j.option("numjobs", "1") == "1" for j in jobs)


def match(wire: Mapping[str, Any], jobs: Sequence[Job]) -> list[dict[str, Any]]:
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


class _Phase(msgspec.Struct):
    """What a phase of ``workload.phases`` says about fio (docs/capture.md)."""

    fio: str | None = None
    fio_json: str | None = None
    jobs: list[str] | str | None = None
    job: str | None = None
    fio_group: int | None = None


def _phase(described: Mapping[str, Any], number: object, workload: Path) -> _Phase:
    known = {field: described[field] for field in _Phase.__struct_fields__ if field in described}
    try:
        return msgspec.convert(known, _Phase)
    except msgspec.ValidationError as error:
        raise CaptureError(f"{workload.parent / 'meta.json'}: workload.phases, phase {number}: {error}.") from None


def compare(context: Context, result: Mapping[str, Any], workload: Path) -> dict[str, Any] | None:
    """fio against the wire, by phase where phases name their job or file, else over the whole capture.

    A phase names a fio JSON file by ``fio`` in ``workload.phases``, or a job of ``workload/fio.json`` by its own name
    (or ``jobs``: a list of names). None where no fio JSON was left. CaptureError when one makes no sense, or lies outside ``workload``.
    """
    main = inside(workload, "fio.json", "workload")
    jobs = load_jobs(main) if main is not None else []
    sections: list[dict[str, Any]] = []
    for phase in result["phases"]:
        described = _phase(phase["described"], phase["phase"], workload)
        named = described.fio or described.fio_json
        own = inside(workload, named, f"phase {phase['phase']}, fio") if named else None
        names = described.jobs or [described.job or phase["name"]]
        names = [names] if isinstance(names, str) else names
        mine = load_jobs(own) if own is not None else [job for job in jobs if job.jobname in names]
        if own is None and described.fio_group is not None:
            mine = [job for job in mine if job.groupid == described.fio_group]
        if mine:
            sections.append({"phase": phase["phase"], "name": phase["name"], "rows": match(phase["commands"], mine)})
    if not sections:
        if not jobs:
            return None
        sections.append({"phase": None, "name": "whole capture", "rows": match(result["commands"], jobs)})
    rows = [row for section in sections for row in section["rows"]]
    return {
        "source": "fio.json",
        "sections": sections,
        "equal": all(row["equal"] for row in rows),
        "latency_ok": all(row["latency_ok"] is not False for row in rows),
        "commands_lost": context.loss.between(context.first_tick, context.last_tick).under_commands,
    }
