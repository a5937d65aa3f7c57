"""The monitor inside a simulator: cocotb_link.py under Icarus Verilog."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from cocotb_tools.runner import get_runner

ROOT = Path(__file__).parents[2]


@pytest.mark.needs("iverilog")
def test_monitor_in_a_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.v").write_text("`timescale 1ps/1ps\nmodule empty;\n  real volts = 3.3, amps = 0.0;\nendmodule\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(ROOT / "cocotbext"), *sys.path)))
    runner = get_runner("icarus")
    runner.build(sources=[tmp_path / "empty.v"], hdl_toplevel="empty", build_dir=tmp_path / "build", timescale=("1ps", "1ps"))
    results = runner.test(
        hdl_toplevel="empty",
        test_module="tests.nvmetap.cocotb_link",
        build_dir=tmp_path / "build",
        test_dir=tmp_path,
        results_xml=str(tmp_path / "results.xml"),
    )
    cases = ElementTree.parse(results).getroot().findall(".//testcase")
    assert {case.attrib["name"] for case in cases} == {"watches_a_link_of_cocotbext_pcie", "takes_any_source"}
    for case in cases:
        assert case.find("failure") is None, case.attrib["name"]
        assert case.find("error") is None, case.attrib["name"]
