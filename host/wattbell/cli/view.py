"""``wattbell view``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import temporary
from ..errors import CommandEnded, UsageError
from . import applies, complete, output

if TYPE_CHECKING:
    from ..view.shown import Shown

_STARTS_S = 60.0
"""Time in s after which a recorder without data is reported; it may wait for a trigger, so it is left alone."""


def view(
    context: typer.Context,
    what: Annotated[
        list[str],
        typer.Argument(
            help="Capture directories, or one rig by its serial number.", metavar="CAPTURE|RIG", autocompletion=complete.captures
        ),
    ],
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0: any that is free.")] = 0,
    align: Annotated[str | None, typer.Option(help="Lay captures over one another at this phase (name or number) or event.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Of a rig: capture directory to write.")] = None,
) -> None:
    """Look at a capture in the browser, from the whole down to one sample and one command.

    The page comes from this computer alone, for you alone, and needs no
    network. Ctrl-C ends it. A rig is recorded meanwhile, in a process of
    its own, so the browser costs no sample.

      wattbell view capture

      wattbell view before after --align "random read"

      wattbell view WB0001 --out capture                    records the rig
    """
    from ..view.shown import align as lay_over

    captures = [Path(text) for text in what]
    rig = _rig(what)
    if rig is None and applies.is_given(context, "out"):
        raise UsageError("--out is for a rig, which is recorded; a capture is only read. Leave --out out.")
    if len(what) == 1 and applies.is_given(context, "align"):
        raise UsageError("--align is for several captures. Leave it out, or name another capture.")
    if rig is not None:
        folder = out or Path(time.strftime("capture-%Y%m%dT%H%M%SZ", time.gmtime()))  # local time has an hour twice a year
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists already, and `wattbell view` replaces nothing: name another folder with --out.")
        with _recorder(rig, folder) as place:
            _serve([_opened(place)], port, browser)
        return
    shown = [_opened(path) for path in captures]
    if align is not None and len(shown) > 1:
        lay_over(shown, align)
    _serve(shown, port, browser)


def _rig(what: list[str]) -> str | None:
    """Return the rig that is meant: the only name, if it is a rig's and no directory; else None."""
    from ..rig import discovery

    name = what[0]
    if len(what) != 1 or (os.path.lexists(name) and not name.startswith("/dev/")):
        return None
    return name if name.startswith("/dev/") or any(port.serial == name for port in discovery.rigs()) else None


def _opened(path: Path) -> Shown:
    from ..view.shown import Shown

    with output.bar("rebuilding from the journal") as rebuilt, output.bar(f"reading the commands of {path.name} once") as made:
        return Shown(path, rebuilt, made)


def _serve(shown: list[Shown], port: int, browser: bool) -> None:
    from ..view.server import ViewServer

    server = ViewServer(shown, port)
    with temporary.folder() as private:
        output.out.print(server.url, soft_wrap=True)
        output.say("Ctrl-C ends the view.")
        if browser and not webbrowser.open(_opener(private, server.url)):
            output.say("There is no browser to open here; open that address in one on this computer.")
        with suppress(KeyboardInterrupt):
            server.serve()


def _opener(private: Path, url: str) -> str:
    """A page, readable by this user alone, that leads to the address: every user of the computer sees the command line of a browser."""
    page = private / "view.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Wattbell</a>')
    page.chmod(0o600)
    return page.as_uri()


@contextmanager
def _recorder(rig: str, out: Path) -> Iterator[Path]:
    """`wattbell record` of a rig in a process of its own, which completes the capture when the view ends."""
    from ..capture.live import being_recorded

    # in a session of its own, so that Ctrl-C is for us; the capture is completed when we are killed, too
    command = [sys.executable, "-m", "wattbell.cli.whileparent", "record", "--rig", rig, "--out", str(out)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    try:
        deadline = time.monotonic() + _STARTS_S
        while not being_recorded(out):
            if process.poll() == 0:
                break  # it was over sooner than it could be looked at
            if process.poll() is not None:
                raise CommandEnded(f"Rig {rig} was not recorded; the reason stands above.", process.returncode or 1)
            if time.monotonic() > deadline:
                raise UsageError(f"Nothing came from rig {rig} in {_STARTS_S:.0f} s; `wattbell record --rig {rig}` waits longer.")
            time.sleep(0.05)
        yield out
    finally:
        if process.poll() is None:
            output.say(f"Completing {out}.")
        process.stdin.close()
        process.wait()
