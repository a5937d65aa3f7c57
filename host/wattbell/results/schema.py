"""The tables of the results store, version 2.

``runs.document`` is ``results.json``, unchanged. Every other table is a view of the document for queries in SQL. Uncertainties are
expanded, k = 2; null if none can be given. ``runs.virtual``: 1 for a model, 0 for a measured drive, null if the document does not say.
"""

VERSION = 2
_RUNS = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    content_sha256 TEXT NOT NULL UNIQUE,
    imported_utc TEXT NOT NULL,
    source TEXT NOT NULL,
    suite TEXT NOT NULL,
    suite_hash TEXT NOT NULL,
    scale REAL NOT NULL,
    condition TEXT NOT NULL,
    virtual INTEGER,
    started_utc TEXT,
    model TEXT NOT NULL,
    serial TEXT,
    drive_firmware TEXT,
    profile TEXT,
    profile_hash TEXT,
    capacity_bytes INTEGER,
    capture TEXT,
    uncertainty TEXT,
    document TEXT NOT NULL
) STRICT;
"""
TABLES = f"""
{_RUNS}
CREATE TABLE versions (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    part TEXT NOT NULL,
    version TEXT NOT NULL
) STRICT;
CREATE TABLE jobs (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    file TEXT NOT NULL,
    sha256 TEXT NOT NULL
) STRICT;
CREATE TABLE conditions (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL
) STRICT;
CREATE TABLE lost (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    test TEXT,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL
) STRICT;
CREATE TABLE scores (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    test TEXT NOT NULL,
    condition TEXT NOT NULL,
    name TEXT NOT NULL,
    reading TEXT,
    unit TEXT NOT NULL,
    value REAL NOT NULL,
    u REAL,
    n_lost INTEGER NOT NULL
) STRICT;
CREATE TABLE points (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    test TEXT NOT NULL,
    condition TEXT NOT NULL,
    x TEXT NOT NULL,
    quantity TEXT NOT NULL,
    value REAL NOT NULL,
    u REAL,
    n_lost INTEGER NOT NULL
) STRICT;
CREATE TABLE series (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    parquet BLOB NOT NULL,
    PRIMARY KEY (run, name)
) STRICT;
CREATE INDEX runs_by_suite ON runs (suite, suite_hash, scale);
CREATE INDEX scores_by_run ON scores (run);
CREATE INDEX points_by_run ON points (run);
PRAGMA user_version = 2;
"""
SUMS = """
CREATE TABLE IF NOT EXISTS sums (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    part TEXT NOT NULL,
    sha256 TEXT NOT NULL
) STRICT
"""
"""Made when a run is added, also in a store of an earlier program of version 2, which has no sums: SQLite has no checksums."""
_COLUMNS = (
    "id, content_sha256, imported_utc, source, suite, suite_hash, scale, condition, virtual, started_utc, model, serial, drive_firmware,"
    " profile, profile_hash, capacity_bytes, capture, uncertainty, document"
)
_STATED = "coalesce(json_extract(document, '$.virtual'), json_extract(document, '$.conditions.virtual'))"
FROM_1 = f"""
{_RUNS.replace("TABLE runs", "TABLE runs_2")}
INSERT INTO runs_2 ({_COLUMNS}) SELECT {_COLUMNS.replace("virtual", _STATED)} FROM runs ORDER BY rowid;
DROP TABLE runs;
ALTER TABLE runs_2 RENAME TO runs;
CREATE INDEX runs_by_suite ON runs (suite, suite_hash, scale);
PRAGMA user_version = 2;
"""
"""Makes a store of version 1 one of version 2, with foreign keys off (https://sqlite.org/lang_altertable.html, making other kinds of
changes)."""
