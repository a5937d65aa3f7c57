"""``wattbell calibrate``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from . import calibratedelay, output
from .record import Json

if TYPE_CHECKING:
    from ..calibration.procedure import Applied, Channel


def calibrate(
    point: Annotated[list[str] | None, typer.Option(help="Known input, VOLTS,AMPERES; give two or more.")] = None,
    rig: Annotated[str | None, typer.Option("--rig", help="Serial number of the rig, or its ports: DATA,CONTROL.")] = None,
    seconds: Annotated[float, typer.Option(min=1e-3, help="How long each point is read.")] = 1.0,
    settle: Annotated[float, typer.Option(min=0.0, help="Seconds left out at the beginning of each point.")] = 0.01,
    dwell: Annotated[
        float | None, typer.Option(help="The source steps by itself, each so many seconds from the start of the capture; nothing is asked.")
    ] = None,
    source_ppm: Annotated[str, typer.Option(help="Standard uncertainty of the source: VOLTAGE,CURRENT.")] = "10,33.3",
    source_offset: Annotated[float, typer.Option(help="The same of its zero current, in A.")] = 3.3e-7,
    zero: Annotated[bool, typer.Option("--zero", help="Then measure the current's zero again, inputs shorted by the rig.")] = False,
    delay: Annotated[bool, typer.Option("--delay", help="Find how late each current path is, with the rig's own test load.")] = False,
    store: Annotated[bool, typer.Option("--store/--no-store", help="Keep it in the rig's EEPROM.")] = True,
    json: Json = False,
) -> None:
    """Calibrate a rig against a source of known voltage and current at its connector.

    Each point is a voltage and a current at once. The line through the points goes into the rig, which then calls its rail
    calibrated. Points near both ends of each scale are best; with three or more it is checked that they lie on a line.

    A rig with two current paths needs two points of at most 75 mA, and two of 105 mA or more.

      wattbell calibrate --point 1.0,0 --point 4.5,3.5

      wattbell calibrate --point 1.0,0 --point 3.3,0.07 --point 3.3,0.25 --point 4.5,3.5 --zero

      wattbell calibrate --point 1,0 --point 3.3,1 --point 4.5,3.5 --dwell 2 --seconds 1.5

      wattbell calibrate --delay                            nothing in the connector, the rig's 3.3 V on
    """
    from ..calibration import procedure
    from ..rig import Rig

    if not point and not delay:
        raise UsageError("Nothing to calibrate: give two or more --point VOLTS,AMPERES, or --delay, or both.")
    plan = procedure.Plan(
        [_point(text) for text in point or []], seconds, settle, dwell, procedure.Source(*_ppm(source_ppm), source_offset), zero)
    with Rig.open(rig) as opened:
        found = procedure.calibrate(opened, plan, _ask, store) if point else {}
        delays = calibratedelay.calibrate_delays(opened, store, bool(point) and dwell is None) if delay else {}
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
            name, f"{channel.line.offset:.2f}", f"{gain:+.4f} %", f"{channel.residual.gain * 100:.4f} %",
            output.si(channel.residual.offset, unit), f"{channel.registers.offset}, {channel.registers.gain}",
        )  # fmt: skip
    if found:
        output.out.print(shown)
    output.say(f"Rig {serial} is calibrated{', and keeps it' if store else ' until it is switched off'}.")


def _ask(applied: Applied) -> None:
    typer.confirm(f"Apply {applied.voltage:g} V and {applied.current:g} A. Ready?", default=True, abort=True, err=True)


def _point(text: str) -> Applied:
    from ..calibration.procedure import Applied

    return Applied(*_two(text, "--point", "3.3,1.0"))


def _ppm(text: str) -> tuple[float, float]:
    voltage, current = _two(text, "--source-ppm", "10,33.3")
    return voltage * 1e-6, current * 1e-6


def _two(text: str, option: str, example: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text}: give two numbers, such as {example}.") from None
    if not (math.isfinite(first) and math.isfinite(second)):
        raise UsageError(f"{option} {text}: give two finite numbers, such as {example}.")
    return first, second


def _json(channel: Channel) -> dict[str, Any]:
    return {
        "offset_codes": channel.line.offset,
        "scale": channel.line.scale,
        "registers": {"offset": channel.registers.offset, "gain": channel.registers.gain},
        "u_gain": channel.residual.gain,
        "u_offset": channel.residual.offset,
        "points": [{"applied": p.applied, "code": p.code, "code_sigma": p.code_sigma} for p in channel.points],
    }
