"""``wattbell record``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RigError, UsageError
from . import numbers, output

if TYPE_CHECKING:
    from ..capture import Capture, CaptureWriter
    from ..capture.record import Progress
    from ..rig import Rig

Out = Annotated[Path, typer.Option("--out", "-o", help="Capture directory to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the capture that is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LbaSize = Annotated[
    int | None, typer.Option(callback=numbers.between(512, 2**31, "bytes"), help="Bytes of a logical block, if Identify is not seen.")
]
BROKE_OFF = "the trace broke off, and what lay behind that was not played"
"""Note in a capture."""
KeepStream = Annotated[bool, typer.Option("--keep-stream", help="Keep the raw stream (stream.wbs) in the capture.")]


def record(
    out: Out,
    rig: Annotated[str | None, typer.Option("--rig", help="Serial number of the rig, or its ports: DATA,CONTROL.")] = None,
    duration: Annotated[
        float | None, typer.Option(callback=numbers.seconds, help="Stop after this many seconds of the rig's clock, or a little more.")
    ] = None,
    until_marker: Annotated[str | None, typer.Option(help="Stop at the marker of this value, such as 0x102.")] = None,
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample.")] = None,
    lba_size: LbaSize = None,
    attach: Annotated[
        Path | None, typer.Option(help="Late attach: SCPI lines (NVME:...) with BAR0 and the queue table, sent first.")
    ] = None,
    force: Force = False,
    keep_stream: KeepStream = False,
    json: Json = False,
) -> None:
    """Record a rig into a capture directory until it stops, or until Ctrl-C.

    A rig that is told to stop sends what it has until it does, and that is kept: [bold]--duration[/] and [bold]--until-marker[/] are the
    least that is recorded.

    The directory is whole at any time: a killed recorder loses at most half a second, and an unplugged rig leaves a
    gap and goes on when it is back.

      wattbell record --out capture                         until Ctrl-C

      wattbell record --out capture --duration 60           one minute

      wattbell record --out capture --until-marker 0x102    until the workload's end marker
    """
    from ..capture import CaptureWriter
    from ..capture.record import Limits
    from ..rig import Rig

    limits = Limits(duration, _number(until_marker))
    with Rig.open(rig) as opened:
        if decimation:
            opened.set_decimation(decimation)
        if attach:
            send_attach(opened, attach)
        with CaptureWriter(
            out,
            rig=rig_description(opened),
            conditions=opened.conditions(),
            lba_size_bytes=lba_size,
            keep_stream=keep_stream,
            overwrite=force,
        ) as writer:
            reason = record_live(opened, writer, limits)
            broken = opened.broke_off()
            if broken:
                writer.note(f"{BROKE_OFF}: {broken}")
    finish(out, reason, json)
    if broken:
        raise RigError(f"Rig {opened.port.serial} could not play its trace to the end ({broken}); {out} holds what came before.")


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


def send_attach(rig: Rig, path: Path) -> None:
    """Send the SCPI lines of a late-attach file; empty lines and those that begin with # are left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from None
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            rig.configure(line.strip())


def rig_description(rig: Rig) -> dict[str, Any]:
    """`rig` of ``meta.json``."""
    return {**rig.identity, "data_port": rig.port.data}


def record_live(rig: Rig, writer: CaptureWriter, limits: Any, watch: Any = None) -> str:
    """Record with a live line on stderr; returns why it ended."""
    from ..capture.record import record as record_stream

    with output.spinner("recording") as update:
        told = False

        def show(state: Progress) -> None:
            nonlocal told
            if state.waiting and not told:
                output.say(f"Rig {rig.port.serial} is gone; waiting for it to come back (Ctrl-C stops).")
            if told and not state.waiting:
                output.say("Rig is back; the recording goes on. What was missed is a gap in the capture.")
            told = state.waiting
            update(
                output.marked(
                    f"{'[yellow]unplugged[/]' if state.waiting else 'recording'} {state.seconds:.1f} s  "
                    f"{state.stream_bytes / 1e6:.1f} MB  {state.commands} commands  {state.samples} samples"
                    f"{'' if state.lossless else '  [red]with loss[/]'}"
                )
            )

        return record_stream(rig, writer, limits, progress=show, watch=watch)


def finish(out: Path, reason: str, json: bool) -> None:
    """Say what was recorded, and what was not."""
    from ..capture import open_capture

    capture = open_capture(out)
    if json:
        output.print_json({"capture": str(out), "ended": reason, **summary(capture)})
        return
    found = summary(capture)
    output.say(
        f"{out}: {found['seconds']:.3f} s, {found['commands']} commands, {found['samples']} rail samples; {reason}."
    )
    if not found["lossless"]:
        output.say("Some data is missing; `wattbell info` tells what.")


def summary(capture: Capture) -> dict[str, Any]:
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
