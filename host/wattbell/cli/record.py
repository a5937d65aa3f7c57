"""``wattbell record``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from ..errors import RigError, UsageError
from ..jsondata import JsonObject
from . import numbers, output
from .options import Force, Json, KeepStream, LbaSize, Out, RigOption
from .quantities import TIME

if TYPE_CHECKING:
    from ..capture import Capture, CaptureWriter

    Log = AbstractContextManager[Callable[[CaptureWriter], None]]


def record(
    out: Out,
    rig: RigOption = None,
    meter: Annotated[str | None, typer.Option("--meter", help="Record only the rail, with this meter (`wattbell meters`).")] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=TIME, callback=numbers.seconds, help="Stop after this time (s) of the rig's clock, or a little more."
        ),
    ] = None,
    until_marker: Annotated[str | None, typer.Option(help="Stop at the marker of this value, such as 0x102.")] = None,
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample.")] = None,
    lba_size: LbaSize = None,
    attach: Annotated[
        Path | None, typer.Option(help="Late attach: SCPI lines (NVME:...) with BAR0 and the queue table, sent first.")
    ] = None,
    statistics: Annotated[
        float | None,
        typer.Option(
            "--statistics",
            metavar="PERIOD",
            parser=TIME,
            callback=numbers.seconds,
            help="Print a line of figures every period, as CSV.",
        ),
    ] = None,
    statistics_out: Annotated[
        Path | None, typer.Option("--statistics-out", metavar="FILE", help="Write these lines to a file: CSV, or JSON lines (.jsonl).")
    ] = None,
    force: Force = False,
    keep_stream: KeepStream = False,
    json: Json = False,
) -> None:
    """Record a rig or a meter into a capture directory until Ctrl-C.

    A stopping rig still sends the data that it holds, and all is kept.
    So a recording lasts at least as long as [bold]--duration[/] or [bold]--until-marker[/] say.

    The directory is whole at any time: a killed recorder loses at most
    half a second; an unplugged rig leaves a gap and goes on when it is back.

      wattbell record --out capture                         until Ctrl-C

      wattbell record --out capture --duration 1min         one minute

      wattbell record --out capture --statistics 1s         a line a second

      wattbell record --out capture --until-marker 0x102    to that marker

      wattbell record --out capture --meter ppk2:/dev/ttyACM0,volts=3.3
    """
    from ..capture import CaptureWriter
    from ..capture.record import BROKE_OFF, RecordingLimits
    from ..capture.record import record as record_stream
    from ..rig import Rig
    from . import livefigures

    period_s = _period(statistics, statistics_out, json)
    log = livefigures.statistics(period_s, statistics_out)
    if meter is not None:
        _record_meter(out, meter, duration, force, json, log)
        return

    limits = RecordingLimits(duration, _number(until_marker))
    with log as attach_log, Rig.open(rig) as opened:
        if decimation:
            opened.set_decimation(decimation)
        if attach:
            opened.attach(attach)
        with CaptureWriter(
            out,
            rig=opened.description,
            conditions=opened.conditions(),
            lba_size_bytes=lba_size,
            keep_stream=keep_stream,
            overwrite=force,
        ) as writer:
            attach_log(writer)
            with output.recording(opened.port.serial) as progress:
                reason = record_stream(opened, writer, limits, progress=progress)
            broken = opened.broke_off()
            if broken:
                writer.note(f"{BROKE_OFF}: {broken}")
    finish(out, reason, json)
    if opened.stranger is not None:
        raise RigError(
            f"Another rig, {opened.stranger}, answers in the place of rig {opened.port.serial}; {out} holds what came from the latter. "
            f"Plug that one in again, or record the other one."
        )
    if broken:
        raise RigError(f"Rig {opened.port.serial} could not play its trace to the end ({broken}); {out} holds what came before.")


def _period(statistics: float | None, file: Path | None, json: bool) -> float | None:
    from ..capture.statistics import check_period

    if statistics is None:
        return None
    if json and file is None:
        raise UsageError("--json and --statistics both print on stdout: write the statistics to a file, with --statistics-out FILE.")
    return check_period(statistics, "--statistics")


def _record_meter(out: Path, text: str, duration: float | None, force: bool, json: bool, log: Log) -> None:
    from ..capture import CaptureWriter
    from ..meters.meter import StreamMeter, open_meter
    from ..meters.record import record as record_meter

    lost: RigError | None = None
    with log as attach_log, open_meter(text) as meter:
        about = meter.about
        conditions = about.all_conditions()
        journal = isinstance(meter, StreamMeter)
        with CaptureWriter(out, rig=about.rig(), conditions=conditions, overwrite=force, journal=journal, tick_ps=about.tick_ps) as writer:
            attach_log(writer)
            for note in about.notes:
                writer.note(note)
            try:
                with output.recording(about.model) as progress:
                    reason = record_meter(meter, writer, duration, progress=progress)
            except RigError as error:
                lost = error
                writer.close("incomplete")
    if lost is not None:
        raise lost
    finish(out, reason, json)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageError(f"--until-marker {text}: give a number, such as 258 or 0x102.") from None
    if not 0 <= value < 1 << 32:
        raise UsageError(f"--until-marker {text}: a marker has 32 bits.")
    return value


def finish(out: Path, reason: str, json: bool) -> None:
    """Say how much was recorded, and how much was lost."""
    from ..capture import open_capture

    capture = open_capture(out)
    if json:
        output.print_json({"capture": str(out), "ended": reason, **summary(capture)})
        return
    found = summary(capture)
    output.say(f"{out}: {found['seconds']:.3f} s, {found['commands']} commands, {found['samples']} rail samples; {reason}.")
    if not found["lossless"]:
        output.say("Some data is missing; `wattbell info` tells what.")


class RecordingSummary(TypedDict):
    """Summary of a recording. ``loss``: as in meta.json."""

    state: str
    seconds: float
    commands: int
    events: int
    samples: int
    lossless: bool
    loss: JsonObject


def summary(capture: Capture) -> RecordingSummary:
    """The few figures about a capture that record and info share."""
    meta = capture.meta
    rail = meta["rail"]
    samples = rail.get("samples") or 0
    return {
        "state": meta["state"],
        "seconds": capture.seconds(samples * (rail.get("interval_ticks") or 0)),
        "commands": meta["counts"]["commands"],
        "events": meta["counts"]["events"],
        "samples": samples,
        "lossless": meta["loss"].get("lossless", True),
        "loss": meta["loss"],
    }
