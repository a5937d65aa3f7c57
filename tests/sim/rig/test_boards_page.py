"""The histogram of calibrated boards (tools/boards_page.py): boards out of limits count as such, and the rest of the page is kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.rig.rig_process import ROOT
from tools import boards_page


def test_a_board_outside_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "accuracy.md"
    page.write_text(f"before\n{boards_page.BEGIN}\nold\n{boards_page.END}\nafter\n")
    monkeypatch.setattr(boards_page, "DOCS", page)
    monkeypatch.setattr(boards_page, "PICTURE", tmp_path / "boards.svg")
    shares = [(0.5, 0.25), (-1.5, -0.5), (0.25, 1.25)]
    lines = [{"seed": 3 - n, "celsius": 20.0 + n, "shares": [[3.3, 0.1, *both]]} for n, both in enumerate(shares)]
    source = tmp_path / "boards.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(sys, "argv", ["boards_page.py", str(source)])
    assert boards_page.main() == 0
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "3 boards, seeds 1 to 3, at 20 to 22 C" in text
    assert "| 3.3 V, 0.1 A | 2 | 1.50 | 0.92 | 2 | 1.25 |" in text
    assert "<svg" in (tmp_path / "boards.svg").read_text()


def test_without_boards_it_says_what_to_run() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools/boards_page.py", "/nowhere"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "make calibrate" in done.stderr and "Traceback" not in done.stderr
