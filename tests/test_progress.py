"""A test that hangs is ended; a test that is slow is not. Real pytest, real processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.progress import MOST_BUSY_S, Stillness

ROOT = Path(__file__).parents[1]
TESTS = """
import subprocess, sys, time
import pytest

BUSY = "import time; end = time.process_time() + 5\\nwhile time.process_time() < end: pass"

def test_waits_for_nothing():
    time.sleep(600)

def test_works():
    exec(BUSY)

def test_waits_for_a_child_that_works():
    subprocess.run([sys.executable, "-c", BUSY], check=True)

def test_waits_for_a_child_that_hangs():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"], check=True)

@pytest.fixture
def stuck():
    yield
    time.sleep(600)

def test_hangs_when_it_cleans_up(stuck):
    pass

@pytest.mark.timeout(20)
def test_has_more_patience():
    time.sleep(6)
"""


def test_only_what_hangs_is_ended(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.progress", "-p", "no:cacheprovider", "-c", "/dev/null", "--timeout", "3", "-rA"]
    done = subprocess.run([*command, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    said = {found[2]: found[1] for found in re.finditer(r"^([A-Z]+) \S*::(\w+)", done.stdout, re.M)}
    assert said == {
        "test_waits_for_nothing": "FAILED",
        "test_works": "PASSED",
        "test_waits_for_a_child_that_works": "PASSED",
        "test_waits_for_a_child_that_hangs": "FAILED",
        "test_hangs_when_it_cleans_up": "ERROR",
        "test_has_more_patience": "PASSED",
    }, done.stdout
    assert done.stdout.count("This test hangs: it and its processes have done next to nothing for") >= 3


def test_an_endless_loop_ends() -> None:
    stillness = Stillness(300)
    reasons = [stillness.look(now, {(1, 0.0): float(now)}) for now in range(0, int(MOST_BUSY_S) + 20, 2)]
    assert reasons[-1] is not None and "processor time" in reasons[-1] and not any(reasons[:-10])


@pytest.mark.parametrize("share", [0.02, 1.0])
def test_a_little_progress_is_enough(share: float) -> None:
    stillness = Stillness(300)
    assert not any(stillness.look(now, {(1, 0.0): share * now}) for now in range(0, 3000, 2))


def test_a_machine_that_stood_still_is_no_hang() -> None:
    stillness = Stillness(300)
    assert not any(stillness.look(now, {(1, 0.0): 0.0}) for now in [*range(0, 200, 2), *range(5000, 5200, 2)])
    assert [stillness.look(now, {(1, 0.0): 0.0}) for now in range(5200, 5304, 2)][-1]


def test_a_process_that_ended_takes_no_progress_back() -> None:
    stillness = Stillness(10)
    looks = [{(1, 0.0): 1.0, (2, 0.0): 50.0}, {(1, 0.0): 1.0}, {(1, 0.0): 1.0, (3, 0.0): 5.0}]
    assert [stillness.look(now, times) for now, times in zip((0, 8, 16), looks, strict=True)] == [None, None, None]
