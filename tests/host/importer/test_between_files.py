"""Faults between two files that are right by themselves: another day, a recording that ends too early, a file twice.

The waveform: 0.5 W, and 3 W from 3 to 6 s of 10 s. The job: 3 s, 3000 reads of 4 KiB, 12.288 MB.
"""

from __future__ import annotations

import json
import warnings
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner
from wattbell.capture import open_capture
from wattbell.cli.app import app
from wattbell.errors import CaptureError
from wattbell.importer.align import Align
from wattbell.importer.fiophases import read_fio
from wattbell.importer.identity import read_identity

from tests.columns import print_wide

from .test_fio_files import T0_MS, analysis, document, job, lines, notes, wave, written
from .test_identity_files import CONTROLLER, SPACE

DAY_MS = 86_400_000


def dated(path: Path, first_ms: int) -> Path:
    """The waveform with times of day."""
    wave(path, (3, 6))
    header, *rows = path.read_text().splitlines()
    with open(path, "w") as out:
        out.write(header.replace("time_s", "time") + "\n")
        for n, row in enumerate(rows):
            at = datetime.fromtimestamp((T0_MS + first_ms + n) / 1000, UTC)
            out.write(f"{at:%Y-%m-%dT%H:%M:%S}.{(T0_MS + first_ms + n) % 1000:03d}Z,{row.split(',', 1)[1]}\n")
    return path


@pytest.mark.parametrize(("day", "told"), [(0, False), (-1, True), (1, True)])
def test_a_run_of_another_day_is_told(tmp_path: Path, day: int, told: bool) -> None:
    fio = written(tmp_path / "f.json", document(job("read", 3000, 3000, ios=3000)))
    analysis(tmp_path / "c", dated(tmp_path / "w.csv", day * DAY_MS), [fio])
    said = notes(tmp_path / "c")
    assert ("by their times of day the two files are of different runs" in said) == told
    if told:
        assert f"by, s {-day * 8.64e4:.3g}" in said


@pytest.mark.parametrize(("begin_s", "covered"), [(8.0, 2.0), (-1.0, 2.0)])
def test_work_beyond_the_recording_has_no_efficiency_with_an_interval(tmp_path: Path, begin_s: float, covered: float) -> None:
    """The rail is known for 2 of 3 s, at 0.5 W: nobody knows the energy of the 12.288 MB."""
    fio = written(tmp_path / "f.json", document(job("read", 3000, 3000, ios=3000)))
    found = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (3, 6)), [fio], align=Align("offset", 0.01, begin_s))
    (account,), (phase,) = found["fio_account"], found["phases"]
    assert phase["power"]["energy_j"]["value"] == pytest.approx(0.5 * covered, abs=0.01)
    assert account["mb_per_s"]["value"] == pytest.approx(4.096, rel=1e-3)
    for name in ("mb_per_j", "iops_per_w", "j_per_gb"):
        assert account[name]["u"] is None and "not recorded during all" in account[name]["conditions"]["note"]


def test_energy_per_byte_needs_the_rail_of_all_bytes(tmp_path: Path) -> None:
    """With a log of the commands, too: 2 s of the rail are not divided by the bytes of 3 s."""
    fio = written(tmp_path / "f.json", document(job("read", 3000, 3000, ios=3000)))
    log = lines(tmp_path / "run_lat.1.log", 3000)
    found = analysis(tmp_path / "c", wave(tmp_path / "w.csv", (3, 6)), [fio], [log], align=Align("offset", 0.01, 8.0))
    (phase,) = found["phases"]
    efficiency = phase["efficiency"]
    assert efficiency["j_per_gb"]["value"] is None and "not recorded" in efficiency["j_per_gb"]["conditions"]["absent"]
    assert efficiency["mb_per_j"]["u"] is None
    whole = analysis(tmp_path / "d", tmp_path / "w.csv", [fio], [log], align=Align("offset", 0.01, 3.0))["phases"][0]["efficiency"]
    assert whole["j_per_gb"]["value"] == pytest.approx(3.0 * 3 / 12.288e-3, rel=5e-3) and whole["j_per_gb"]["u"] > 0


def test_a_flat_power_is_one_error_and_no_warning_of_python(tmp_path: Path) -> None:
    fio = written(tmp_path / "f.json", document(job("read", 3000, 3000, ios=3000)))
    with warnings.catch_warnings(), pytest.raises(CaptureError) as error:
        warnings.simplefilter("error")
        analysis(tmp_path / "c", wave(tmp_path / "w.csv"), [fio])
    # the waveform has no times of day, so nobody is sent to them
    assert "--offset S,U" in str(error.value) and "utc" not in str(error.value)


def test_a_begin_of_0_is_not_that_of_an_old_fio(tmp_path: Path) -> None:
    entry = {**job("read", 3000, 3000), "job_start": 0}
    with pytest.raises(CaptureError) as error:
        read_fio([written(tmp_path / "f.json", document(entry))], ["f.json"])
    assert "Give the last report of the run" in str(error.value) and "3.36" not in str(error.value)


@pytest.mark.parametrize("at", ['"fio ver', '"jobname": "rea'])
def test_json_that_is_cut_in_a_text_breaks_off(tmp_path: Path, at: str) -> None:
    text = json.dumps(document(job("read", 3000, 3000)), indent=1)
    path = written(tmp_path / "f.json", text[: text.index(at) + len(at)])
    with pytest.raises(CaptureError, match="it breaks off in line"):
        read_fio([path], ["f.json"])


def test_the_same_namespace_twice(tmp_path: Path) -> None:
    files = {"c": CONTROLLER, "n1": {**SPACE, "nguid": "00a0"}, "n2": {**SPACE, "nguid": "00a0"}, "n3": {**SPACE, "nguid": "00a1"}}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    path = {name: tmp_path / name for name in files}
    assert [space["nsid"] for space in read_identity([path["c"], path["n1"], path["n3"]])["namespaces"]] == [1, 2]
    for twice in ([path["n1"], path["n1"]], [path["n1"], path["n2"]]):
        with pytest.raises(CaptureError, match="are the same namespace or controller"):
            read_identity([path["c"], *twice])
    for name in ("n1", "n2"):  # without an identifier, two of a size may be equal
        (tmp_path / name).write_text(json.dumps({**SPACE, "nguid": "0000"}))
    assert len(read_identity([path["n1"], path["n2"]])["namespaces"]) == 2


def test_what_is_missing_is_printed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    print_wide(monkeypatch)
    csv = tmp_path / "w.csv"
    csv.write_text("time_s,current_a,voltage_v\n" + "".join(f"{n / 1000},{'OVLD' if n == 5 else -1},3.3\n" for n in range(20)))
    ran = CliRunner().invoke(app, ["import", str(csv), "--out", str(tmp_path / "c")])
    said = " ".join(ran.output.split())
    assert ran.exit_code == 0 and "1 sample had no number" in said and "the mean power is -3.3 W" in said


def test_a_current_the_wrong_way_round_is_in_the_captures_notes(tmp_path: Path) -> None:
    csv = wave(tmp_path / "w.csv", (3, 6))
    csv.write_text(csv.read_text().replace(",3.3,", ",3.3,-"))
    fio = written(tmp_path / "f.json", document(job("read", 3000, 3000, ios=3000)))
    analysis(tmp_path / "c", csv, [fio], align=Align("offset", 0.01, 3.0))
    assert "the mean power is -1.25 W" in notes(tmp_path / "c")  # 3 x 3 W and 7 x 0.5 W in 10 s
    assert open_capture(tmp_path / "c").meta["state"] == "complete"
