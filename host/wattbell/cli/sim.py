"""``wattbell sim``: the virtual rig and the drives that feed it."""

from __future__ import annotations

import os
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SimError, UsageError
from ..jsondata import JsonObject
from ..virtual import programs
from ..virtual.bustrace import read_header
from ..virtual.model import Fidelity
from ..virtual.play import VirtualRun, check_whole, play, refuse_existing, scratch
from ..virtual.workload import Workload, checked_phases, read_phases, workload_files
from . import numbers, output
from .record import FidelityOption, Force, Json, KeepStream, LbaSize, Out, finish

_QEMU_INTERVAL_S = 1e-4

LongestGap = Annotated[
    float | None,
    typer.Option(
        help="Longest pause in the trace, in hours: a longer one is taken for damage.",
        show_default="24",
        metavar="HOURS",
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
    found = []
    for path in programs.profile_files():
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise SimError(f"{path} is no valid profile ({error}).") from None
        found.append({"profile": path.stem, "path": str(path), **_identity(content)})
    if not found:
        raise SimError(f"There is no profile in {programs.profiles_dir()}; set WATTBELL_PROFILES to the folder that has them.")
    if json:
        output.print_json(found)
        return
    shown = output.table("profile", "model", "firmware")
    for entry in found:
        shown.add_row(entry["profile"], str(entry.get("model", "")), str(entry.get("firmware", "")))
    output.out.print(shown)


def _identity(content: JsonObject) -> JsonObject:
    """Model and firmware, wherever in the profile they stand."""
    for part in (content, *(value for value in content.values() if isinstance(value, dict))):
        if "model" in part:
            found = {name: part[name] for name in ("model", "firmware") if name in part}
            # a value of a profile may stand with its source
            return {name: fact["value"] if isinstance(fact, dict) else fact for name, fact in found.items()}
    return {}


@app.command()
def start(
    trace: Annotated[Path, typer.Option("--trace", help="Bus trace to play.")],
    serial: Annotated[str | None, typer.Option(help="Serial number of the virtual rig.")] = None,
    eeprom: Annotated[
        Path | None, typer.Option(help="File that keeps the rig's EEPROM: its calibration outlives it. Made if there is none.")
    ] = None,
    realtime: Annotated[bool, typer.Option(help="Do not run faster than real time.")] = False,
    fidelity: FidelityOption = Fidelity.rtl,
    longest_gap: LongestGap = None,
) -> None:
    """Start a virtual rig on a bus trace and keep it until Ctrl-C; record it from another terminal.

      wattbell sim start --trace run.wbt --serial BENCH1

      wattbell record --rig BENCH1 --out capture

      wattbell sim start --trace run.wbt --eeprom bench1.eeprom
    """
    _refuse_unplayable(read_header(trace), trace, fidelity)
    options = [*(["--serial", serial] if serial else []), *(["--realtime"] if realtime else [])]
    options += [*(["--eeprom", str(eeprom)] if eeprom else []), *_rig_options(fidelity, longest_gap)]
    command = [str(programs.find_program("wattbell-rig")), "play", str(trace), *options]
    output.say("The virtual rig runs until Ctrl-C; `wattbell rigs` lists it, `wattbell record --out DIR` records it.")
    # The rig takes this process over: whoever stops it (Ctrl-C, kill, a CI job with SIGINT ignored) stops the rig itself,
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
    interval: Annotated[float | None, typer.Option(callback=numbers.interval, help="Seconds between ADC conversions.")] = None,
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
    if (qemu_log is None) == (bus_trace is None):
        raise UsageError("Give one of --qemu-log LOG and --bus-trace FILE.")
    refuse_existing(out, force)
    with ExitStack() as stack:
        if phases is None and workload is not None:
            beside = workload / "phases.json"
            phases = beside if beside.exists() else None
        trace = _convert(qemu_log, scratch(stack)) if qemu_log else bus_trace
        assert trace is not None
        header = read_header(trace)
        _refuse_unplayable(header, trace, fidelity)
        found = read_phases(phases) or checked_phases(header.get("phases") or [], trace)
        files = workload_files(workload)
        timing, source = header.get("timing"), header.get("source")
        run = VirtualRun(
            out,
            {
                "profile": header.get("profile") or None,
                "timing": timing,
                "fidelity": fidelity.value,
                "notes": list(header.get("notes", [])),
            },
            overwrite=force,
            keep_stream=keep_stream,
            interval_s=interval or (_QEMU_INTERVAL_S if timing == "qemu-log" else None),
            decimation=decimation,
            lba_size_bytes=lba_size,
            late=attach,
            rig_options=_rig_options(fidelity, longest_gap),
            workload={"source": source, "phases": found},
        )
        reason = play(run, trace, None, lambda: Workload({"source": source, "phases": found}, files), output)
    finish(out, reason, json)
    check_whole(out, reason)


def _refuse_unplayable(header: JsonObject, trace: Path, fidelity: Fidelity) -> None:
    """Before a rig is started that would end at the trace's first command."""
    if header.get("summaries") and fidelity is Fidelity.rtl:
        text = "holds command summaries (it was made with --fidelity fast), and the gateware can only be shown TLPs"
        raise UsageError(f"{trace} {text}: add --fidelity fast.")


def _rig_options(fidelity: Fidelity, longest_gap_h: float | None) -> list[str]:
    gap = [] if longest_gap_h is None else ["--longest-gap", str(longest_gap_h)]
    return ["--fidelity", fidelity.value, *gap]


def _convert(log: Path, folder: Path) -> Path:
    if not os.access(log, os.R_OK):
        raise UsageError(f"{log} cannot be read; give the log that QEMU wrote with -D.")
    trace = folder / "qemu.wbt"
    with output.spinner("converting the QEMU log"):
        programs.run_program("wattbell-guest", "qemu2bus", log, "--out", trace)
    return trace
