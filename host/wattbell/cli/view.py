"""``wattbell view``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from . import output


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
    from ..view.answers import Shown
    from ..view.server import ViewServer
    from ..zoom import open_zoom

    server = ViewServer([Shown(path.absolute().name, open_zoom(path)) for path in captures], port)
    output.out.print(server.url, soft_wrap=True)
    if browser:
        webbrowser.open(server.url)
    server.serve()
