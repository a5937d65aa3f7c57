"""A user's own plans and traces through the real CLI: format, sanitize, and replay of blkparse output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.virtual import MARKS, finished, wattbell

pytestmark = MARKS
READ = "[r]\nrw=randread\nbs=4k\nsize=64m\nio_size=1m\ndirect=1\niodepth=1\n"
PLAN = """
condition = "full"
[[step]]
name = "full"
fio = "r.fio"
[[step]]
name = "erase"
format = { nsid = 1, ses = 1 }
[[step]]
name = "formatted"
fio = "r.fio"
[[step]]
name = "written"
fill = { span = 0.0001, bs = "128k" }
[[step]]
name = "written, read"
fio = "r.fio"
[[step]]
name = "wipe"
sanitize = "block"
measured = true
[[step]]
name = "sanitized"
fio = "r.fio"
"""
BLKPARSE = """\
259,0    3        1     0.000072500   697  Q   R 223490 + 8 [fio]
259,0    3        2     0.000082500   697  D   R 223490 + 8 [fio]
259,0    3        3     0.000182500   697  D  WS 1000 + 256 [fio]
259,0    3        4     0.100182500   697  D  FN [fio]
259,0    3        5     0.200182500   697  D   R 8000000 + 64 [fio]
CPU0 (259,0):
 Reads Queued:           2,       36KiB
"""


def run(folder: Path, what: Path, *more: str) -> dict[str, Any]:
    common = ("run", what, "--virtual", "intel-660p-1tb", "--fidelity", "fast", "--out", folder / "capture", "--json")
    out, _ = finished(wattbell(folder, *common, *more))
    found: dict[str, Any] = json.loads(out)
    return found


def test_format_and_sanitize_leave_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "r.fio").write_text(READ)
    (tmp_path / "plan.toml").write_text(PLAN)
    result = run(tmp_path, tmp_path / "plan.toml", "--interval", "1e-5")
    phases = {p["name"]: p for p in result["phases"]}
    kinds = {name: p["kind"] for name, p in phases.items()}
    assert [name for name, kind in kinds.items() if kind == "precondition"] == ["erase", "written"]
    assert kinds["wipe"] == "sanitize"
    # flash takes tens of microseconds to read; for unwritten blocks the controller responds at once
    mean = {name: p["commands"]["all"]["latency_s"]["mean"] for name, p in phases.items()}
    assert mean["full"] > 50e-6 and mean["written, read"] > 30e-6
    assert mean["formatted"] < 15e-6 and mean["sanitized"] < 15e-6
    for name, opcode in (("erase", "format_nvm"), ("wipe", "sanitize")):
        assert phases[name]["commands"]["admin"]["by_opcode"][opcode]["count"] == 1
        # erasing draws far more power than an idle drive
        assert phases[name]["power"]["mean_w"]["value"] > 1.5 * 0.59
        assert phases[name]["duration_s"] > 1.0
    assert result["truth"]["pass"] and all(row["equal"] for section in result["fio"]["sections"] for row in section["rows"])


def test_text_of_blkparse_is_replayed_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(BLKPARSE)
    result = run(tmp_path, tmp_path / "mine.txt")
    by_opcode = result["commands"]["by_opcode"]
    assert {name: c["count"] for name, c in by_opcode.items() if c["count"]} == {"read": 2, "write": 1, "flush": 1}
    assert (by_opcode["read"]["bytes"], by_opcode["write"]["bytes"]) == (72 * 512, 256 * 512)
    # 0.2 s in the trace, idle cut to 25 ms twice
    assert result["phases"][0]["duration_s"] == pytest.approx(0.0501, abs=1e-3)
    assert "sha256" in (tmp_path / "capture" / "workload" / "trace.toml").read_text()


def test_what_is_no_trace_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of the kind\n")
    _, err = finished(wattbell(tmp_path, "run", tmp_path / "notes.txt", "--virtual", "intel-660p-1tb", "--out", tmp_path / "c"), 2)
    assert "is it the text that blkparse prints?" in err and not (tmp_path / "c").exists()
    (tmp_path / "bad.fio").write_text("rw=read\n")
    _, err = finished(wattbell(tmp_path, "run", tmp_path / "bad.fio", "--virtual", "intel-660p-1tb", "--out", tmp_path / "c"), 1)
    assert "wattbell-ssd failed: " in err and err.count("wattbell-ssd") == 1, "the program's name once"
