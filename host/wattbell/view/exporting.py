"""A selection as a file of another format, for the browser to save."""

from __future__ import annotations

import re
from contextlib import ExitStack

from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from .. import temporary
from ..capture import open_capture
from ..export import FORMATS
from .asked import Asked


def export(asked: Asked) -> FileResponse:
    """The span in ``format``. It is made in the system's folder for temporary files (TMPDIR) and removed when it has been sent.

    The capture is opened again for it: a reader of JLS is for one thread.
    """
    form = FORMATS[asked.choice("format", tuple(FORMATS))]
    begin, end = asked.span
    with ExitStack() as until_made:
        folder = until_made.enter_context(temporary.folder())
        path = form.write(open_capture(asked.shown.path, verify=False), begin, end, folder / f"export{form.suffix}")
        until_sent = until_made.pop_all()
    name = f"{_plain(asked.shown.name)}-{(begin - asked.origin) * asked.zoom.tick_s:.6f}s{form.suffix}"
    return FileResponse(path, media_type=form.media_type, filename=name, background=BackgroundTask(until_sent.close))


def _plain(name: str) -> str:
    """The capture's name as part of a file's on any system."""
    return re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII)[:80] or "capture"
