"""Comparison of the wire with fio's own account of the same load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from wattbell.analysis.result import Analysis, CommandTable, FioAccount, FioComparison, FioRow, FioSection, PhaseResult
from wattbell.errors import CaptureError
from wattbell.measure.figure import Figure, absent, ratio
from wattbell.measure.fiojson import Job, inside, load_jobs
from wattbell.measure.latency import Distribution

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

DIRECTIONS = (("read", "read"), ("write", "write"), ("trim", "dsm"), ("sync", "flush"))
"""fio's data directions, and the opcode each becomes."""
_ACCOUNT = "fio's own account, over the phase"
RUNTIME_U_S = 1e-3
"""Limit of the error of a run time of fio's, which is in whole milliseconds."""


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


def _jobs_by_phase(result: Analysis, workload: Path) -> tuple[list[Job], list[tuple[PhaseResult, list[Job]]]]:
    """All jobs of ``workload/fio.json``, and for each phase those it names."""
    main = inside(workload, "fio.json", "workload")
    jobs = load_jobs(main) if main is not None else []
    found: list[tuple[PhaseResult, list[Job]]] = []
    for phase in result["phases"]:
        described = _phase(phase["described"], phase["phase"], workload)
        named = described.fio or described.fio_json
        own = inside(workload, named, f"phase {phase['phase']}, fio") if named else None
        names = described.jobs or [described.job or phase["name"]]
        names = [names] if isinstance(names, str) else names
        mine = load_jobs(own) if own is not None else [job for job in jobs if job.jobname in names]
        if described.fio_group is not None and (own is None or described.jobs):
            mine = [job for job in mine if job.groupid == described.fio_group]
        found.append((phase, mine))
    return jobs, found


def compare(context: Context, result: Analysis, workload: Path) -> FioComparison | None:
    """fio against the wire, by phase where phases name their job or file, else over the whole capture.

    A phase names a fio JSON file by ``fio`` in ``workload.phases``, or a job of ``workload/fio.json`` by its own name
    (or ``jobs``: a list of names). None where no fio JSON was left, or nobody saw commands. CaptureError when one makes no sense, or lies
    outside ``workload``.
    """
    if not context.saw_commands:
        return None
    jobs, by_phase = _jobs_by_phase(result, workload)
    sections: list[FioSection] = [
        {"phase": phase["phase"], "name": phase["name"], "rows": match(phase["commands"], mine)} for phase, mine in by_phase if mine
    ]
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


def account(context: Context, result: Analysis, workload: Path) -> list[FioAccount]:
    """The phases by fio's own account where nobody saw commands; empty where somebody did, or there is no fio JSON."""
    if context.saw_commands:
        return []
    return [_account(phase, mine) for phase, mine in _jobs_by_phase(result, workload)[1] if mine]


def _account(phase: PhaseResult, jobs: Sequence[Job]) -> FioAccount:
    sums = totals(jobs)
    over = {"source": _ACCOUNT}
    seconds = phase["duration_s"]
    moved = sum(total["bytes"] for name, total in sums.items() if name in ("read", "write"))
    count = sum(total["count"] for total in sums.values())
    timed = [(total["count"], mean) for total in sums.values() if (mean := total["lat_ns"].get("mean")) is not None]
    share = RUNTIME_U_S / seconds if seconds > 0 else 0.0
    mb_per_s, iops = (
        Figure(amount / seconds, amount / seconds * share, unit, 0, over) if seconds > 0 else absent("a phase without length", unit)
        for amount, unit in ((moved / 1e6, "MB/s"), (count, "1/s"))
    )
    power = phase["power"]
    mean_w = power.get("mean_w", absent(power.get("absent", "no rail"), "W"))
    known = sum(n for n, _ in timed)
    latency = Figure(sum(n * mean for n, mean in timed) / known * 1e-9, None, "s", 0, over) if known else absent("fio timed nothing", "s")
    return {
        "phase": phase["phase"],
        "name": phase["name"],
        "mb_per_s": mb_per_s,
        "iops": iops,
        "mean_latency_s": latency,
        "mb_per_j": ratio(mb_per_s, mean_w, "MB/J", source=_ACCOUNT),
        "iops_per_w": ratio(iops, mean_w, "1/s/W", source=_ACCOUNT),
        "j_per_gb": ratio(mean_w, mb_per_s, "J/GB", 1e3, source=_ACCOUNT),
    }
