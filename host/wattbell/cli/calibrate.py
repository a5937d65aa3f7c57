"""``wattbell calibrate``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..jsondata import JsonObject
from ..text import percent
from . import calibratedelay, numbers, output
from .options import Json, RigOption
from .quantities import CURRENT, TIME, VOLTAGE

if TYPE_CHECKING:
    from ..rig.calibration.plan import Applied, SourceUncertainty
    from ..rig.calibration.procedure import ChannelCalibration


_SETTLE_S, _PROMPTED_SETTLE_S = 0.01, 2.0
"""Settling times in s: of a programmed source, and of connections just made by hand."""


_LARGEST = 1e6
"""Largest V, A or ppm that can be connected to a rig."""


def calibrate(
    point: Annotated[
        list[str] | None, typer.Option(help="Known input, VOLTS,AMPERES, such as 3.3,1.0 or 3.3V,250mA; give two or more.")
    ] = None,
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Say what to connect and to set, and ask what the reference meters show.")
    ] = False,
    rig: RigOption = None,
    seconds: Annotated[
        float,
        typer.Option(metavar="TIME", parser=TIME, callback=numbers.between(1e-3, 1e6, "s"), help="How long each point is read, in s."),
    ] = 1.0,
    settle: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=TIME,
            callback=numbers.between(0, 1e6, "s"),
            help="Settling time ignored at the start of each point, in s: 0.01, with --prompt 2.",
            show_default=False,
        ),
    ] = None,
    dwell: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=TIME,
            callback=numbers.between(0, 1e6, "s"),
            help="Seconds per point from the start of the capture, for a source that steps by itself; no prompts.",
        ),
    ] = None,
    source_ppm: Annotated[str, typer.Option(help="Standard uncertainty of the source: VOLTAGE,CURRENT.")] = "10,33.3",
    source_offset: Annotated[
        float,
        typer.Option(
            metavar="CURRENT", parser=CURRENT, callback=numbers.between(0, 10, "A"), help="Standard uncertainty of the source at 0 A, in A."
        ),
    ] = 3.3e-7,
    reference_uncertainty: Annotated[
        str | None, typer.Option(help="Standard uncertainty of the reference meters, VOLTAGE,CURRENT, each in % or ppm: 15ppm,0.01%.")
    ] = None,
    zero: Annotated[bool, typer.Option("--zero", help="Then measure the current's zero again, inputs shorted.")] = False,
    delay: Annotated[bool, typer.Option("--delay", help="Measure the delay of each current path, with the rig's own test load.")] = False,
    keep: Annotated[bool, typer.Option("--keep/--no-keep", help="Keep it in the rig's EEPROM.")] = True,
    store: Annotated[bool | None, typer.Option("--store/--no-store", hidden=True, help="The former name of --keep.")] = None,
    json: Json = False,
) -> None:
    """Calibrate a rig against a source of known voltage and current at its connector.

    Each point is a voltage and a current at once. The line through the points goes into the rig, which then calls its rail
    calibrated. Points near both ends of each scale are best; with three or more it is checked that they lie on a line.

    A rig with two current paths needs two points of at most 75 mA, and two of 105 mA or more.

      wattbell calibrate --prompt --reference-uncertainty 15ppm,0.01%

      wattbell calibrate --point 2.7,0 --point 4.2,3.5

      wattbell calibrate --point 2.7,0 --point 3.3,0.07 --point 3.3,0.25 --point 4.2,3.5 --zero

      wattbell calibrate --point 2.7,0 --point 3.3,1 --point 4.2,3.5 --dwell 2 --seconds 1.5

      wattbell calibrate --delay                            nothing in the connector, the rig's 3.3 V on
    """
    from ..rig import Rig
    from ..rig.calibration import procedure
    from ..rig.calibration.plan import CalibrationPlan
    from .benchprompts import PromptedBench, UnaskedBench

    store = keep if store is None else store
    if not point and not prompt and not delay:
        raise UsageError("Nothing to calibrate: give two or more --point VOLTS,AMPERES, --prompt to be led through them, or --delay.")
    settle = settle if settle is not None else _PROMPTED_SETTLE_S if prompt else _SETTLE_S
    source = _source(source_ppm, source_offset, reference_uncertainty)
    plan = CalibrationPlan([_point(text) for text in point or []], seconds, settle, dwell, source, zero)
    bench = PromptedBench(settle, seconds) if prompt else UnaskedBench()
    lines_wanted = bool(point) or prompt
    with Rig.open(rig) as opened:
        found = procedure.calibrate(opened, plan, bench, store) if lines_wanted else {}
        delays = calibratedelay.calibrate_delays(opened, store, lines_wanted and dwell is None) if delay else {}
        serial = opened.port.serial
    if json:
        lines = {name: _json(channel) for name, channel in found.items()}
        late = {"delay": calibratedelay.to_json(delays)} if delay else {}
        output.print_json({"rig": serial, "stored": store, **lines, **late})
        return
    if delay:
        calibratedelay.show(delays)
    shown = output.table("channel", ">offset, codes", ">gain against nominal", ">u of gain (k=2)", ">u of offset (k=2)", "registers")
    nominal_of = {"voltage": 5 / 2**18, "current": 31.25e-6, "fine": 31.25e-6 / 36}
    for name, channel in found.items():
        unit, nominal = "V" if name == "voltage" else "A", nominal_of[name]
        gain = (channel.line.scale / nominal - 1) * 100
        shown.add_row(
            name,
            f"{channel.line.offset:.2f}",
            percent(gain / 100, 4, sign=True),
            f"{channel.residual.gain * 100:.4f} %",
            output.si(channel.residual.offset, unit),
            f"{channel.registers.offset}, {channel.registers.gain}",
        )
    if found:
        output.out.print(shown)
    output.say(f"Rig {serial} is calibrated{', and keeps it' if store else ' until it is switched off'}.")


def _point(text: str) -> Applied:
    from ..rig.calibration.plan import Applied

    volts, comma, amperes = text.partition(",")
    found = VOLTAGE.read(volts), CURRENT.read(amperes)
    if None in found:
        raise UsageError(f"--point {text}: give a voltage and a current, such as 3.3,1.0 or 3.3V,250mA.")
    return Applied(*_two(f"{found[0]}{comma}{found[1]}", "--point", "3.3,1.0"))


def _source(ppm: str, offset: float, reference: str | None) -> SourceUncertainty:
    from ..rig.calibration.plan import SourceUncertainty

    if reference is not None:
        voltage, current = _shares(reference)
        return SourceUncertainty(voltage, current, offset)
    voltage, current = _two(ppm, "--source-ppm", "10,33.3")
    return SourceUncertainty(voltage * 1e-6, current * 1e-6, offset)


def _shares(text: str) -> tuple[float, float]:
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(%|ppm)\s*,\s*(\d+\.?\d*|\.\d+)\s*(%|ppm)\s*", text)
    if not found:
        raise UsageError(f"--reference-uncertainty {text}: give two shares with their unit, such as 15ppm,0.01%.")
    unit = {"%": 1e-2, "ppm": 1e-6}
    shares = float(found[1]) * unit[found[2]], float(found[3]) * unit[found[4]]
    if max(shares) > 1:
        raise UsageError(f"--reference-uncertainty {text}: no meter is worse than 100 %.")
    return shares


def _two(text: str, option: str, example: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text}: give two numbers, such as {example}.") from None
    if not (abs(first) <= _LARGEST and abs(second) <= _LARGEST):
        raise UsageError(f"{option} {text}: give two numbers of that size, such as {example}.")
    return first, second


def _json(channel: ChannelCalibration) -> JsonObject:
    return {
        "offset_codes": channel.line.offset,
        "scale": channel.line.scale,
        "registers": {"offset": channel.registers.offset, "gain": channel.registers.gain},
        "u_gain": channel.residual.gain,
        "u_offset": channel.residual.offset,
        "points": [{"applied": p.applied, "code": p.code, "code_sigma": p.code_sigma} for p in channel.points],
    }
