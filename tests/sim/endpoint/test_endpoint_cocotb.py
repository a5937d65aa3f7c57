"""The SSD model on a link of cocotbext-pcie, in Icarus Verilog, below hosts that other people wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nvmetap_models import simulate


@pytest.mark.needs("iverilog")
def test_hosts_of_others(ssd_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ssd_folder)  # cocotb's runner hands sys.path on
    simulate.run("tests.sim.endpoint.cocotb_host", tmp_path)
