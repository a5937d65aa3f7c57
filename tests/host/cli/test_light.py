"""Imports of the program before it works: a command's help, its completion and a mistake wait for nothing that only its work needs.

Seconds are measured by ``make bench``, never here: a test that is timed fails on a slow machine. The imports are the same on all.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from wattbell.cli.commands import PLACES

from tests.patience import PATIENCE_S

HEAVY = (
    "polars",
    "scipy",
    "pyarrow",
    "pyjls",
    "numpy",
    "matplotlib",
    "ruptures",
    "starlette",
    "uvicorn",
    "asyncio",
    "jinja2",
    "serial",
    "msgspec",
    "pydantic",
)
ON_THE_WAY = (
    "import sys, json\n"
    + f"HEAVY = {HEAVY!r}\n"
    + """
def heavy():
    return sorted({name.partition(".")[0] for name in sys.modules} & set(HEAVY))

def call(*arguments):
    from wattbell.cli import main
    sys.argv = ["wattbell", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0

def paths(command, path=()):
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from paths(below, (*path, name))
"""
)
EVERY_COMMAND = """
import contextlib, io
from wattbell.cli.app import tree
found = []
for path in paths(tree()):
    for last, said in (("--help", "Usage:"), ("--no-such-option", "No such option")):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = call(*path, last)
        found.append([" ".join((*path, last)), code, said in out.getvalue() + err.getvalue(), heavy()])
print(json.dumps(found))
"""


def run(program: str, *arguments: str, **environment: str) -> Any:
    """JSON in the last line of a program that begins with ON_THE_WAY."""
    env = {**os.environ, "COLUMNS": "100", "WATTBELL_CONFIG": "", **environment}
    command = [sys.executable, "-c", ON_THE_WAY + program, *arguments]
    done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=PATIENCE_S, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_help_and_a_wrong_option_of_every_command_import_nothing_heavy() -> None:
    found = run(EVERY_COMMAND)
    names = {name for name, *_ in found}
    assert {"--help", "run --help", "export perfetto --help", "results list --no-such-option"} <= names
    assert len(found) > 70, "the tree was not walked"
    for name, code, said, heavy in found:
        assert (name, code, said, heavy) == (name, 0 if name.endswith("--help") else 2, True, [])


@pytest.mark.parametrize(
    "arguments", [("--version",), ("frobnicate",), ("results", "frobnicate"), ("run", "--frobnicate"), ("run", "--out")]
)
def test_nor_do_the_version_and_a_mistake(arguments: tuple[str, ...]) -> None:
    assert run("call(*sys.argv[1:])\nprint(json.dumps(heavy()))", *arguments) == []


def test_the_version_imports_no_command_and_no_rich() -> None:
    loaded = run("call('--version')\nprint(json.dumps([name for name in sys.modules if name.startswith(('wattbell', 'rich'))]))")
    assert not [name for name in loaded if name.startswith("rich")]
    of_commands = set(loaded) & {f"wattbell.cli.{place.module}" for place in PLACES.values()}
    assert of_commands == {"wattbell.cli.config"}, "which reads the user's own defaults"


def test_a_file_of_defaults_makes_it_no_heavier(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[run]\nseed = 3\n[record]\nduration = "1min"\n[results.list]\nwide = true\n')
    assert run("call('run', '--help')\nprint(json.dumps(heavy()))", WATTBELL_CONFIG=str(file)) == []


def test_the_package_alone_is_light_and_gives_all_it_names() -> None:
    light = run("import wattbell\nprint(json.dumps([heavy(), [name for name in sys.modules if name.startswith('wattbell')]]))")
    assert light == [[], ["wattbell"]]
    assert run("import wattbell\nprint(json.dumps([name for name in wattbell.__all__ if not hasattr(wattbell, name)]))") == []


def test_reading_a_capture_imports_no_pandas() -> None:
    """pandas is no dependency of wattbell, but pyarrow imports an installed one in some calls: a third of a second."""
    assert importlib.util.find_spec("pandas"), "without pandas this test shows nothing: tools/setup.sh dev brings it with scikit-rf"
    script = "import sys, wattbell.capture.reader; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
