"""``wattbell view``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import output

if TYPE_CHECKING:
    from ..zoom import Zoom


def _opened(path: Path) -> Zoom:
    from ..zoom import open_zoom

    with output.bar("rebuilding from the journal") as rebuilt, output.bar(f"reading the commands of {path.name} once") as made:
        return open_zoom(path, rebuilt, made)


def view(
    captures: Annotated[list[Path], typer.Argument(help="Capture directories.", metavar="CAPTURE...")],
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0: any that is free.")] = 0,
) -> None:
    """Look at a capture in the browser, from all of it down to one sample and one command.

    The page comes from this machine alone and needs no network. Ctrl-C ends it.

      wattbell view capture

      wattbell view before after
    """
    from ..view.server import ViewServer
    from ..view.shown import Shown

    server = ViewServer([Shown(path.absolute().name, path, _opened(path)) for path in captures], port)
    output.out.print(server.url, soft_wrap=True)
    if browser:
        webbrowser.open(server.url)
    server.serve()
