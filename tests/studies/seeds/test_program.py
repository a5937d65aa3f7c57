"""``python -m studies.seeds`` as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.host.results import samples

ROOT = Path(__file__).parents[3]


def program(*arguments: object, home: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_DATA_HOME": str(home), "COLUMNS": "160"}
    environment.pop("WATTBELL_STORE", None)
    command = [sys.executable, "-m", "studies.seeds", *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=ROOT, text=True, capture_output=True, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


def test_a_run_becomes_a_page_and_json(tmp_path: Path) -> None:
    samples.write_results(tmp_path / "a")
    found = json.loads(program("--run", tmp_path / "a", "--out", tmp_path / "seeds.md", "--json", home=tmp_path).stdout)
    assert sum(found["counts"]["unfitted"].values()) >= 60
    assert "## Count" in (tmp_path / "seeds.md").read_text(encoding="utf-8")


def test_a_run_becomes_a_table(tmp_path: Path) -> None:
    samples.write_results(tmp_path / "a")
    said = program("--run", tmp_path / "a", home=tmp_path).stdout
    assert "not measurable" in said.splitlines()[0] + said.splitlines()[1] and "unfitted" in said


def test_nothing_to_check_is_refused(tmp_path: Path) -> None:
    refused = program(home=tmp_path, code=1).stderr
    assert "no results store" in refused and "results import DIR" in refused
    assert list(tmp_path.iterdir()) == [], "looking makes no store"
