"""The command tree, and how errors reach the user: one line, a non-zero exit code, no traceback."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from .. import __version__
from ..errors import WattbellError
from . import (
    applies,
    bridge,
    calibrate,
    captures,
    check,
    compare,
    config,
    importfiles,
    info,
    meters,
    record,
    results,
    rigs,
    run,
    seeds,
    sim,
    suites,
    sump,
    trace,
    verbosity,
    view,
)
from .output import err

app = typer.Typer(
    name="wattbell",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Measure what an NVMe SSD does and what it costs in energy, at the drive's own connector.

    A rig, a virtual one, or a power meter sends what it sees;
    [bold]record[/] and [bold]run[/] put it into a capture directory, which
    [bold]analyze[/], [bold]report[/] and [bold]export[/] read.

    [bold]Try it with nothing but this computer:[/]

      wattbell run demo.toml --virtual intel-660p-1tb --out capture

      wattbell report capture --out report.html

    [bold]On a drive, with a rig or a meter[/] (docs/bench.md):

      wattbell rigs

      wattbell meters

      wattbell run reads.fio --drive /dev/nvme0n1 --out capture \\
        --meter powersensor3:/dev/ttyACM0
    """,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wattbell {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what is done meanwhile, and how long it takes.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    if debug:
        os.environ["WATTBELL_DEBUG"] = "1"
    if verbose:
        verbosity.begin()


RECORD, LOOK, SUITES, EQUIPMENT, FILES, MAINTENANCE = "Record", "Look", "Suites", "Rigs and meters", "Files", "Maintenance"
"""Groups of the help, in the order of their first commands."""

app.command("record", rich_help_panel=RECORD)(record.record)
app.command("run", cls=run.RunCommand, rich_help_panel=RECORD)(run.run)
app.command("import", rich_help_panel=RECORD)(importfiles.import_)
app.command("view", rich_help_panel=LOOK)(view.view)
app.command("info", rich_help_panel=LOOK)(info.info)
app.command("analyze", rich_help_panel=LOOK)(captures.analyze)
app.command("report", rich_help_panel=LOOK)(captures.report)
app.command("suites", rich_help_panel=SUITES)(suites.suites)
app.command("compare", rich_help_panel=SUITES)(compare.compare)
app.add_typer(results.app, name="results", rich_help_panel=SUITES)
app.command("seeds-check", rich_help_panel=SUITES)(seeds.seeds_check)
app.command("rigs", rich_help_panel=EQUIPMENT)(rigs.rigs)
app.command("meters", rich_help_panel=EQUIPMENT)(meters.meters)
app.command("calibrate", rich_help_panel=EQUIPMENT)(calibrate.calibrate)
app.command("bridge", rich_help_panel=EQUIPMENT)(bridge.bridge)
app.command("sump", rich_help_panel=EQUIPMENT)(sump.sump)
app.add_typer(sim.app, name="sim", rich_help_panel=EQUIPMENT)
app.add_typer(captures.export_app, name="export", rich_help_panel=FILES)
app.add_typer(trace.app, name="trace", rich_help_panel=FILES)
app.command("sigrok-decoders", rich_help_panel=FILES)(captures.sigrok_decoders)
app.command("check", rich_help_panel=MAINTENANCE)(check.check)
app.command("config", rich_help_panel=MAINTENANCE)(config.config)


def _check_options(tree: typer.Typer) -> None:
    """Have every command refuse options that do not apply (:mod:`.applies`)."""
    for command in tree.registered_commands:
        if command.cls is None or not issubclass(command.cls, applies.Checked):
            command.cls = applies.Checked
    for group in tree.registered_groups:
        if group.typer_instance is not None:
            _check_options(group.typer_instance)


_check_options(app)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point of the ``wattbell`` program."""
    signal.signal(signal.SIGTERM, _interrupt)  # what was recorded is completed as after Ctrl-C
    debug = os.environ.get("WATTBELL_DEBUG", "")
    try:
        try:
            app(default_map=config.load(lambda: typer.main.get_command(app)).defaults)
        finally:
            sys.stdout.flush()  # a disk or a pipe that does not take it is found out here, and not behind our back at the exit
    except WattbellError as error:
        _fail("error:", str(error), error.exit_code, debug)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in its buffer would fail again
        _fail("error:", _of_the_system(error), 1, debug)
    except Exception as error:
        text = f"{type(error).__name__}: {error} (run again with `wattbell --debug ...` and report the traceback)"
        _fail("bug:", text, 70, debug)


_WHAT_TO_DO = {
    errno.ENOSPC: "disk is full: free some space",
    errno.EDQUOT: "your quota of the disk is used up: free some space",
    errno.EFBIG: "the file would be larger than this system (or its limit, `ulimit -f`) lets it be: use another disk, or raise the limit",
    errno.ENAMETOOLONG: "name is too long: use a shorter one",
    errno.EACCES: "no permission: check who owns it",
    errno.EROFS: "that file system is read-only: use another place",
    errno.EMFILE: "too many open files: raise `ulimit -n`",
}


def _of_the_system(error: OSError) -> str:
    """An error of the operating system that no command knew to expect, with what to do about it."""
    rust = re.search(r"\(os error (\d+)\)", str(error))  # Polars puts the number into the text
    said = _WHAT_TO_DO.get(error.errno or int(rust[1] if rust else 0)) or error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {said}" if error.filename is not None else said


def _fail(head: str, text: str, code: int, debug: str) -> NoReturn:
    """One line on stderr, and out with ``code``; under --debug the traceback before it."""
    if os.environ.get("WATTBELL_DEBUG", debug):
        traceback.print_exc()
    err.print(Text.assemble((head, "bold red"), " ", " ".join(text.split("\n"))), soft_wrap=True)
    sys.exit(code)
