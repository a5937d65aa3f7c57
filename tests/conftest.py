"""No test writes to the user's own results store; tests that are to be together are."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("wattbell", deadline=None)  # no test is about how busy the machine is
settings.load_profile("wattbell")

_FOLDER = tempfile.TemporaryDirectory(prefix="wattbell-tests-")
os.environ["WATTBELL_STORE"] = str(Path(_FOLDER.name) / "results.sqlite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Of a job in the background: programs that tests stop with SIGINT would inherit it, and not stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Groups of tests that share something dear go to one worker only if pytest-xdist can put the group behind a test's name, which
    it silently cannot with pytest 9.2."""
    if config.getoption("loadgroup", False):
        lost = [item.nodeid for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if lost:
            raise pytest.UsageError(f"this pytest does not let pytest-xdist group tests (pyproject.toml pins one that does): {lost[0]}")
