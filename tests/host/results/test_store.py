"""The results store: nothing is kept twice, everything a run depends on is kept, damage is reported and not papered over."""

from __future__ import annotations

import json
import shutil
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wattbell.errors import ResultsError
from wattbell.origin import Origin
from wattbell.results import Store, read_run
from wattbell.results.load import resolve
from wattbell.results.model import parse


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store(tmp_path / "data" / "results.sqlite") as opened:
        yield opened


def test_a_run_comes_back_as_it_was_and_outlives_its_directory(samples: Any, store: Store, tmp_path: Path) -> None:
    folder = samples.write_results(tmp_path / "run", lost=3)
    run = read_run(folder)
    fill = run.test("whole-drive-fill")
    assert fill is not None
    before = run.series(fill)
    run_id = store.add(run)
    shutil.rmtree(folder)
    found = store.get(run_id[:4])
    assert found.document == run.document
    after = found.series(fill)
    assert before is not None and after is not None and after.equals(before)
    assert after["gb"].max() == 1024.0
    assert found.lost == {"commands": 3}


def test_everything_a_run_rests_on_is_kept(samples: Any, store: Store, tmp_path: Path) -> None:
    folder = samples.write_results(tmp_path / "run", lost=3)
    capture = folder / "capture" / "meta.json"
    capture.parent.mkdir()
    capture.write_text("{}")
    rests_on = store.provenance(store.add(read_run(folder)))
    job = folder / "jobs" / "sustained-random-read.fio"
    assert rests_on["jobs"] == {"jobs/sustained-random-read.fio": sha256(job.read_bytes()).hexdigest()}
    assert rests_on["versions"] == {"host": "0.1.0", "gateware": "1.4", "firmware": "1.0", "model": "0.1.0"}
    assert rests_on["profile_hash"] == "sha256:" + "cd" * 32
    assert rests_on["suite_hash"] == "sha256:" + "ab" * 32
    assert rests_on["capture"] == str(capture.parent.resolve())
    assert rests_on["conditions"]["ambient_c"] == 25.0
    assert rests_on["uncertainty"]["k"] == 2
    assert {"test": None, "kind": "commands", "count": 3} in rests_on["lost"]


def test_the_figures_can_be_asked_in_sql(samples: Any, store: Store, tmp_path: Path) -> None:
    run = read_run(samples.write_results(tmp_path / "run"))
    store.add(run)
    store.close()
    with sqlite3.connect(store.path) as db:
        value, u = db.execute(
            "SELECT value, u FROM points JOIN runs ON runs.id = points.run WHERE model = 'Intel SSD 660p 1TB' AND"
            " test = 'sustained-random-read' AND points.condition = 'full' AND quantity = 'mb_per_s'"
            " AND json_extract(x, '$.qd') = 8"
        ).fetchone()
    test = run.test("sustained-random-read", "full")
    assert test is not None
    at = dict(test.over("qd", "mb_per_s"))[8]
    assert (value, u) == (at.value, at.u)


def test_the_same_run_is_refused(samples: Any, store: Store, tmp_path: Path) -> None:
    run = read_run(samples.write_results(tmp_path / "run"))
    run_id = store.add(run)
    with pytest.raises(ResultsError, match=f"already, as {run_id}; nothing was imported"):
        store.add(read_run(shutil.copytree(tmp_path / "run", tmp_path / "copy")))
    document = json.loads(json.dumps(run.document))
    document["tests"][0]["scores"][0]["value"]["value"] *= 2
    (tmp_path / "copy" / "results.json").write_text(json.dumps(document))
    with pytest.raises(ResultsError, match=f"other figures.*results delete {run_id}"):
        store.add(read_run(tmp_path / "copy"))
    assert len(store.runs()) == 1
    store.delete(run_id)
    store.add(read_run(tmp_path / "copy"))
    assert len(store.runs()) == 1


def test_a_missing_series_refuses_the_whole_run(samples: Any, store: Store, tmp_path: Path) -> None:
    folder = samples.write_results(tmp_path / "run")
    (folder / "series" / "whole-drive-fill.parquet").unlink()
    with pytest.raises(ResultsError, match="whole-drive-fill.parquet, which is not there"):
        store.add(read_run(folder))
    assert store.entries() == []
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT count(*) FROM points").fetchone() == (0,)


def test_deleting_leaves_nothing_behind(samples: Any, store: Store, tmp_path: Path) -> None:
    one = store.add(read_run(samples.write_results(tmp_path / "a")))
    other = store.add(read_run(samples.write_results(tmp_path / "b", "crucial-p1-1tb")))
    store.delete(one)
    assert [e.id for e in store.entries()] == [other]
    store.close()
    with sqlite3.connect(store.path) as db:
        for table in ("versions", "jobs", "conditions", "scores", "points", "series"):
            assert db.execute(f"SELECT DISTINCT run FROM {table}").fetchall() == [(other,)], table


def test_references_say_what_they_are_not(samples: Any, store: Store, tmp_path: Path) -> None:
    folder = samples.write_results(tmp_path / "run")
    assert resolve(str(folder), lambda: store).document == read_run(folder).document
    with pytest.raises(ResultsError, match="neither a directory nor a run"):
        resolve("feed", lambda: store)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultsError, match="neither results.json"):
        resolve(str(tmp_path / "empty"), lambda: store)
    with pytest.raises(ResultsError, match="neither a directory nor a run"):
        store.find("%")


def test_series_outside_the_directory_are_not_read(samples: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.parquet").write_bytes(b"x")
    folder = samples.write_results(tmp_path / "run")
    document = json.loads((folder / "results.json").read_text())
    document["tests"][0]["series"] = "../secret.parquet"
    (folder / "results.json").write_text(json.dumps(document))
    run = read_run(folder)
    with pytest.raises(ResultsError, match="outside"):
        run.series(run.tests[0])


def test_files_that_are_no_store_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be read as the header of one\n" * 20)
    with pytest.raises(ResultsError, match="not a results store"):
        Store(text)
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    with pytest.raises(ResultsError, match="something else"):
        Store(other)
    newer = tmp_path / "newer.sqlite"
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(ResultsError, match="newer Wattbell"):
        Store(newer)
    with pytest.raises(ResultsError, match="no results store"):
        Store(tmp_path / "none.sqlite", create=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format=7), "newer Wattbell"),
        (lambda d: d.pop("format"), "not a results.json"),
        (lambda d: d.pop("suite_hash"), "missing required field `suite_hash`"),
        (lambda d: d.update(scale=0), r"> 0.0 - at `\$.scale`"),
        (lambda d: d["tests"][2]["points"][1]["mb_per_s"].update(value="fast"), r"tests\[2\].points\[1\].mb_per_s.value"),
        (lambda d: d["tests"][2]["points"][1]["mb_per_s"].update(u=-1.0), "u is negative"),
        (lambda d: d["tests"][2]["points"][1]["mb_per_s"].update(n_lost=1.5), "not a count"),
        (lambda d: d["tests"][0].pop("test"), r"tests\[0\].test is not a text"),
        (lambda d: d.update(tests={}), r"Expected `array.*at `\$.tests`"),
    ],
)
def test_damage_is_named_with_its_place(samples: Any, tmp_path: Path, change: Any, words: str) -> None:
    folder = samples.write_results(tmp_path / "run")
    document = json.loads((folder / "results.json").read_text())
    change(document)
    (folder / "results.json").write_text(json.dumps(document))
    with pytest.raises(ResultsError, match=words):
        read_run(folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["suite", "suite_hash", "scale", "condition", "drive", "lost", "tests", "conditions", "versions", "format"])
TEST_KEYS = st.sampled_from(["test", "name", "condition", "points", "scores", "series", "lost", "notes"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=KEYS, test_key=TEST_KEYS, value=JSON, inner=JSON)
def test_any_json_parses_or_is_refused(key: str, test_key: str, value: Any, inner: Any) -> None:
    document: dict[str, Any] = {"format": 1, "suite": "s", "suite_hash": "h", "drive": {}, "tests": [{"test": "t", test_key: inner}]}
    document[key] = value
    try:
        run = parse(document, "here")
    except ResultsError as error:
        assert "here" in str(error)
        return
    assert run.title and run.scale > 0
    assert len(run.content_hash) == 64 and run.origin in Origin
    assert all(run.lost.values()) and all(run.versions.values()) and run.profile != ""
    for test in run.tests:
        assert test.n_lost >= 0


VERSION_1 = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, content_sha256 TEXT NOT NULL UNIQUE, imported_utc TEXT NOT NULL, source TEXT NOT NULL, suite TEXT NOT NULL,
    suite_hash TEXT NOT NULL, scale REAL NOT NULL, condition TEXT NOT NULL, virtual INTEGER NOT NULL, started_utc TEXT,
    model TEXT NOT NULL, serial TEXT, drive_firmware TEXT, profile TEXT, profile_hash TEXT, capacity_bytes INTEGER, capture TEXT,
    uncertainty TEXT, document TEXT NOT NULL
) STRICT;
CREATE TABLE versions (run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, part TEXT NOT NULL, version TEXT NOT NULL) STRICT;
CREATE TABLE jobs (run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, file TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT;
CREATE TABLE conditions (run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL, value TEXT NOT NULL) STRICT;
CREATE TABLE lost (run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, test TEXT, kind TEXT NOT NULL, count INTEGER NOT NULL) STRICT;
CREATE INDEX runs_by_suite ON runs (suite, suite_hash, scale);
PRAGMA user_version = 1;
"""


def test_an_older_store_is_brought_up_to_date_and_does_not_call_the_silent_real(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    db = sqlite3.connect(path)
    db.executescript(VERSION_1)
    stated = {"a1": {"virtual": True}, "b2": {"virtual": False}, "c3": {}, "d4": {"conditions": {"virtual": True}}}
    ids = {}
    for name, more in stated.items():
        document = json.dumps({"format": 1, "suite": "s", "suite_hash": "h", "drive": {"model": "M"}, "tests": [], **more})
        content = sha256(json.dumps(json.loads(document), sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        run = ids[name] = content[:12]
        row = (run, content, "2026", "x", "s", "h", 1.0, "", int(more.get("virtual", False)), None, "M", *[None] * 7, document)
        db.execute(f"INSERT INTO runs VALUES ({', '.join('?' * 19)})", row)
        db.execute("INSERT INTO versions VALUES (?, 'host', '0.1')", (run,))
    db.commit()
    db.close()
    with Store(path) as store:
        assert {entry.id: entry.virtual for entry in store.entries()} == dict(zip(ids.values(), [True, False, None, True], strict=True))
        assert [entry.id for entry in store.entries()] == list(ids.values())
        assert store.provenance(ids["c3"])["virtual"] is None and store.provenance(ids["c3"])["versions"] == {"host": "0.1"}
        assert [store.get(ids[name]).title for name in ("c3", "b2", "d4")] == ["M (origin unknown)", "M", "M (model)"]
        store.delete(ids["a1"])
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(*) FROM versions WHERE run = ?", (ids["a1"],)).fetchone() == (0,), "what belongs to a run goes with it"
    assert db.execute("PRAGMA foreign_key_check").fetchall() == [] and db.execute("PRAGMA user_version").fetchone() == (2,)
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL")}
    assert names == {"runs", "versions", "jobs", "conditions", "lost", "runs_by_suite"}
