"""The list of the slowest files at the end of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.minutes import by_file

ROOT = Path(__file__).parents[1]


def test_seconds_add_up_by_file() -> None:
    assert by_file([("a.py::x", 1.0), ("b.py::y[::]", 5.0), ("a.py::x", 2.0)]) == [("b.py", 5.0), ("a.py", 3.0)]


def test_a_run_with_a_module_that_is_left_out_has_the_list(tmp_path: Path) -> None:
    """Such a module leaves a report without a duration."""
    (tmp_path / "test_out.py").write_text("import pytest\npytest.skip('not here', allow_module_level=True)\n")
    (tmp_path / "test_in.py").write_text("def test_x():\n    pass\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.minutes",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
        "--durations",
        "3",
        tmp_path,
    ]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "slowest 40 files of 1, 0 minutes in all" in done.stdout and "s test_in.py" in done.stdout
