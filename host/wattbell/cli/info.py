"""``wattbell info``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..jsondata import JsonObject
from ..origin import Origin, origin_of
from . import complete, output
from .options import Json, RigOption, Wide
from .record import summary


def info(
    capture: Annotated[
        Path | None,
        typer.Argument(help="Capture directory; the rig itself when left out.", autocompletion=complete.captures),
    ] = None,
    rig: RigOption = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Describe a capture, or the rig.

    wattbell info capture

    wattbell info --rig WB0001
    """
    if capture is None:
        _rig(rig, json)
    else:
        _capture(capture, json)


def _rig(serial: str | None, json: bool) -> None:
    from ..rig import Rig

    with Rig.open(serial) as opened:
        found: JsonObject = {**opened.identity, **opened.port.to_json(), "status": opened.status()}
    if json:
        output.print_json(found)
        return
    shown = output.table("", "")
    for name, value in found.items():
        shown.add_row(name, str(value))
    output.out.print(shown)


def _capture(path: Path, json: bool) -> None:
    from wattbell_spec.wire import RailFlag

    from ..analysis import link
    from ..analysis.bystanders import bystanders
    from ..capture import open_capture
    from ..capture.eventtext import NOT_FOLLOWED

    with output.bar("rebuilding from the journal") as progress:
        capture = open_capture(path, progress)
    if json:
        output.print_json(capture.meta)
        return
    meta, found = capture.meta, summary(capture)
    shown = output.table("", "")
    anchor = meta["clock"].get("utc_anchor")
    rig, rail, conditions, drive = meta["rig"], meta["rail"], meta["conditions"], meta["drive"]
    notes: list[str] = conditions["notes"]
    for text in NOT_FOLLOWED.values():
        if text in notes:
            shown.add_row("not followed", text)
    shown.add_row("state", meta["state"])
    shown.add_row("recorded", anchor["utc"] if anchor else "unknown")
    shown.add_row("length", f"{found['seconds']:.6f} s")
    program = "firmware" if "firmware" in rig and "gateware" not in rig else "gateware"  # a meter has no gateware
    shown.add_row("rig", f"{rig.get('model', '?')} {rig.get('serial', '')}, {program} {rig.get(program, '?')}")
    shown.add_row("conditions", _conditions(conditions))
    if drive and drive.get("model"):
        shown.add_row("drive", f"{drive['model']} {drive['serial']}, firmware {drive['firmware']}")
    else:
        shown.add_row("drive", "not identified (no Identify was seen)")
    sizes = {space["nsid"]: space["lba_size_bytes"] for space in (drive or {}).get("namespaces", [])}
    blocks = [f"namespace {nsid}: {f'{size} B' if size else 'unknown'}" for nsid, size in sizes.items()]
    taken = "" if any(sizes.values()) else f"{', ' if blocks else 'unknown, '}taken as {capture.lba_size_bytes()} B"
    shown.add_row("logical blocks", ", ".join(blocks) + taken)
    shown.add_row("commands", str(found["commands"]))
    shown.add_row("events", str(found["events"]))
    if rail.get("interval_ticks"):
        rate = 1e12 / (rail["interval_ticks"] * capture.tick_ps)
        shown.add_row("rail", f"{found['samples']} samples at {output.si(rate, 'S/s')}")
    if rail.get("flags", 0) & RailFlag.UNCALIBRATED:
        shown.add_row("calibration", "none: the stated uncertainties do not hold (wattbell calibrate)")
    if "front_end_delay_u_s" in conditions:
        late, u = conditions["front_end_delay_s"] * 1e6, conditions["front_end_delay_u_s"] * 1e9
        whose = "of this board" if conditions.get("front_end_delay_calibrated") else "as designed; this board's is not calibrated"
        shown.add_row("delay of the rail", f"{late:z.4f} us +-{u:.1f} ns (k=2), {whose}")
    for side in link.link(capture):
        shown.add_row(f"link, {side['direction']}", link.describe(side))
    others = bystanders(capture)
    for name, text in (("host memory buffer", others.buffer_text()), ("matches no command", others.unmatched_text())):
        if text:
            shown.add_row(name, text)
    shown.add_row("loss", "none" if found["lossless"] else "; ".join(_losses(meta["loss"])))
    for phase in capture.phases:
        shown.add_row(f"phase {phase.get('phase')}", f"{phase.get('name')} ({phase.get('kind')})")
    for note in notes:
        if note not in NOT_FOLLOWED.values():
            shown.add_row("note", note)
    output.out.print(shown)


def _conditions(conditions: JsonObject) -> str:
    parts = [{Origin.VIRTUAL: "virtual", Origin.MEASURED: "real"}.get(origin_of(conditions.get("virtual")), "unknown")]
    parts += [f"{name} {conditions[name]}" for name in ("profile", "timing") if conditions.get(name)]
    return ", ".join(parts)


def _losses(loss: JsonObject) -> list[str]:
    names = {
        "missing_blocks": "blocks missing",
        "skipped_bytes": "bytes skipped",
        "bad_crc": "blocks damaged",
        "malformed_blocks": "blocks malformed",
        "implausible_blocks": "blocks that fit nothing around them",
        "restarts": "restarts of the rig",
        "unknown_kind": "blocks of unknown kind",
        "unknown_version": "blocks of unknown version",
    }
    found = [f"{loss[key]} {text}" for key, text in names.items() if loss.get(key)]
    found += [f"{count} {kind} dropped in the rig" for kind, count in loss.get("dropped", {}).items() if count]
    found += [f"{count} lost by the rig ({source})" for source, count in loss.get("rig_events", {}).items()]
    found += [f"{count} gaps ({kind})" for kind, count in loss.get("gaps", {}).items() if count]
    return found
