"""Comparison of the wire with fio's own account of the same load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from wattbell.analysis.result import Analysis, CommandTable, FioComparison, FioRow, FioSection
from wattbell.errors import CaptureError
from wattbell.measure.fiojson import Job, inside, load_jobs
from wattbell.measure.latency import Distribution

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

DIRECTIONS = (("read", "read"), ("write", "write"), ("trim", "dsm"), ("sync", "flush"))
"""fio's data directions, and the opcode each becomes."""


class FioLatency(TypedDict, total=False):
    """In ns; None where fio timed nothing."""

    min: float | None
    mean: float | None
    max: float | None


class FioTotal(TypedDict):
    """Sum over the jobs of one data direction."""

    count: int
    bytes: int
    lat_ns: FioLatency


def totals(jobs: Sequence[Job]) -> dict[str, FioTotal]:
    """Sum over jobs by opcode name: ``count``, ``bytes``, and ``lat_ns`` (min, mean, max) where fio had I/O."""
    out: dict[str, FioTotal] = {}
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


_TIMES: tuple[Literal["min", "mean", "max"], ...] = ("min", "mean", "max")


def _known(latency: Distribution | FioLatency, scale: float) -> dict[str, float]:
    return {key: value * scale for key in _TIMES if (value := latency.get(key)) is not None}


def _depth_one(jobs: Sequence[Job]) -> bool:
    return len(jobs) == 1 and all(j.option("iodepth", "1") == "1" and j.option("numjobs", "1") == "1" for j in jobs)


def match(wire: CommandTable, jobs: Sequence[Job]) -> list[FioRow]:
    """One row an opcode: counts and bytes of both sides, whether they are equal, and the latency check.

    ``latency_ok``: at queue depth 1 every latency on the wire must be at most fio's ``lat`` of the same kind, so the
    least, the mean and the largest must be. None where fio gave no latency or the depth is not 1. Equal bytes with more
    commands on the wire mean that the kernel split requests.
    """
    rows = []
    fio = totals(jobs)
    by_opcode = wire["by_opcode"]
    for opcode in dict.fromkeys([*fio, *(name for _, name in DIRECTIONS if name in by_opcode)]):
        ours, theirs = by_opcode.get(opcode), fio.get(opcode)
        wire_count, wire_bytes = (ours["count"], ours["bytes"]) if ours else (0, 0)
        fio_count, fio_bytes = (theirs["count"], theirs["bytes"]) if theirs else (0, 0)
        # who saw only how many ranges a trim has, and not which, has a lower bound of its bytes
        same = wire_bytes <= fio_bytes if ours and ours.get("flags", {}).get("no_ranges") else wire_bytes == fio_bytes
        row: FioRow = {
            "opcode": opcode,
            "wire_count": wire_count,
            "fio_count": fio_count,
            "wire_bytes": wire_bytes,
            "fio_bytes": fio_bytes,
            "equal": wire_count == fio_count and (opcode == "flush" or same),
            "bytes_equal": wire_bytes == fio_bytes,
            "latency_ok": None,
        }
        wire_s = _known(ours["latency_s"], 1.0) if ours else {}
        fio_s = _known(theirs["lat_ns"], 1e-9) if theirs else {}
        if _depth_one(jobs) and fio_s.get("max") and "max" in wire_s:
            row["latency_ok"] = all(wire_s[k] <= fio_s[k] for k in _TIMES)
            row["wire_latency_s"] = wire_s
            row["fio_latency_s"] = fio_s
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


def compare(context: Context, result: Analysis, workload: Path) -> FioComparison | None:
    """fio against the wire, by phase where phases name their job or file, else over the whole capture.

    A phase names a fio JSON file by ``fio`` in ``workload.phases``, or a job of ``workload/fio.json`` by its own name
    (or ``jobs``: a list of names). None where no fio JSON was left. CaptureError when one makes no sense, or lies outside ``workload``.
    """
    main = inside(workload, "fio.json", "workload")
    jobs = load_jobs(main) if main is not None else []
    sections: list[FioSection] = []
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
