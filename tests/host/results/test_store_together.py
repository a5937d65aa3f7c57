"""One results store and several programs at once; a store that is full, cut, damaged or locked. Real processes, SQLite's own errors."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from wattbell.errors import ResultsError
from wattbell.results import Store, read_run
from wattbell.results import store as subject

PROGRAMS = 4
STORES = 25
WORKER = """
import sys
from pathlib import Path
from wattbell.errors import ResultsError
from wattbell.results import Store, read_run
run = read_run(Path(sys.argv[1])) if len(sys.argv) > 1 else None
print("ready", flush=True)
for line in sys.stdin:
    try:
        with Store(Path(line.rstrip("\\n"))) as store:
            print("ok" if run is None else store.add(run), flush=True)
    except ResultsError as error:
        print("refused:", error, flush=True)
"""


@contextmanager
def programs(arguments: list[list[str]]) -> Iterator[Callable[[Path], list[str]]]:
    """Processes that wait; the function makes all open one store at once, and gives their answers."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", WORKER, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for more in arguments
        ]

        def together(path: Path) -> list[str]:
            for one in made:
                assert one.stdin
                one.stdin.write(f"{path}\n")
            for one in made:
                assert one.stdin
                one.stdin.flush()
            return [one.stdout.readline().strip() for one in made if one.stdout]

        for one in made:
            assert one.stdout and one.stdout.readline() == "ready\n"
        yield together
        for one in made:
            assert one.stdin
            one.stdin.close()


def test_first_runs_at_once_all_find_a_store(tmp_path: Path) -> None:
    with programs([[]] * PROGRAMS) as together:
        said = [together(tmp_path / str(n) / "results.sqlite") for n in range(STORES)]
    assert said == [["ok"] * PROGRAMS] * STORES
    for n in range(STORES):
        with sqlite3.connect(tmp_path / str(n) / "results.sqlite") as db:
            assert db.execute("PRAGMA user_version").fetchone() == (2,)
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_runs_that_are_added_at_once_are_all_kept_and_one_run_once(samples: Any, tmp_path: Path) -> None:
    folders = []
    for number in range(PROGRAMS):
        folder = samples.write_results(tmp_path / f"run{number}")
        document = json.loads((folder / "results.json").read_text())
        document["started_utc"] = f"2026-01-0{number + 1}T00:00:00+00:00"
        (folder / "results.json").write_text(json.dumps(document))
        folders.append(str(folder))
    with programs([[folder] for folder in folders]) as together:
        ids = together(tmp_path / "different.sqlite")
    with Store(tmp_path / "different.sqlite") as store:
        assert sorted(ids) == sorted(entry.id for entry in store.entries()) and len(set(ids)) == PROGRAMS
    with programs([[folders[0]]] * PROGRAMS) as together:
        said = together(tmp_path / "same.sqlite")
    refused = [text for text in said if text.startswith("refused:")]
    assert len(refused) == PROGRAMS - 1
    assert all("in the store already" in text for text in refused), refused


def test_a_store_of_the_older_version_is_brought_up_to_date_once(samples: Any, tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with Store(path):
        pass
    db = sqlite3.connect(path)
    db.executescript("DROP INDEX runs_by_suite; PRAGMA user_version = 1;")  # the tables have the columns that version 1 had
    db.close()
    with programs([[]] * PROGRAMS) as together:
        assert together(path) == ["ok"] * PROGRAMS


def test_a_full_disk_changes_nothing(samples: Any, tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(ResultsError, match=r"its disk is full.*Nothing was changed"):
            store.add(read_run(samples.write_results(tmp_path / "run")))
        assert store.entries() == []
        store._db.execute("PRAGMA max_page_count = 1000000")
        store.add(read_run(tmp_path / "run"))
        assert len(store.entries()) == 1


def test_a_cut_store_is_told_or_right(samples: Any, tmp_path: Path) -> None:
    """Cut at every page; every question is answered as for the whole one, or is a ResultsError."""
    whole = tmp_path / "whole.sqlite"
    with Store(whole) as store:
        run_id = store.add(read_run(samples.write_results(tmp_path / "run")))
        (size,) = store._db.execute("PRAGMA page_size").fetchone()
        right = (store.entries(), store.get(run_id).document, store.provenance(run_id))
    data = whole.read_bytes()
    cut = tmp_path / "cut.sqlite"
    told = 0
    for length in [100, size // 2, *range(size, len(data), size), len(data) - 7]:
        cut.write_bytes(data[:length])
        try:
            with Store(cut) as store:
                assert (store.entries(), store.get(run_id).document, store.provenance(run_id)) == right
        except ResultsError as error:
            told += 1
            assert "cut or damaged" in str(error) or "not a results store" in str(error), str(error)
    assert told > 3


def test_a_store_that_another_program_keeps_locked(samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_PATIENCE_S", 0.05)
    with Store(tmp_path / "s.sqlite") as store:
        other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ResultsError, match=r"Another program keeps the results store .* locked.*Nothing was changed"):
            store.add(read_run(samples.write_results(tmp_path / "run")))
        with pytest.raises(ResultsError, match="Another program keeps"):
            store.entries()
        with pytest.raises(ResultsError, match="Another program keeps"):
            Store(tmp_path / "s.sqlite")
        other.execute("ROLLBACK")
        assert store.entries() == []
        other.close()


def test_a_store_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path):
        pass
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 3")
    db.close()
    before = path.read_bytes()
    with pytest.raises(ResultsError, match="newer Wattbell .version 3."):
        Store(path)
    assert path.read_bytes() == before
