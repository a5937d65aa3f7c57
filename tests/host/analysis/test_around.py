"""The pages of a real drive say in which conditions it was measured."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from wattbell.analysis import figures_of
from wattbell.capture import CaptureWriter, open_capture
from wattbell.present.around import around_rows, worded
from wattbell.present.capture.terminal import render
from wattbell.present.pages.capture import write_report

CONDITIONS = {
    "link": {"text": "5 GT/s x2 (drive: 16 GT/s x4, slot: 8 GT/s x2), ASPM off, payload up to 256 bytes", "drive": {}, "port": None},
    "computer": {"cpu": "Z80 [bold]", "governor": "powersave", "kernel_options": ["pcie_aspm=off", "nosmt"], "turbo": ""},
    "host_log": {"source": "trace", "commands": 12, "clock_map": {"method": "9 round trips", "bound_s": 12e-6}},
}


def test_a_reader_is_told(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "c", conditions=CONDITIONS, journal=False) as writer:
        writer.add_rows("commands", {"cqe_tick": [2000], "doorbell_tick": [1000], "opcode": [2], "qid": [1], "blocks": [8]})
    capture = open_capture(tmp_path / "c")
    result = figures_of(capture)
    shown = io.StringIO()
    render(result, Console(file=shown, width=300))
    page = write_report(capture, result, tmp_path / "r.html", plots=False).read_text()
    for text in (shown.getvalue(), page):
        assert "5 GT/s x2 (drive: 16 GT/s x4, slot: 8 GT/s x2), ASPM off" in text
        assert "cpu: Z80 [bold], governor: powersave, kernel options: pcie_aspm=off nosmt" in text
        assert "trace, 12 commands; by 9 round trips, within 12" in text


def test_what_is_not_there_is_left_out() -> None:
    assert around_rows({}) == [] and around_rows({"link": None, "computer": {}}) == []
    assert worded({"a_b": None, "c": {"d": 1}}) == "c: d: 1"
