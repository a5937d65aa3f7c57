"""A pytest plugin: the files of tests that took the most time, over all workers, at the end of a run."""

from __future__ import annotations

from collections import defaultdict

import pytest

FILES = 40
"""Number of files that are listed."""


def by_file(reports: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return seconds by file, the longest first, from a test's name and seconds of each of its parts."""
    seconds: dict[str, float] = defaultdict(float)
    for name, duration_s in reports:
        seconds[name.partition("::")[0]] += duration_s
    return sorted(seconds.items(), key=lambda item: -item[1])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the files, where the slowest tests are asked for as well."""
    if config.getoption("durations", None) is None:
        return
    reports = [
        (report.nodeid, report.duration)
        for kind in terminalreporter.stats.values()
        for report in kind
        if isinstance(report, pytest.TestReport)
    ]
    found = by_file(reports)
    terminalreporter.section(f"slowest {FILES} files of {len(found)}, {sum(s for _, s in found) / 60:.0f} minutes in all")
    for name, seconds in found[:FILES]:
        terminalreporter.write_line(f"{seconds:7.1f}s {name}")
