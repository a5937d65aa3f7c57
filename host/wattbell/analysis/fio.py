"""Comparison of the wire with fio's own account of the same load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from wattbell.analysis.result import Analysis, CommandTable, FioAccount, FioComparison, FioRow, FioSection, Group, PhaseResult
from wattbell.capture.schema import SeenBy
from wattbell.errors import CaptureError
from wattbell.measure.figure import Figure, absent, ratio
from wattbell.measure.fiojson import FioDirection, FioJob, inside, load_jobs
from wattbell.measure.latency import Distribution
from wattbell.measure.seen import START

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

DIRECTIONS = (("read", "read"), ("write", "write"), ("trim", "dsm"), ("sync", "flush"))
"""fio's data directions, and the opcode each becomes."""
MIXED = "mixed"
"""In place of an opcode: reads, writes and trims together, where fio gives only their sum (``unified_rw_reporting=1``)."""
_PURE = {"read": "read", "randread": "read", "write": "write", "randwrite": "write", "trim": "dsm", "randtrim": "dsm"}
_ACCOUNT = "fio's own account, over the phase"
RUNTIME_U_S = 1e-3
"""Limit of the error of a run time of fio's, which is in whole milliseconds."""


class FioLatency(TypedDict, total=False):
    """Latencies in ns; None if fio timed nothing."""

    min: float | None
    mean: float | None
    max: float | None


class FioTotal(TypedDict):
    """Sum over the jobs of one data direction."""

    count: int
    bytes: int
    lat_ns: FioLatency


def totals(jobs: Sequence[FioJob]) -> dict[str, FioTotal]:
    """Sum over jobs by opcode name: ``count``, ``bytes``, and ``lat_ns`` (min, mean, max) where fio had I/O.

    Reads, writes and trims are one entry, :data:`MIXED`, if fio does not separate them in a job.
    """
    out: dict[str, FioTotal] = {}
    sides: dict[str, list[FioDirection]] = {}
    for job in jobs:
        for opcode, part in _sides(job):
            sides.setdefault(opcode, []).append(part)
    if MIXED in sides:
        together = [part for opcode, parts in sides.items() if opcode != "flush" for part in parts]
        sides = {MIXED: together, **({"flush": sides["flush"]} if "flush" in sides else {})}
    for opcode in [MIXED, *(name for _, name in DIRECTIONS)]:
        parts = sides.get(opcode, [])
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


def _sides(job: FioJob) -> list[tuple[str, FioDirection]]:
    """A job's directions that had I/O, by opcode name. The sum of a job of one direction is that direction."""
    found = [(opcode, getattr(job, direction)) for direction, opcode in DIRECTIONS]
    if job.is_unified:
        only = _PURE.get(job.option("rw", job.option("readwrite", "")).partition(":")[0].strip(), MIXED)
        found.append((only, job.mixed))
    return [(opcode, part) for opcode, part in found if part is not None and part.total_ios]


_TIMES: tuple[Literal["min", "mean", "max"], ...] = ("min", "mean", "max")


def _known(latency: Distribution | FioLatency, scale: float) -> dict[str, float]:
    return {key: value * scale for key in _TIMES if (value := latency.get(key)) is not None}


def _depth_one(jobs: Sequence[FioJob]) -> bool:
    return len(jobs) == 1 and all(j.option("iodepth", "1") == "1" and j.option("numjobs", "1") == "1" for j in jobs)


def match(wire: CommandTable, jobs: Sequence[FioJob]) -> list[FioRow]:
    """Return one row for each opcode: counts and bytes of both sides, whether they are equal, and the latency check.

    ``latency_ok``: at queue depth 1 every latency on the wire must be at most fio's ``lat`` of the same kind. So the least, the mean and
        the largest must be. None if fio gave no latency, the depth is not 1, a job had an error, or the commands are from fio's own log.

    Equal bytes with more commands on the wire mean that the kernel split requests. A job with an error counts I/Os as it ended: nothing is
    then called equal or different (None).
    """
    rows = []
    fio = totals(jobs)
    by_opcode = _as_fio_sums(wire["by_opcode"], fio)
    void = any(job.failure for job in jobs)
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
            "equal": None if void else wire_count == fio_count and (opcode == "flush" or same),
            "bytes_equal": None if void else wire_bytes == fio_bytes,
            "latency_ok": None,
        }
        wire_s = _known(ours["latency_s"], 1.0) if ours else {}
        fio_s = _known(theirs["lat_ns"], 1e-9) if theirs else {}
        # fio's own log says nothing of whether fio timed it right
        checked = not void and opcode != MIXED and not (ours and ours["latency_s"].get("from") == START[SeenBy.FIO_LOG])
        if checked and _depth_one(jobs) and fio_s.get("max") and "max" in wire_s:
            row["latency_ok"] = all(wire_s[k] <= fio_s[k] for k in _TIMES)
            row["wire_latency_s"] = wire_s
            row["fio_latency_s"] = fio_s
        rows.append(row)
    return rows


def _as_fio_sums(by_opcode: Mapping[str, Group], fio: Mapping[str, FioTotal]) -> Mapping[str, Group]:
    """The wire's opcodes, with those that fio sums up as one."""
    summed = [name for name in by_opcode if name in ("read", "write", "dsm")]
    if MIXED not in fio or not summed:
        return by_opcode
    first = by_opcode[summed[0]]
    flags: dict[str, int] = {}
    for name in summed:
        for flag, count in by_opcode[name].get("flags", {}).items():
            flags[flag] = flags.get(flag, 0) + count
    one: Group = {
        **first,
        "count": sum(by_opcode[name]["count"] for name in summed),
        "bytes": sum(by_opcode[name]["bytes"] for name in summed),
        "flags": flags,
    }
    return {MIXED: one, **{name: table for name, table in by_opcode.items() if name not in summed}}


class _Part(msgspec.Struct):
    """Jobs of a file, by their place in it from 0."""

    fio: str
    jobs: list[int]


class _Phase(msgspec.Struct):
    """fio's part of a phase of ``workload.phases`` (docs/capture.md)."""

    fio: str | None = None
    fio_json: str | None = None
    jobs: list[str] | str | None = None
    job: str | None = None
    fio_group: int | None = None
    fio_parts: list[_Part] | None = None


def _phase(described: Mapping[str, Any], number: object, workload: Path) -> _Phase:
    known = {field: described[field] for field in _Phase.__struct_fields__ if field in described}
    try:
        return msgspec.convert(known, _Phase)
    except msgspec.ValidationError as error:
        raise CaptureError(f"{workload.parent / 'meta.json'}: workload.phases, phase {number}: {error}.") from None


def _jobs_by_phase(result: Analysis, workload: Path) -> tuple[list[FioJob], list[tuple[PhaseResult, list[FioJob]]]]:
    """All jobs of ``workload/fio.json``, and for each phase those it names."""
    main = inside(workload, "fio.json", "workload")
    jobs = load_jobs(main) if main is not None else []
    found: list[tuple[PhaseResult, list[FioJob]]] = []
    files: dict[str, list[FioJob]] = {}
    for phase in result["phases"]:
        described = _phase(phase["described"], phase["phase"], workload)
        if described.fio_parts is not None:
            found.append((phase, [job for part in described.fio_parts for job in _jobs_of(part, phase["phase"], workload, files)]))
            continue
        named = described.fio or described.fio_json
        own = inside(workload, named, f"phase {phase['phase']}, fio") if named else None
        names = described.jobs or [described.job or phase["name"]]
        names = [names] if isinstance(names, str) else names
        mine = load_jobs(own) if own is not None else [job for job in jobs if job.jobname in names]
        if described.fio_group is not None and (own is None or described.jobs):
            mine = [job for job in mine if job.groupid == described.fio_group]
        found.append((phase, mine))
    return jobs, found


def _jobs_of(part: _Part, phase: int, workload: Path, files: dict[str, list[FioJob]]) -> list[FioJob]:
    """``files``: those that were read, by name."""
    if part.fio not in files:
        path = inside(workload, part.fio, f"phase {phase}, fio_parts")
        files[part.fio] = load_jobs(path) if path is not None else []
    jobs = files[part.fio]
    if jobs and any(not 0 <= place < len(jobs) for place in part.jobs):
        raise CaptureError(
            f"{workload.parent / 'meta.json'}: phase {phase}, fio_parts: {part.fio} has {len(jobs)} jobs, and not what it names."
        )
    return [jobs[place] for place in part.jobs] if jobs else []


def compare(context: Context, result: Analysis, workload: Path) -> FioComparison | None:
    """Compare fio with the wire, by phase if phases name their job or file, else over the whole capture.

    A phase may name a fio JSON file by ``fio`` in ``workload.phases``. Otherwise the phase's own name, or the list ``jobs``, names jobs of
    ``workload/fio.json``. None if there is no fio JSON, or nobody saw commands. Raises CaptureError for a file that makes no sense or lies
    outside ``workload``.
    """
    if not context.saw_commands:
        return None
    jobs, by_phase = _jobs_by_phase(result, workload)
    sections = [_section(phase["phase"], phase["name"], phase["commands"], mine) for phase, mine in by_phase if mine]
    if not sections:
        if not jobs:
            return None
        sections.append(_section(None, "whole capture", result["commands"], jobs))
    rows = [row for section in sections for row in section["rows"]]
    told = [row["equal"] for row in rows]
    return {
        "source": "fio.json",
        "sections": sections,
        "equal": False if False in told else None if None in told else True,
        "latency_ok": all(row["latency_ok"] is not False for row in rows),
        "commands_lost": context.loss.between(context.first_tick, context.last_tick).under_commands,
    }


def _section(number: int | None, name: str, wire: CommandTable, jobs: Sequence[FioJob]) -> FioSection:
    section: FioSection = {"phase": number, "name": name, "rows": match(wire, jobs)}
    if failures := [job.failure for job in jobs if job.failure]:
        section["void"] = "; ".join(failures)
    return section


def warnings(found: FioComparison | None, accounts: Sequence[FioAccount]) -> list[str]:
    """Return the warnings that a reader of fio's figures needs, each a sentence."""
    sections = (found or {"sections": []})["sections"]
    void = [(each["name"], each["void"]) for each in sections if "void" in each]
    void += [(each["name"], each["void"]) for each in accounts if "void" in each]
    return [f"{name}: {why}, so fio's figures of it are void." for name, why in void]


def account(context: Context, result: Analysis, workload: Path) -> list[FioAccount]:
    """The phases by fio's own account where nobody saw commands; empty if somebody did, or there is no fio JSON."""
    if context.saw_commands:
        return []
    return [_account(phase, mine) for phase, mine in _jobs_by_phase(result, workload)[1] if mine]


def _account(phase: PhaseResult, jobs: Sequence[FioJob]) -> FioAccount:
    sums = totals(jobs)
    over = {"source": _ACCOUNT}
    seconds = phase["duration_s"]
    moved = sum(total["bytes"] for name, total in sums.items() if name in ("read", "write", MIXED))
    trims = MIXED in sums and any(job.is_unified and "trim" in job.option("rw", job.option("readwrite", "trim")) for job in jobs)
    trims |= MIXED in sums and any(job.trim is not None and job.trim.total_ios for job in jobs)
    count = sum(total["count"] for total in sums.values())
    timed = [(total["count"], mean) for total in sums.values() if (mean := total["lat_ns"].get("mean")) is not None]
    share = RUNTIME_U_S / seconds if seconds > 0 else 0.0
    mb_per_s, iops = (
        Figure(amount / seconds, amount / seconds * share, unit, 0, over) if seconds > 0 else absent("a phase without length", unit)
        for amount, unit in ((moved / 1e6, "MB/s"), (count, "1/s"))
    )
    if trims:
        mb_per_s = absent("fio gives trims and data as one sum (unified_rw_reporting)", "MB/s")
    power = phase["power"]
    mean_w = power.get("mean_w", absent(power.get("absent", "no rail"), "W"))
    known = sum(n for n, _ in timed)
    latency = Figure(sum(n * mean for n, mean in timed) / known * 1e-9, None, "s", 0, over) if known else absent("fio timed nothing", "s")
    failures = [job.failure for job in jobs if job.failure]
    if failures:
        mb_per_s, iops, latency = (absent("; ".join(failures), figure.unit) for figure in (mb_per_s, iops, latency))
    found: FioAccount = {
        "phase": phase["phase"],
        "name": phase["name"],
        "mb_per_s": mb_per_s,
        "iops": iops,
        "mean_latency_s": latency,
        "mb_per_j": ratio(mb_per_s, mean_w, "MB/J", source=_ACCOUNT),
        "iops_per_w": ratio(iops, mean_w, "1/s/W", source=_ACCOUNT),
        "j_per_gb": ratio(mean_w, mb_per_s, "J/GB", 1e3, source=_ACCOUNT),
    }
    if failures:
        found["void"] = "; ".join(failures)
    return found
