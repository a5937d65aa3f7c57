"""The command tree, and how errors reach the user: one line, a non-zero exit code, no traceback."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import traceback
from functools import cache
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from .. import __version__
from ..errors import WattbellError
from . import config, hangup, mistakes
from .commands import Root

NAME = "wattbell"
app = typer.Typer(
    name=NAME,
    cls=Root,
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
        from . import verbosity

        verbosity.begin()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@cache
def tree() -> Any:
    """The root of the commands, which makes each command when it is asked for."""
    return typer.main.get_command(app)


def main() -> None:
    """Entry point of the ``wattbell`` program."""
    try:
        answer()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # all is done and said: a late Ctrl-C changes neither exit code nor words


def answer() -> NoReturn:
    """Run the command of ``sys.argv`` and exit with its code."""
    signal.signal(signal.SIGTERM, _interrupt)  # the recording so far is completed as after Ctrl-C
    hangup.prepare()
    debug = os.environ.get("WATTBELL_DEBUG", "")
    try:
        try:
            code = tree()(prog_name=NAME, default_map=config.load(tree).defaults, standalone_mode=False)
        finally:
            sys.stdout.flush()  # a disk or a pipe that does not take it is found out here, and not behind our back at the exit
    except WattbellError as error:
        _fail("error:", str(error), error.exit_code, debug)
    except typer.TyperException as error:
        if mistakes.nothing_given(error):
            sys.exit(error.exit_code)  # the help was printed
        _fail("error:", mistakes.sentence(error), error.exit_code, debug)
    except typer.Abort:
        _fail("error:", "Stopped, because that was not confirmed.", 1, debug)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest in its buffer would fail again
        _fail("error:", _of_the_system(error), 1, debug)
    except Exception as error:
        if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_THREAD):
            _fail("error:", _WHAT_TO_DO[errno.ENOMEM], 1, debug)
        text = f"{type(error).__name__}: {error} (run again with `wattbell --debug ...` and report the traceback)"
        _fail("bug:", text, 70, debug)
    sys.exit(code or 0)


_NO_THREAD = ("can't start new thread", "Failed to launch worker thread")
"""Messages of Python and Arrow without memory for a thread, or without the right to one more."""
_WHAT_TO_DO = {
    errno.ENOSPC: "disk is full: free some space",
    errno.EDQUOT: "your quota of the disk is used up: free some space",
    errno.EFBIG: "the file would be larger than this system (or its limit, `ulimit -f`) lets it be: use another disk, or raise the limit",
    errno.ENAMETOOLONG: "name is too long: use a shorter one",
    errno.EACCES: "no permission: check who owns it",
    errno.EROFS: "that file system is read-only: use another place",
    errno.ENOMEM: "memory ran out: end other programs, or raise the limit (`ulimit -v`, or MemoryMax of its service)",
    errno.EMFILE: "too many open files: raise `ulimit -n`",
}


def _of_the_system(error: OSError) -> str:
    """Return the message of an unexpected error of the operating system, with advice."""
    rust = re.search(r"\(os error (\d+)\)", str(error))  # Polars puts the number into the text
    said = _WHAT_TO_DO.get(error.errno or int(rust[1] if rust else 0)) or error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {said}" if error.filename is not None else said


def _fail(head: str, text: str, code: int, debug: str) -> NoReturn:
    """One line on stderr, and out with ``code``; under --debug the traceback before it."""
    if os.environ.get("WATTBELL_DEBUG", debug):
        traceback.print_exc()

    try:
        from rich.text import Text

        from .console import err

        err.print(Text.assemble((head, "bold red"), " ", " ".join(text.split("\n"))), soft_wrap=True)
    except MemoryError:
        print(head, text, file=sys.stderr)
    sys.exit(code)
