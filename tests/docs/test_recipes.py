"""Recipes of docs/adapters.md: YAML by a parser that is not ours, and the commands of each by the program's own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

from tests.docs.pages import Page, page
from tests.docs.test_commands import unknown
from tests.host.adapters.made import EXAMPLES, built

RECIPES = page("docs/adapters.md")


def blocks(of: Page, language: str) -> list[str]:
    """Return the blocks of code in a language."""
    return [token.content for token in of.tokens() if token.type == "fence" and token.info == language]


def github() -> dict[Any, Any]:
    """Return the workflow of GitHub Actions as YAML."""
    (found,) = [one for one in map(yaml.safe_load, blocks(RECIPES, "yaml")) if "jobs" in one]
    return dict(found)


def gitlab() -> dict[str, Any]:
    """Return the job of GitLab as YAML."""
    (found,) = [one for one in map(yaml.safe_load, blocks(RECIPES, "yaml")) if "jobs" not in one]
    return dict(found["judge"])


def lines() -> dict[str, list[str]]:
    """Return the shell lines of each recipe."""
    steps = github()["jobs"]["judge"]["steps"]
    (pipeline,) = blocks(RECIPES, "groovy")
    return {
        "GitHub": [line for step in steps for line in step.get("run", "").splitlines()],
        "GitLab": gitlab()["script"],
        "Jenkins": [line.strip() for quoted in re.findall(r"'''(.*?)'''|sh '(.*?)'", pipeline, re.DOTALL) for line in quoted if line],
    }


def ours(of: str) -> list[list[str]]:
    """Return the words behind `wattbell` of each command of a recipe."""
    return [words[1:] for words in map(shlex.split, lines()[of]) if words[0] == "venv/bin/wattbell"]


def test_what_the_systems_ask_of_the_files() -> None:
    job = github()["jobs"]["judge"]
    assert {"runs-on", "steps"} == job.keys() and all(("run" in step) != ("uses" in step) for step in job["steps"])
    assert github()[True] == "push", "YAML 1.1 reads the key `on` so"
    assert gitlab()["artifacts"]["reports"]["junit"] == "verdicts.xml" and gitlab()["allow_failure"] == {"exit_codes": 4}


@pytest.mark.parametrize("of", ["GitHub", "GitLab", "Jenkins"])
def test_every_command_is_one_of_ours_with_its_options(of: str) -> None:
    found = ours(of)
    assert [words[0] for words in found] == ["run", "judge"]
    assert [unknown(words) for words in found] == ["", ""]
    assert found[-1][-4:] == ["--junit", "verdicts.xml", "--out", "verdicts.html"]
    assert not any("wattbell" in shlex.split(line) for line in lines()[of]), "pip takes files, never the name from the index"


@pytest.mark.needs_built(built, "make sim rtl")
@pytest.mark.xdist_group("virtual-rig")
def test_the_commands_do_what_the_recipe_says(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "lab.toml", tmp_path)
    program = f"{shlex.quote(sys.executable)} -m wattbell"
    run, judge = (f"{program} {line.split(maxsplit=1)[1]}" for line in lines()["GitHub"] if line.startswith("venv/bin/wattbell"))
    for command in (run, judge):
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=os.environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    cases = {case.name: case for suite in JUnitXml.fromfile(str(tmp_path / "verdicts.xml")) for case in suite}
    assert cases.keys() == {"L-1", "L-2 Idle", "L-2 PS0", "L-2 PS4"} and not any(case.result for case in cases.values())
    assert json.loads((tmp_path / "run/results.json").read_text())["virtual"] is True and (tmp_path / "verdicts.html").is_file()
    text = (tmp_path / "lab.toml").read_text()
    (tmp_path / "lab.toml").write_text(text.replace("limit = 6\n", "limit = 1\n"))
    failed = subprocess.run(["sh", "-c", judge], cwd=tmp_path, capture_output=True, text=True)
    assert failed.returncode == 3
    (suite,) = JUnitXml.fromfile(str(tmp_path / "verdicts.xml"))
    assert (suite.failures, suite.tests) == (1, 4)
