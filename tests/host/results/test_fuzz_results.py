"""Any bytes, and any change to good results: a run, or an error with the file's name. Pages and store accept whatever the reader
accepts."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.errors import ResultsError
from wattbell.present.pages.suite import write_suite_page
from wattbell.results import Store, read_run
from wattbell.results.model import parse
from wattbell.results.seriesfile import read_series

from tests.host.fuzzing import examples

ODD = [
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**70, 10**400, 0.0, -0.5, 1e-320, 1e29, 1e31, 1e308, "", "x", "full", "\x00",
    "<b>", "[/]", "1", [], {}, [[]], [{}], {"value": 1}, {"value": None}, {"": ""}, {"x": {}}, [1, "a", None], "a/../../b", "x" * 2000,
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


@pytest.fixture(scope="module")
def folder(samples: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = samples.write_results(tmp_path_factory.mktemp("run"))
    document = json.loads((made / "results.json").read_text())
    document["tests"] = [t for t in document["tests"] if t["test"] in ("sustained-random-read", "idle-wake-up", "whole-drive-fill")]
    document |= {"planned": [["a", "full"]], "notes": ["n"], "jobs": {"a.fio": "ab"}, "capture": "c", "energy": samples.energy()}
    (made / "good.json").write_text(json.dumps(document))
    return made


@examples(80)
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 3))
def test_any_change_of_a_value_is_read_or_refused(folder: Path, seed: int, changes: int) -> None:
    draw = random.Random(seed)
    document = json.loads((folder / "good.json").read_text())
    for _ in range(changes):
        put(document, draw.choice(list(places(document))), draw.choice(ODD))
    (folder / "results.json").write_text(json.dumps(document))
    try:
        run = read_run(folder)
    except ResultsError as error:
        assert "results.json" in str(error)
        return
    try:
        write_suite_page([run], folder / "page.html", plots=False)
        other = parse({**json.loads((folder / "good.json").read_text()), "started_utc": "2026-11-22T10:00:00+00:00"}, "other")
        write_suite_page([other, run], folder / "both.html", plots=False)
        (folder / "s.sqlite").unlink(missing_ok=True)
        with Store(folder / "s.sqlite") as store:
            identity = store.add(run)
            assert store.get(identity).document == run.document
            assert store.provenance(identity)["suite"] == run.suite
    except ResultsError:
        pass


@examples(500)
@given(data=st.binary(max_size=60), cut=st.integers(0, 40_000), drop=st.integers(0, 40))
def test_any_bytes_are_read_or_refused(folder: Path, data: bytes, cut: int, drop: int) -> None:
    good = (folder / "good.json").read_bytes()
    (folder / "results.json").write_bytes(good[:cut] + data + good[cut + drop :])
    try:
        read_run(folder)
    except ResultsError as error:
        assert "results.json" in str(error)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '"\\ud800"', "1e999", "NaN", "\xff", "", "9" * 10_000])
def test_json_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "results.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ResultsError, match=r"results\.json"):
        read_run(folder)


def parquet(**options: Any) -> bytes:
    out = io.BytesIO()
    rows = 300
    columns = {"t_s": [float(i) for i in range(rows)], "round": list(range(rows)), "section": ["a", "b", "c"] * (rows // 3)}
    pl.DataFrame(columns).write_parquet(out, **options)
    return out.getvalue()


GOOD = [parquet(compression=name) for name in ("zstd", "snappy", "uncompressed")]


@examples(1000)
@given(seed=st.integers(0, 2**32), bits=st.integers(1, 20), end=st.booleans(), cut=st.integers(0, 30))
def test_any_series_is_numbers_or_refused(seed: int, bits: int, end: bool, cut: int) -> None:
    draw = random.Random(seed)
    data = bytearray(draw.choice(GOOD))
    for _ in range(bits):
        data[-1 - draw.randrange(600) if end else draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    at = draw.randrange(len(data))
    del data[at : at + cut]
    try:
        frame = read_series(bytes(data))
    except ValueError:
        return
    assert set(frame.dtypes) <= {pl.Float64, pl.String}
    for column in frame.select(pl.col(pl.Float64)):
        assert column.drop_nulls().is_finite().all()


def test_series_of_other_types_are_refused() -> None:
    for frame in (pl.DataFrame({"t_s": [[1.0]]}), pl.DataFrame({"t_s": [b"x"]}), pl.DataFrame({"t_s": [{"a": 1}]})):
        out = io.BytesIO()
        frame.write_parquet(out)
        with pytest.raises(ValueError, match="column t_s holds"):
            read_series(out.getvalue())
