"""The results store: one SQLite file with runs, their series and the evidence for them.

SQLite is one file, needs no server and no package, and survives a crash without losing a run. Each run is kept whole (``results.json`` and
its series), so the store outlives the directories that filled it.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from .. import door, durable
from ..clocks.host import instant_s
from ..errors import ResultsError
from ..jsondata import JsonObject
from ..origin import Origin, origin_of
from ..text import in_lines
from . import provenance
from .document import decode
from .model import Run, parse
from .schema import FROM_1, SUMS, TABLES, VERSION

_ID_DIGITS = 12
_RESTS_ON = "provenance"
"""Name of a sum of all that a run rests on. The document has a hash of its own; other sums have the names of series."""
_PATIENCE_S = 60.0
"""Longest wait of SQLite in s for another program to finish writing one run."""


def default_path() -> Path:
    """``WATTBELL_STORE``, else ``wattbell/results.sqlite`` in the user's data directory (XDG)."""
    given = os.environ.get("WATTBELL_STORE")
    if given:
        return Path(given)
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "wattbell" / "results.sqlite"


@dataclass(frozen=True)
class ListedRun:
    """One line of the list of runs."""

    id: str
    suite: str
    suite_hash: str
    scale: float
    condition: str
    virtual: bool | None
    """None: the document does not say."""
    started_utc: str
    model: str
    serial: str
    profile: str
    imported_utc: str
    n_lost: int

    @property
    def started_s(self) -> float:
        """When the run began, in s since 1970; minus infinity where that is not known. Texts with offsets do not sort by time."""
        found = instant_s(self.started_utc)
        return -math.inf if found is None else found

    @property
    def origin(self) -> Origin:
        """Whether a drive was measured."""
        return origin_of(self.virtual)


class Store:
    """A results store. Opens the file, and makes it where there is none (unless ``create`` is false).

    Raises ResultsError when the file is no store, of a newer version, or cannot be opened.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        self.path = path
        if not path.exists() and not create:
            text = f"There is no results store {path}; `wattbell results import DIR` makes it, --store names another."
            raise ResultsError(text)
        self._checked = False
        try:
            if path.exists():
                door.check(path, door.STORE)
                if not create and not path.stat().st_size:
                    text = (
                        f"The results store {path} is empty: it was never written, or is cut short. Put it back from a copy, or remove it"
                    )
                    raise ResultsError(f"{text} and `wattbell results import DIR` makes it anew.")
        except (door.FileRefused, IsADirectoryError) as error:
            raise ResultsError(f"{path} is not a results store ({error.strerror}); give another with --store.") from None
        except OSError as error:
            raise ResultsError(f"The results store {path} cannot be opened ({error.strerror}); use --store.") from None
        try:
            durable.make_folder(path.parent)
            # transactions are begun and ended here: Python's own would begin some too late to exclude other programs
            self._db = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
        except OSError as error:
            raise ResultsError(f"The results store {path} cannot be made or opened ({error.strerror}); use --store.") from None
        except sqlite3.Error as error:
            raise ResultsError(_told(path, error)) from None
        try:
            self._db.execute("PRAGMA foreign_keys = ON")
            self._db.execute("PRAGMA trusted_schema = OFF")
            # SQLite commits by removing its journal; with FULL, its default, a power cut may bring the journal back and undo the commit
            self._db.execute("PRAGMA synchronous = EXTRA")
            self._prepare()
        except sqlite3.Error as error:
            self._db.close()
            raise ResultsError(_told(path, error)) from None
        except ResultsError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        """Make the tables, or bring them up to date. Of several programs that begin at once one does it, and the others find it done."""
        if self._version() == VERSION:
            return
        # foreign keys can only be turned off outside a transaction
        self._db.execute("PRAGMA foreign_keys = OFF")
        with self._exclusive() as db:
            version = self._version()
            if version == 1:
                for statement in _statements(FROM_1):
                    db.execute(statement)
            elif version != VERSION:
                if db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                    raise ResultsError(f"{self.path} is a database of something else; give another with --store.")
                for statement in _statements(TABLES):
                    db.execute(statement)
        self._db.execute("PRAGMA foreign_keys = ON")

    def _version(self) -> int:
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version > VERSION:
            raise ResultsError(f"{self.path} was written by a newer Wattbell (version {version}); update this one.")
        return version

    @contextmanager
    def _exclusive(self) -> Iterator[sqlite3.Connection]:
        """Keep other programs from writing within the block, and write all of the block or nothing. Raises sqlite3.Error."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite has ended it already after some errors
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _check(self) -> None:
        """Look once at every page of the file. SQLite itself may pass over damage and leave out rows. Raises ResultsError."""
        if self._checked:
            return
        try:
            found = str(self._db.execute("PRAGMA integrity_check(1)").fetchone()[0])
        except (sqlite3.Error, OverflowError) as error:
            raise ResultsError(_told(self.path, error)) from None
        if found != "ok":
            raise ResultsError(_damaged(self.path, " ".join(found.split())))
        self._checked = True

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._exclusive() as db:
                self._check()
                yield db
        except sqlite3.Error as error:
            raise ResultsError(f"{_told(self.path, error)} Nothing was changed.") from None

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of an answer. Raises ResultsError: damage may show only at a later row."""
        try:
            return self._db.execute(query, values).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise ResultsError(_told(self.path, error)) from None

    def _row(self, query: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """The first row of an answer; None if there is none. Raises ResultsError."""
        return next(iter(self._rows(query, values)), None)

    # -- writing -----------------------------------------------------------------------------------------------------

    def add(self, run: Run) -> str:
        """Keep a run; returns its id. Raises ResultsError when it is in the store already, also with other figures."""
        run_id = run.content_hash[:_ID_DIGITS]
        folder = Path(run.source)
        folder = folder if folder.is_dir() else folder.parent
        document, drive = run.document, run.drive
        capture = document.get("capture")
        where = os.path.abspath(folder / str(capture)) if capture else provenance.capture_of(folder)
        row = {
            "id": run_id,
            "content_sha256": run.content_hash,
            "imported_utc": datetime.now(UTC).isoformat(timespec="seconds"),
            "source": run.source,
            "suite": run.suite,
            "suite_hash": run.suite_hash,
            "scale": run.scale,
            "condition": run.condition,
            "virtual": run.origin.stated,
            "started_utc": document.get("started_utc"),
            "model": run.drive_name,
            "serial": drive.get("serial"),
            "drive_firmware": drive.get("firmware"),
            "profile": run.profile,
            "profile_hash": drive.get("profile_hash"),
            "capacity_bytes": drive.get("capacity_bytes"),
            "capture": str(where) if where else None,
            "uncertainty": json.dumps(document["uncertainty"]) if "uncertainty" in document else None,
            "document": json.dumps(document),
        }
        stated = document.get("jobs")
        jobs = dict(stated) if isinstance(stated, Mapping) else provenance.job_hashes(folder)
        with self._transaction() as db:
            self._refuse_known(run)
            names = ", ".join(row)
            db.execute(f"INSERT INTO runs ({names}) VALUES ({', '.join(':' + name for name in row)})", row)
            db.executemany("INSERT INTO versions VALUES (?, ?, ?)", [(run_id, k, v) for k, v in run.versions.items()])
            db.executemany("INSERT INTO jobs VALUES (?, ?, ?)", [(run_id, str(k), str(v)) for k, v in jobs.items()])
            conditions = document.get("conditions")
            items = conditions.items() if isinstance(conditions, Mapping) else ()
            db.executemany("INSERT INTO conditions VALUES (?, ?, ?)", [(run_id, str(k), json.dumps(v)) for k, v in items])
            series = self._add_figures(db, run_id, run)
            db.execute(SUMS)
            sums = [(run_id, _RESTS_ON, _sum_of(self._rests_on(run_id))), *((run_id, name, sum_) for name, sum_ in series.items())]
            db.executemany("INSERT INTO sums VALUES (?, ?, ?)", sums)
        return run_id

    def _add_figures(self, db: sqlite3.Connection, run_id: str, run: Run) -> dict[str, str]:
        """Returns the SHA-256 of each series."""
        series: dict[str, str] = {}
        lost: list[tuple[str, str | None, str, int]] = [(run_id, None, kind, n) for kind, n in run.lost.items()]
        for test in run.tests:
            at = (run_id, test.test, test.condition)
            lost += [(run_id, test.test, kind, n) for kind, n in test.lost.items()]
            db.executemany(
                "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*at, s.name, s.reading, s.unit, s.value.value, s.value.u, s.value.lost) for s in test.scores],
            )
            db.executemany(
                "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(*at, json.dumps(dict(p.x)), name, q.value, q.u, q.lost) for p in test.points for name, q in p.figures.items()],
            )
            if test.series is not None:
                data = run.read_series(test.series)
                if data is None:
                    text = f"{run.source} names the series {test.series}, which is not there; run that test again."
                    raise ResultsError(text)
                db.execute("INSERT OR REPLACE INTO series VALUES (?, ?, ?)", (run_id, test.series, data))
                series[test.series] = sha256(data).hexdigest()
        db.executemany("INSERT INTO lost VALUES (?, ?, ?, ?)", lost)
        return series

    def _verify(self, run_id: str, part: str, found: str) -> None:
        """Compare a part of a run with its stored sum, if the storing program kept sums. Raises ResultsError."""
        if not self._rows("SELECT 1 FROM sqlite_schema WHERE name = 'sums'"):
            return
        kept = self._row("SELECT sha256 FROM sums WHERE run = ? AND part = ?", (run_id, part))
        if kept is not None and kept[0] != found:
            raise ResultsError(_damaged(self.path, f"{part} of run {run_id} is not as it was stored"))

    def known(self, run: Run) -> str | None:
        """The id of a run with exactly these results; None if there is none."""
        same = self._row("SELECT id FROM runs WHERE content_sha256 = ?", (run.content_hash,))
        return None if same is None else str(same[0])

    def _refuse_known(self, run: Run) -> None:
        same = self.known(run)
        if same:
            raise ResultsError(f"This run is in the store already, as {same}; nothing was imported.")
        started = run.document.get("started_utc")
        if not started:
            return
        key = (run.suite, run.suite_hash, run.scale, run.condition, started, run.drive_name, run.drive.get("serial"))
        other = self._row(
            "SELECT id FROM runs WHERE suite = ? AND suite_hash = ? AND scale = ? AND condition = ? AND started_utc = ?"
            " AND model = ? AND serial IS ?",
            key,
        )
        if other:
            text = f"This run ({run.suite} on {run.title}, started {started}) is in the store already, as {other[0]},"
            text += f" with other figures. To keep these instead: `wattbell results delete {other[0]}`, then import again."
            raise ResultsError(text)

    def delete(self, reference: str) -> str:
        """Remove a run; returns its id. Raises ResultsError when there is none."""
        run_id = self.find(reference)
        with self._transaction() as db:
            db.execute("DELETE FROM runs WHERE id = ?", (run_id,))
        return run_id

    # -- reading -----------------------------------------------------------------------------------------------------

    def find(self, reference: str) -> str:
        """The id that begins with ``reference``. Raises ResultsError when none or several do."""
        self._check()
        rows = self._rows("SELECT id FROM runs WHERE substr(id, 1, ?) = ? ORDER BY id", (len(reference), reference.lower()))
        if not reference or not rows:
            text = f"{reference or 'An empty text'} is neither a directory nor a run in {self.path}"
            raise ResultsError(f"{text}; `wattbell results list` shows the runs there.")
        if len(rows) > 1:
            raise ResultsError(f"{reference} begins several ids ({', '.join(row[0] for row in rows)}); give more of it.")
        return str(rows[0][0])

    def get(self, reference: str) -> Run:
        """Return the run with an id that begins with ``reference``. Raises ResultsError when none or several do."""
        run_id = self.find(reference)
        row = self._row("SELECT document, source, content_sha256 FROM runs WHERE id = ?", (run_id,))
        if row is None:
            raise ResultsError(f"Run {run_id} was deleted from {self.path} by another program.")
        return self._run(run_id, *row)

    def _run(self, run_id: str, document: str, source: str, content_sha256: str) -> Run:
        def series(name: str) -> bytes | None:
            row = self._row("SELECT parquet FROM series WHERE run = ? AND name = ?", (run_id, name))
            if row is None:
                return None
            data = bytes(row[0])
            self._verify(run_id, name, sha256(data).hexdigest())
            return data

        found = parse(decode(document, f"run {run_id} of {self.path}"), f"run {run_id} of {self.path}", series, run_id, source)
        if found.content_hash != content_sha256 or not content_sha256.startswith(run_id):
            raise ResultsError(_damaged(self.path, f"run {run_id} is not as it was stored"))
        return found

    def runs(self) -> list[Run]:
        """Every run, oldest first."""
        self._check()
        rows = self._rows("SELECT id, document, source, content_sha256 FROM runs ORDER BY started_utc, rowid")
        return sorted((self._run(*map(str, row)) for row in rows), key=lambda run: run.started_s)

    def entries(self) -> list[ListedRun]:
        """The list of runs, oldest first."""
        self._check()
        for (run_id,) in self._rows("SELECT id FROM runs"):
            self._verify(run_id, _RESTS_ON, _sum_of(self._rests_on(run_id)))
        rows = self._rows(
            "SELECT id, suite, suite_hash, scale, condition, virtual, coalesce(started_utc, ''), model,"
            " coalesce(serial, ''), coalesce(profile, ''), imported_utc,"
            " (SELECT coalesce(sum(count), 0) FROM lost WHERE lost.run = runs.id AND lost.test IS NULL)"
            " FROM runs ORDER BY started_utc, rowid"
        )
        entries = [ListedRun(*in_lines([*row[:5], _as_bool(row[5]), *row[6:12]])) for row in rows]
        return sorted(entries, key=lambda entry: entry.started_s)

    def provenance(self, run_id: str) -> JsonObject:
        """Everything a run rests on, as JSON-able data."""
        self._check()
        row = self._rests_on(run_id)
        self._verify(run_id, _RESTS_ON, _sum_of(row))
        shown: JsonObject = in_lines(row)
        return shown

    def _rests_on(self, run_id: str) -> JsonObject:
        """Return the stored evidence, as :meth:`provenance`."""
        found = self._row("SELECT * FROM runs WHERE id = ?", (run_id,))
        if found is None:
            raise ResultsError(f"There is no run {run_id} in {self.path}; `wattbell results list` shows the runs there.")
        names = [column[1] for column in self._rows("PRAGMA table_info(runs)")]
        row = dict(zip(names, found, strict=True))
        del row["document"]
        row["virtual"] = _as_bool(row["virtual"])
        row["uncertainty"] = json.loads(row["uncertainty"]) if row["uncertainty"] else None

        def pairs(query: str) -> dict[str, str]:
            return dict(self._rows(query, (run_id,)))

        row["versions"] = pairs("SELECT part, version FROM versions WHERE run = ?")
        row["jobs"] = pairs("SELECT file, sha256 FROM jobs WHERE run = ? ORDER BY file")
        conditions = pairs("SELECT name, value FROM conditions WHERE run = ?")
        row["conditions"] = {name: json.loads(value) for name, value in conditions.items()}
        lost = self._rows("SELECT test, kind, count FROM lost WHERE run = ?", (run_id,))
        row["lost"] = [{"test": test, "kind": kind, "count": n} for test, kind, n in lost]
        return row


def _as_bool(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _statements(script: str) -> list[str]:
    """The statements of a script. ``executescript`` of Python would end the transaction before it."""
    return [statement for statement in script.split(";") if statement.strip()]


def _sum_of(rests_on: JsonObject) -> str:
    """Return the SHA-256 of a run's evidence."""
    return sha256(json.dumps(rests_on, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path, what: str) -> str:
    return f"{path} is cut or damaged ({what}); put it back from a copy, or import the runs into another with --store."


def _told(path: Path, error: BaseException) -> str:
    """Return the meaning of an error of SQLite, with advice."""
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"Another program keeps the results store {path} locked ({error}); wait for it, or use --store."
    if kind == sqlite3.SQLITE_FULL:
        return f"The results store {path} could not be written: its disk is full ({error}); free some room, or use --store."
    if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"The results store {path} or its folder cannot be written ({error}); make them writable, or use --store."
    if kind == sqlite3.SQLITE_IOERR:
        return f"The disk of the results store {path} fails ({error}); copy what can still be read, and use --store."
    if kind == sqlite3.SQLITE_CORRUPT:
        return _damaged(path, str(error))
    return f"{path} is not a results store ({error}); give another with --store."
