"""Keeps tests away from the user's results store and defaults, and groups of tests on one worker."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["tests.minutes", "tests.needs", "tests.progress"]

settings.register_profile("wattbell", deadline=None)  # no test depends on how busy the machine is
settings.load_profile("wattbell")

_FOLDER = tempfile.TemporaryDirectory(prefix="wattbell-tests-")
os.environ["WATTBELL_STORE"] = str(Path(_FOLDER.name) / "results.sqlite")
os.environ["WATTBELL_CONFIG"] = ""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Background jobs ignore SIGINT. Programs that tests stop with SIGINT would inherit that and never stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def turn(item: pytest.Item) -> int:
    """When a test runs: 0 for those that build models, 1 for those that wait for programs and guests, 2 for the many short ones."""
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return {"gateware": 0, "firmware": 0, "sim": 1, "e2e": 1, "clients": 1, "faults": 1}.get(folder, 2)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests by their turn: builds are over, and shared by both workers, before tests begin that wait for something, and the short
    tests fill up the end.

    Tests that share an expensive fixture go to one worker only if pytest-xdist can append the group to the test's name. With pytest 9.2
    that silently fails.
    """
    items.sort(key=turn)
    if config.getoption("loadgroup", False):
        lost = [item.nodeid for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if lost:
            raise pytest.UsageError(
                f"this pytest does not let pytest-xdist group tests (requirements/dev.txt has one that does): {lost[0]}"
            )
