"""``python -m wattbell.cli.whileparent COMMAND...``: a command that gets one SIGINT when its standard input ends.

The parent holds the other end of that pipe. So the command ends cleanly when the parent closes the pipe, and when the parent is killed.
PR_SET_PDEATHSIG would send a signal for each thread of the parent, and a second SIGINT interrupts the clean end.
"""

from __future__ import annotations

import os
import signal
import threading

from .app import main


def _watch() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    threading.Thread(target=_watch, daemon=True).start()
    main()
