"""`wattbell import` of another instrument's recording of the virtual rig's rail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.host.importer import alignments, joulescope

from .virtual import MARKS, finished, wattbell

pytestmark = MARKS


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    out = folder / "capture"
    finished(wattbell(folder, "run", alignments.PLAN, "--virtual", "intel-660p-1tb", "--fidelity", "fast", "--out", out, "--json"))
    return out


@pytest.mark.parametrize(("seed", "rate"), [(101, 1_000_000), (102, 200_000), (103, 100_000), (104, 100_000), (105, 50_000)])
def test_energies_are_within_their_stated_uncertainty_wherever_the_clocks_are(original: Path, tmp_path: Path, seed: int, rate: int) -> None:
    """These are a few of the hundred cases of `make alignments`; a Joulescope also stores less than its full rate."""
    found = alignments.outcome(tmp_path, original, seed, rate)
    assert found.within, found
    assert abs(found.begin_off_s) <= found.bound_s < 0.012
    assert max(found.relative) < 0.1  # the stated uncertainty still makes a measurement


def test_a_recording_and_fio_become_a_capture_as_any_other(original: Path, tmp_path: Path) -> None:
    truth = json.loads((original / "workload" / "truth.json").read_text())
    at = alignments.case(7)
    jls, fio, played = alignments.record(tmp_path, joulescope.rail_of(original), truth, at, 100_000, 7)
    capture = tmp_path / "imported"
    identify = alignments.HERE / "nvme-cli-2.13-id-ctrl.json"
    arguments = ("import", jls, "--fio", fio, "--identify", identify, "--accuracy", "gain=0.001", "--out", capture)
    _, told = finished(wattbell(tmp_path, *arguments))
    assert "edges of the phases" in told and "bound" in told and "JS220" in told
    _check_info(tmp_path, capture)
    result = _json(tmp_path, "analyze", capture, "--json")
    assert result["fio"] is None and result["efficiency"]["absent"] == result["idle"]["absent"] == "nobody saw the commands"
    for phase, account in zip(played, result["fio_account"]):
        moved = (phase.get("read") or phase["write"])["bytes"]
        mb_per_s, per_watt = account["mb_per_s"], account["mb_per_j"]
        assert abs(mb_per_s["value"] - moved / 1e6 / phase["duration_s"]) < mb_per_s["u"]
        assert abs(per_watt["value"] - moved / 1e6 / phase["energy_j"]) < per_watt["u"]
    finished(wattbell(tmp_path, "report", capture, "--out", tmp_path / "r.html"))
    finished(wattbell(tmp_path, "check", capture))
    finished(wattbell(tmp_path, "export", "csv", capture, "--out", tmp_path / "csv"))
    finished(wattbell(tmp_path, "export", "sigrok", capture, "--out", tmp_path / "x.sr", "--to", "0.5"))
    assert "By fio" in (tmp_path / "r.html").read_text()
    _, told = finished(wattbell(tmp_path, *arguments), code=1)
    assert "exists already" in told and len(told.strip().splitlines()) == 1


def _json(folder: Path, *arguments: object) -> Any:
    return json.loads(finished(wattbell(folder, *arguments))[0])


def _check_info(folder: Path, capture: Path) -> None:
    meta = _json(folder, "info", capture, "--json")
    assert meta["state"] == "complete" and meta["rig"]["model"] == "Jetperch JS220" and meta["drive"]["model"] == "INTEL SSDPEKNW010T8"
    (aligned,) = meta["conditions"]["imported"]["alignments"]
    assert aligned["clock"] == "utc" and abs(aligned["drift"]) < 3e-4 and 0 < aligned["bound_s"] < 0.02
    assert all(phase["edge_u_s"] > 1.5e-3 + aligned["bound_s"] - 1e-9 for phase in meta["workload"]["phases"])
