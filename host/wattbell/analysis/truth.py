"""Comparison with the truth that the SSD model left: ``workload/truth.json`` and ``truth-commands.csv``.

Only a virtual rig has one. The model integrates the rail that it emitted, between the ticks of the marker doorbells. It notes the
picosecond of the first symbol of every TLP that belongs to a command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import polars as pl
from wattbell_spec.columns import AGES, TRUTH
from wattbell_spec.wire import CommandFlag

from wattbell.analysis.result import Analysis, PhaseResult, Truth, TruthCommands, TruthPhase, TruthWake
from wattbell.errors import CaptureError
from wattbell.measure.table import INSTANTS

from .. import door

if TYPE_CHECKING:
    from wattbell.analysis.context import Context

Played = Mapping[str, Any]
"""A phase as the model left it in truth.json."""
ENERGY_LIMIT = 2e-3
"""Largest relative error of the energy that the demo may show."""
POWER_LIMIT, POWER_LIMIT_A = 1e-3, 5e-6
TICK_LIMIT = 1.0
_COMPARED = {"opcode": "opcode", "slba": "address", "status": "status"}
"""Columns that must have the truth's value, with their names in the result."""
_LATER = tuple(column.name for column in TRUTH if column.shown)
"""Such columns that the truth of older models lacks."""
_PAIR_TICKS = 100_000
"""A record and a truth of the same queue and command identifier are one command when their CQEs are this near."""


def compare(context: Context, result: Analysis, workload: Path) -> Truth | None:
    """``phases``, ``commands``, ``wakeups``, each with ``pass``, and ``pass`` over all; None without truth."""
    path = workload / "truth.json"
    if not path.is_file():
        return None
    try:
        truth = json.loads(door.read_text(path, door.DOCUMENT))
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path} cannot be read ({error}); run the model again or remove it.") from None
    origin = int((context.capture.meta.get("conditions") or {}).get("trace_origin_tick") or 0)
    origin_ps = origin * round(context.tick_s * 1e12)
    by_number = {int(p["phase"]): _since_power_on(p, origin, origin_ps) for p in truth.get("phases", [])}
    phases = [_phase(phase, by_number[phase["phase"]]) for phase in result["phases"] if phase["phase"] in by_number]
    commands_file = workload / "truth-commands.csv"
    instants = _commands(context, commands_file, origin_ps) if commands_file.is_file() else None
    wakes = [
        _wake(context, phase, by_number[phase["phase"]], commands_file, result, origin_ps)
        for phase in result["phases"]
        if phase["kind"] == "wake" and "doorbell_ps" in by_number.get(phase["phase"], {})
    ]
    parts = [*phases, *([instants] if instants else []), *wakes]
    return {
        "definition": truth.get("definition"),
        "phases": phases,
        "missing_phases": sorted(set(by_number) - {p["phase"] for p in result["phases"]}),
        "commands": instants,
        "wakeups": wakes,
        "pass": bool(parts) and all(part["pass"] for part in parts) and len(phases) == len(by_number),
    }


def _since_power_on(phase: Played, origin: int, origin_ps: int) -> Played:
    """A phase of the truth, which counts from the beginning of the drive's story, in the rig's time."""
    later = {"start_tick": origin, "end_tick": origin, "doorbell_ps": origin_ps}
    return {name: value + later[name] if name in later and value is not None else value for name, value in phase.items()}


def _phase(phase: PhaseResult, truth: Played) -> TruthPhase:
    """Energy and mean power of one phase."""
    out: TruthPhase = {
        "phase": phase["phase"],
        "name": phase["name"],
        "start_ticks_off": phase["first_tick"] - int(truth["start_tick"]),
        "end_ticks_off": phase["last_tick"] - int(truth["end_tick"]),
    }
    edges = max(abs(out["start_ticks_off"]), abs(out["end_ticks_off"])) <= TICK_LIMIT
    power = phase["power"]
    if "mean_w" not in power:
        return {**out, "absent": power.get("absent"), "pass": edges}
    energy, mean = power["energy_j"].known, power["mean_w"].known
    energy_error = energy / float(truth["energy_j"]) - 1
    mean_error = mean - float(truth["mean_w"])
    limit = POWER_LIMIT * float(truth["mean_w"]) + POWER_LIMIT_A * power["mean_voltage_v"].known
    return {
        **out,
        "energy_truth_j": float(truth["energy_j"]),
        "energy_error": energy_error,
        "energy_limit": ENERGY_LIMIT,
        "mean_truth_w": float(truth["mean_w"]),
        "mean_error_w": mean_error,
        "mean_limit_w": limit,
        "pass": bool(edges and abs(energy_error) <= ENERGY_LIMIT and abs(mean_error) <= limit),
    }


def _truth_frame(path: Path, origin_ps: int) -> pl.LazyFrame:
    names = [name.removesuffix("_tick") + "_ps" for name in INSTANTS]
    types = {"qid": pl.UInt8, "cid": pl.UInt16, "opcode": pl.UInt8, **dict.fromkeys(names, pl.Int64)}
    return pl.scan_csv(door.check(path, door.LOG), glob=False, schema_overrides=types).with_columns(pl.col(names) + origin_ps)


def _commands(context: Context, path: Path, origin_ps: int) -> TruthCommands:
    """Every instant of every command against the model's picosecond.

    Paired by queue, command identifier and nearest CQE. Saturated ages, and interrupts that came when the host had
    released the CQE already (``after_release``), are left out and counted. ``max_ticks`` is the
    largest distance of a recorded tick from the true instant, which lies within that tick or not.
    """
    tick_ps = round(context.tick_s * 1e12)
    truth = _truth_frame(path, origin_ps).with_columns((pl.col("cqe_ps") // tick_ps).alias("at")).sort("at")
    wire = context.capture.commands.filter((pl.col("flags") & int(CommandFlag.NO_SQE | CommandFlag.ABORTED)) == 0).with_columns(
        pl.col("cqe_tick").alias("at")
    )
    joined = (
        wire.sort("at")
        .join_asof(
            truth,
            on="at",
            by=["qid", "cid"],
            strategy="nearest",
            tolerance=_PAIR_TICKS,
            suffix="_truth",
            check_sortedness=False,
        )
        .collect()
    )
    n_truth = int(truth.select(pl.len()).collect().item())
    paired = joined.filter(pl.col("cqe_ps").is_not_null())
    ages = {instant.column: bit for bit, instant in enumerate(AGES)}
    compared = _COMPARED | {name: name for name in _LATER if f"{name}_truth" in paired.columns}
    wrong = {f"wrong_{name}": _unequal(paired, column) for column, name in compared.items()}
    counts = {"truth": n_truth, "records": len(joined), "paired": len(paired)}
    out = cast(TruthCommands, {**counts, **wrong, "instants": {}})
    worst = 0.0
    missing = 0
    for name in INSTANTS:
        ps = name.removesuffix("_tick") + "_ps"
        usable = paired
        if name in ages:
            usable = paired.filter((pl.col("saturated") & (1 << ages[name])) == 0)
        released = pl.lit(False)
        if name == "msix_tick":
            # The record is complete when the host releases the CQE: an interrupt that is not before that has no place.
            released = pl.col(name).is_null() & (pl.col(ps) // tick_ps >= pl.col("cq_head_ps") // tick_ps).fill_null(False)
        after_release = int(usable.select(released.sum()).item()) if name == "msix_tick" else 0
        both = usable.filter(pl.col(name).is_not_null() & pl.col(ps).is_not_null())
        # A tick is the whole nanosecond in which the symbol came: distance from that, not from its beginning.
        off = both.select((pl.col(name) - pl.col(ps) // tick_ps).abs().max()).item() if len(both) else 0
        only_truth = len(usable.filter(pl.col(name).is_null() & pl.col(ps).is_not_null())) - after_release
        only_wire = len(usable.filter(pl.col(name).is_not_null() & pl.col(ps).is_null()))
        out["instants"][name.removesuffix("_tick")] = {
            "compared": len(both),
            "max_ticks": int(off or 0),
            "missing": only_truth,
            "extra": only_wire,
            "saturated": len(paired) - len(usable),
            "after_release": after_release,
        }
        worst = max(worst, float(off or 0))
        missing += only_truth + only_wire
    out["max_ticks"] = worst
    out["limit_ticks"] = TICK_LIMIT
    out["instants_missing_or_extra"] = missing
    complete = len(paired) == len(joined) == n_truth
    out["pass"] = bool(complete and worst <= TICK_LIMIT and not any(wrong.values()) and not missing)
    return out


def _unequal(paired: pl.DataFrame, column: str) -> int:
    """Rows whose value is not the truth's."""
    return int((paired[column].cast(pl.Int64) != paired[f"{column}_truth"].cast(pl.Int64)).sum())


def _wake(context: Context, phase: PhaseResult, truth: Played, commands: Path, result: Analysis, origin_ps: int) -> TruthWake:
    """The wake-up read of one phase: doorbell to CQE, measured and true; limit one rail sample (1 us without rail)."""
    tick_ps = round(context.tick_s * 1e12)
    doorbell = int(truth["doorbell_ps"])
    limit_s = context.rail.interval_s if context.rail else 1e-6
    out: TruthWake = {
        "phase": phase["phase"],
        "name": phase["name"],
        "true_state": (truth.get("before") or {}).get("power_state"),
        "limit_s": limit_s,
        "pass": False,
    }
    if commands.is_file():
        row = _truth_frame(commands, origin_ps).filter(pl.col("doorbell_ps") == doorbell).collect()
        out["truth_s"] = (int(row["cqe_ps"][0]) - doorbell) * 1e-12 if len(row) else None
    mine = [e for e in result["wakeup"]["events"] if abs(int(e["start_tick"]) - doorbell // tick_ps) <= TICK_LIMIT]
    true_s = out.get("truth_s")
    if not mine or true_s is None:
        return {**out, "absent": "the wake-up command was not found in the capture"}
    out["measured_s"] = mine[0]["latency_s"]
    out["error_s"] = out["measured_s"] - true_s
    out["state"] = mine[0]["state"]
    out["state_right"] = out["true_state"] is None or mine[0]["state"] == f"PS{out['true_state']}"
    out["pass"] = abs(out["error_s"]) <= limit_s
    return out
