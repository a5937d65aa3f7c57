"""A selection leaves the browser as a file that other programs read."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import polars as pl
import pyjls
import pytest
from starlette.testclient import TestClient
from wattbell.export import FORMATS

from tests.host.conftest import MS
from tests.host.view.conftest import TOKEN

BEGIN, END = 605 * MS, 625 * MS


@pytest.fixture
def fetch(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def get(form: str, begin: int = BEGIN, end: int = END) -> bytes:
        answer = client.get(f"/{TOKEN}/api/0/export", params={"format": form, "begin": begin, "end": end})
        assert answer.status_code == 200, answer.text[:300]
        assert answer.headers["content-disposition"] == f'attachment; filename="capture-{begin / 1e9:.6f}s{FORMATS[form].suffix}"'
        assert list(tmp_path.iterdir()) == [], "nothing is left on the disk"
        return answer.content

    return get


def test_every_format_is_offered(client: TestClient, fetch) -> None:  # type: ignore[no-untyped-def]
    offered = client.get(f"/{TOKEN}/api/formats").json()
    assert [one["name"] for one in offered] == list(FORMATS) and offered[0] == {"name": "csv", "title": "CSV"}
    assert set(FORMATS) == {"csv", "parquet", "jls", "sr", "perfetto", "vcd"}
    for form in FORMATS:
        assert len(fetch(form)) > 100


def test_parquet_and_csv_have_the_commands_of_the_selection(fetch) -> None:  # type: ignore[no-untyped-def]
    with zipfile.ZipFile(io.BytesIO(fetch("parquet"))) as archive:
        rows = pl.read_parquet(io.BytesIO(archive.read(next(n for n in archive.namelist() if n.endswith("commands.parquet")))))
    starts = rows["doorbell_tick"].sort().to_list()
    assert set(range(605 * MS, 625 * MS, 2 * MS)) <= set(starts)
    assert all(600 * MS < start < 625 * MS for start in starts)
    with zipfile.ZipFile(io.BytesIO(fetch("csv"))) as archive:
        table = pl.read_csv(io.BytesIO(archive.read(next(n for n in archive.namelist() if n.endswith("commands.csv")))))
    assert table["command"].unique().to_list() == ["write"]


def test_jls_has_the_samples_of_the_selection(fetch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    data = fetch("jls")
    path = tmp_path / "selection.jls"
    path.write_bytes(data)
    with pyjls.Reader(str(path)) as reader:
        signal = next(s for s in reader.signals.values() if s.name == "power")
        assert signal.length >= 2000
        assert reader.fsr(signal.signal_id, 100, 100) == pytest.approx(2, rel=1e-3)


def test_an_unknown_format_is_refused_in_a_line(client: TestClient) -> None:
    answer = client.get(f"/{TOKEN}/api/0/export", params={"format": "doc"})
    assert answer.status_code == 422 and "csv" in answer.json()["error"]


def test_what_cannot_be_exported_is_told_and_leaves_nothing(client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answer = client.get(f"/{TOKEN}/api/0/export", params={"format": "csv", "begin": 1e12, "end": 2e12})
    assert answer.status_code == 400 and "\n" not in answer.json()["error"]
    assert list(tmp_path.iterdir()) == []
