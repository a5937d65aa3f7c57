"""``wattbell import``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from ..errors import UsageError
from ..nearest import did_you_mean
from . import applies, numbers, output
from .options import Force, Json, LbaSize, Out
from .quantities import TIME, VOLTAGE, QuantityParser
from .record import finish

if TYPE_CHECKING:
    from ..formats import Volts
    from ..formats.waveform import NamedColumn
    from ..importer.align import Align

_ROLES = ("time", "current", "voltage", "power")


def import_(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Waveform: one file, or one a channel.", metavar="FILE...", show_default=False)],
    out: Out,
    fio: Annotated[list[Path] | None, typer.Option("--fio", help="fio's JSON (--output-format=json): the phases. May be repeated.")] = None,
    trace: Annotated[
        list[Path] | None,
        typer.Option("--trace", help="Log of the commands: tracefs or trace-cmd text, blkparse text, fio's logs, iolog. May be repeated."),
    ] = None,
    identify: Annotated[
        list[Path] | None,
        typer.Option("--identify", help="The drive, by nvme id-ctrl or id-ns: JSON or raw bytes. May be repeated."),
    ] = None,
    format: Annotated[str | None, typer.Option("--format", help="Format of the waveform, where its content does not tell.")] = None,
    rail: Annotated[str | None, typer.Option("--rail", help="Which rail, where the file has several.")] = None,
    volts: Annotated[str | None, typer.Option("--volts", help="V[,U]: the rail's voltage, where the instrument measures none.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", help="ROLE=NAME[:UNIT]: which column is time, current, voltage or power. May be repeated."),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval", metavar="TIME", parser=TIME, callback=numbers.interval, help="Time between two rows of a file that has no times."
        ),
    ] = None,
    align: Annotated[str, typer.Option("--align", help="How the clocks are aligned: edges of the power, or utc.")] = "edges",
    align_u: Annotated[
        float | None,
        typer.Option(
            "--align-u",
            metavar="TIME",
            parser=TIME,
            callback=numbers.between(0, 60, "s"),
            help="With utc: how well the two clocks agreed, in s.",
        ),
    ] = None,
    offset: Annotated[
        str | None, typer.Option("--offset", help="S,U: the first work begins S seconds behind the first sample, within U seconds.")
    ] = None,
    accuracy: Annotated[
        str | None, typer.Option("--accuracy", help="gain=,offset=,timebase=: limits (k = 2) of the instrument; offset in A.")
    ] = None,
    lba_size: LbaSize = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make a capture of another instrument's waveform and of the host's records of the work.

    Waveforms: JLS and CSV of a Joulescope, Quarch, PPK2 (.ppk2 and CSV),
    PowerSensor3, Otii, sigrok sessions, CSV of any scope, supply or logger.
    Rows that are missing, and samples that the instrument cannot have
    measured, are gaps. The clocks are aligned by the edges that the work
    makes in the power; how well is printed and enters every figure.

      wattbell import run.jls --fio fio.json --out capture

      wattbell import ppk2.csv --volts 3.3,0.03 --fio fio.json \\
        --trace trace.txt --identify id-ctrl.json --out capture

      wattbell import scope.csv --out capture --column time=t:ms \\
        --column current=I:mA --column voltage=U:V
    """
    from ..formats import WaveformOptions
    from ..importer.accuracy import parse_accuracy
    from ..importer.build import ImportOrder, import_files

    fields = {"rail": "rail", "volts": "volts", "column": "columns", "interval": "interval_s"}
    defaults = frozenset(field for name, field in fields.items() if not applies.is_given(context, name))
    options = WaveformOptions(rail, _volts(volts), _columns(column or []), interval, defaults)
    order = ImportOrder(
        files,
        options,
        format,
        fio or [],
        trace or [],
        identify or [],
        _align(align, align_u, offset),
        parse_accuracy(accuracy) if accuracy else {},
        lba_size,
    )
    with output.spinner("importing") as say:
        done = import_files(order, out, overwrite=force, say=say)
    for aligned in done.alignments:
        output.say(aligned.sentence() + ".")
    for note in (*done.log_notes, *done.waveform_notes):
        output.say(note)
    finish(out, f"{done.instrument}, from {done.format}", json)


def _pair(option: str, text: str, kind: QuantityParser) -> tuple[float, float | None]:
    values = [value for part in text.split(",") if (value := kind.read(part)) is not None]
    if len(values) != text.count(",") + 1 or len(values) > 2 or not all(math.isfinite(v) and abs(v) < numbers.LONGEST_S for v in values):
        raise UsageError(f"{option} {text[:40]}: give a number, or two with a comma between: the value and its uncertainty.")
    if len(values) == 2 and values[1] < 0:
        raise UsageError(f"{option} {text[:40]}: an uncertainty is not negative.")
    return values[0], values[1] if len(values) == 2 else None


def _volts(text: str | None) -> Volts | None:
    from ..formats import Volts
    from ..meters.volts import TOLERANCE

    if text is None:
        return None
    value, u = _pair("--volts", text, VOLTAGE)
    if value == 0:
        raise UsageError("--volts 0: a rail without a voltage gives no power.")
    if u is None:
        u = TOLERANCE * abs(value)
    return Volts(value, u)


def _columns(texts: list[str]) -> dict[str, NamedColumn]:
    from ..formats.waveform import NamedColumn

    found = {}
    for text in texts:
        role, between, rest = text.partition("=")
        if role not in _ROLES or not between or not rest:
            raise UsageError(f"--column {text[:60]}: give ROLE=NAME or ROLE=NAME:UNIT, with a role of {', '.join(_ROLES)}.")
        name, colon, unit = rest.rpartition(":")
        found[role] = NamedColumn(name, unit) if colon and name and unit else NamedColumn(rest)
    return found


def _align(way: str, u_s: float | None, offset: str | None) -> Align:
    from ..importer.align import Align, Way

    if offset is not None:
        value, u = _pair("--offset", offset, TIME)
        return Align("offset", u, value)
    known: tuple[Way, ...] = get_args(Way)
    for name in known[:2]:
        if way == name:
            return Align(name, u_s)
    raise UsageError(f"--align {way[:40]}: give edges or utc (or --offset S,U).{did_you_mean(way, known[:2])}")
