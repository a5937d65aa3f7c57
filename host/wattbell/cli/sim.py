"""``wattbell sim``: the virtual rig and the drives that feed it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from ..virtual.fidelity import Fidelity
from . import numbers, output
from .options import FidelityOption, Force, Json, KeepStream, LbaSize, Out
from .quantities import HOURS, TIME
from .record import finish

LongestGap = Annotated[
    float | None,
    typer.Option(
        metavar="HOURS",
        parser=HOURS,
        help="Longest pause in the trace, in hours: a longer one is treated as damage.",
        show_default="24",
        callback=numbers.between(1e-9, 1e6, "hours"),
    ),
]

app = typer.Typer(
    no_args_is_help=True,
    help="""The virtual rig: the Verilated instrument behind two pseudo-terminals.

    It needs the simulation programs ([bold]make sim[/]) and the Verilated gateware ([bold]make rtl[/]).
    """,
)


@app.command()
def profiles(json: Json = False) -> None:
    """List the drives that [bold]wattbell run --virtual[/] knows."""
    from ..virtual.profiles import known_profiles

    found = known_profiles()
    if json:
        output.print_json(found)
        return
    shown = output.table("profile", "model", "firmware")
    for entry in found:
        shown.add_row(entry["profile"], entry.get("model", ""), entry.get("firmware", ""))
    output.out.print(shown)


@app.command()
def start(
    trace: Annotated[Path, typer.Option("--trace", help="Bus trace to play.")],
    rig: Annotated[str | None, typer.Option("--rig", help="Serial number of the virtual rig, as `record --rig` takes it.")] = None,
    serial: Annotated[str | None, typer.Option("--serial", hidden=True, help="The former name of --rig.")] = None,
    eeprom: Annotated[
        Path | None, typer.Option(help="File that keeps the rig's EEPROM: its calibration outlives it. Made if there is none.")
    ] = None,
    realtime: Annotated[bool, typer.Option(help="Do not run faster than real time.")] = False,
    fidelity: FidelityOption = Fidelity.rtl,
    longest_gap: LongestGap = None,
) -> None:
    """Start a virtual rig on a bus trace and keep it until Ctrl-C; record it from another terminal.

    wattbell sim start --trace run.wbt --rig BENCH1

    wattbell record --rig BENCH1 --out capture

    wattbell sim start --trace run.wbt --eeprom bench1.eeprom
    """
    from ..virtual import simulator
    from ..virtual.replay import playable_header, rig_options

    playable_header(trace, fidelity)
    serial = rig or serial
    options = [*(["--serial", serial] if serial else []), *(["--realtime"] if realtime else [])]
    options += [*(["--eeprom", str(eeprom)] if eeprom else []), *rig_options(fidelity, longest_gap)]
    command = [str(simulator.find_program("wattbell-rig")), "play", str(trace), *options]
    output.say("The virtual rig runs until Ctrl-C; `wattbell rigs` lists it, `wattbell record --out DIR` records it.")
    # The rig takes this process over: a signal that stops it (Ctrl-C, kill, a CI job with SIGINT ignored) stops the rig itself,
    # which then takes its entry from the list of rigs. A parent that only waits would have to pass every signal on.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


@app.command()
def replay(
    out: Out,
    qemu_log: Annotated[Path | None, typer.Option(help="Trace log of QEMU's own NVMe device.")] = None,
    bus_trace: Annotated[Path | None, typer.Option(help="Bus trace (.wbt).")] = None,
    phases: Annotated[Path | None, typer.Option(help="JSON list of phases (docs/capture.md).")] = None,
    workload: Annotated[Path | None, typer.Option(help="Folder with what the workload left: fio JSON, jobs.")] = None,
    interval: Annotated[
        float | None, typer.Option(metavar="TIME", parser=TIME, callback=numbers.interval, help="Seconds between ADC conversions, or 1us.")
    ] = None,
    decimation: Annotated[int | None, typer.Option(min=1, max=4096, help="ADC conversions a rail sample.")] = None,
    attach: Annotated[Path | None, typer.Option(help="Late attach: SCPI lines (NVME:...), sent first.")] = None,
    lba_size: LbaSize = None,
    fidelity: FidelityOption = Fidelity.rtl,
    longest_gap: LongestGap = None,
    force: Force = False,
    keep_stream: KeepStream = False,
    json: Json = False,
) -> None:
    """Play recorded traffic through the virtual rig into a capture.

    A QEMU log is made with [bold]-trace 'pci_nvme_*' -D LOG -msg timestamp=on[/]. It has no rail and a clock of
    microseconds: the capture says so.

      wattbell sim replay --qemu-log qemu.log --out capture

      wattbell sim replay --bus-trace run.wbt --phases phases.json --workload run/ --out capture
    """
    if qemu_log is None and bus_trace is None:
        raise UsageError("Give one of --qemu-log LOG and --bus-trace FILE.")

    from ..virtual.play import check_whole, refuse_existing
    from ..virtual.replay import Replay
    from ..virtual.replay import replay as play_again

    refuse_existing(out, force)
    order = Replay(
        out, qemu_log, bus_trace, phases, workload, attach, fidelity, longest_gap, interval, decimation, lba_size, force, keep_stream
    )
    reason = play_again(order, output)
    finish(out, reason, json)
    check_whole(out, reason)
