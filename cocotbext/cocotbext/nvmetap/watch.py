"""Watch each link of a cocotbext-pcie test bench that stays as it is.

    COCOTB_TEST_MODULES=cocotbext.nvmetap.watch,my_tests NVMETAP_REPORT=links.json

Name this module before the test modules. Each link that they make then gets a monitor, from its first TLP on. At the end of the
simulation, the report has an object for each link, in the order of their making.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cocotb.utils import get_sim_time
from cocotbext.pcie.core.port import SimPort  # type: ignore[import-untyped]

from .adapters import PcieLinkSource
from .monitor import Monitor


class WatchedLink:
    """A link of the test bench, and its monitor."""

    def __init__(self, upstream_port: Any) -> None:
        """Put a monitor on the connected link of ``upstream_port``, the port of the drive's side."""
        self.made_ps = round(get_sim_time("ps"))
        self.drive = type(upstream_port.parent).__name__
        self.monitor = Monitor(PcieLinkSource(upstream_port))
        self._commands: list[dict[str, Any]] = []

    def report(self) -> dict[str, Any]:
        """Return the monitor's findings in types of JSON. Open commands stay out."""
        for command in self.monitor.finished():
            fields = asdict(command)
            fields["doubts"] = [doubt.name for doubt in command.doubts]
            self._commands.append(fields)
        observer, checker = self.monitor.observer, self.monitor.checker
        return {
            "drive": self.drive,
            "made_ps": self.made_ps,
            "tlps": observer.tlps,
            "commands": self._commands,
            "unmatched": dict(observer.unmatched),
            "breaches": {rule.name: count for rule, count in checker.counts.items()},
            "breach_details": [
                {"rule": v.rule.name, "clause": v.rule.clause, "time_ps": v.time_ps, "detail": v.detail} for v in checker.violations
            ],
        }


watched_links: list[WatchedLink] = []
"""The links so far, in the order of their making."""


def watch_links() -> None:
    """Give each link that cocotbext-pcie makes from now on a monitor. Repeated calls change nothing."""
    connect = SimPort._connect
    if getattr(connect, "watched", False):
        return

    @functools.wraps(connect)
    def connect_and_watch(port: Any, other: Any) -> None:
        connect(port, other)
        for end in (port, other):
            if getattr(end.parent, "upstream_port", None) is end:
                watched_links.append(WatchedLink(end))
                break

    connect_and_watch.watched = True  # type: ignore[attr-defined]
    SimPort._connect = connect_and_watch


def write_report(path: Path) -> None:
    """Write the report of all links."""
    path.write_text(json.dumps([link.report() for link in watched_links], indent=1) + "\n", encoding="utf-8")


watch_links()
if os.environ.get("NVMETAP_REPORT"):
    atexit.register(write_report, Path(os.environ["NVMETAP_REPORT"]))
