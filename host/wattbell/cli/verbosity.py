"""``--verbose``: log the program's actions on stderr, with the time since the program began."""

from __future__ import annotations

import logging
import os
import sys
import time

from .. import __version__
from . import config, output

LOG = logging.getLogger("wattbell")
"""Any code below may log its actions (``info``); nothing is shown without ``--verbose``."""
_began = time.monotonic()


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        output.say(f"[{time.monotonic() - _began:8.3f} s] {record.getMessage()}")


def begin() -> None:
    """Show it from now on."""
    if LOG.handlers:
        return
    LOG.addHandler(_Lines())
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    LOG.info("wattbell %s, Python %s, %s", __version__, sys.version.split()[0], os.path.dirname(os.path.dirname(__file__)))
    LOG.info("%s: %s", config.read.path, f"{len(config.read.values)} defaults" if config.read.found else "not there")
