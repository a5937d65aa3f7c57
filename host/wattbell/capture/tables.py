"""Parquet tables written as data arrives."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from . import schema
from .room import writing

_SORTED = ("cqe_tick", "tick", "first_tick")
_ROW_GROUP = 1 << 18
"""Rows collected before a row group is written. Large groups read and compress well, and the journal covers a crash."""


class TableSink:
    """One ``NAME.parquet``: collects rows, writes row groups, leaves a valid (possibly empty) file when closed.

    Integers are delta-packed and not compressed. At the rate of a busy rig that takes half the time and half the space of LZ4 on plain
    values, since ticks grow slowly. Columns that mostly repeat a value are plain and LZ4, which is as small for them in half the time.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.rows = 0
        self._schema = (schema.TABLES | schema.BESIDE)[name]
        self._parts: list[pa.Table] = []
        self._waiting = 0
        repeating = schema.RARELY_VARY if self._schema is schema.COMMANDS else ()
        packed = [f.name for f in self._schema if pa.types.is_integer(f.type) and f.name not in repeating]
        self.path = directory / f"{name}.parquet"
        with writing(self.path):
            self._writer = pq.ParquetWriter(
                self.path,
                self._schema,
                compression={f.name: "lz4" if f.name in repeating else "none" for f in self._schema},
                use_dictionary=False,
                write_statistics=[f.name for f in self._schema if f.name in _SORTED],
                column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
            )

    def moved_to(self, directory: Path) -> None:
        """The capture's folder was renamed."""
        self.path = directory / self.path.name

    def add(self, table: pa.Table) -> None:
        """Append the rows of `table`, which has this sink's schema. Raises CaptureError when they cannot be written."""
        if not table.num_rows:
            return
        self._parts.append(table)
        self._waiting += table.num_rows
        self.rows += table.num_rows
        if self._waiting >= _ROW_GROUP:
            self._write()

    def _write(self) -> None:
        if self._parts:
            with writing(self.path):
                self._writer.write_table(pa.concat_tables(self._parts), row_group_size=_ROW_GROUP * 2)
            self._parts, self._waiting = [], 0

    def close(self, about: Mapping[str, str] | None = None) -> None:
        """Write the remaining rows, and the footer with ``about`` as its key-value metadata (:func:`schema.metadata`)."""
        self._write()
        if about:
            self._writer.add_key_value_metadata(dict(about))
        with writing(self.path):
            self._writer.close()

    def abandon(self) -> None:
        """Abandon the file as it is."""
        if self._writer.is_open:
            with contextlib.suppress(OSError):
                self._writer.close()
            self._writer.is_open = False  # else it tries again when garbage-collected, and prints the errors it meets


def rows_table(name: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Rows for table `name` from some of its columns; the others are null where nullable, else 0 or empty."""
    table_schema = schema.TABLES[name]
    count = len(next(iter(columns.values())))
    unknown = set(columns) - set(table_schema.names)
    if unknown:
        raise ValueError(f"{name} has no column {', '.join(sorted(unknown))}")
    arrays = []
    for column in table_schema:
        if column.name in columns:
            arrays.append(pa.array(columns[column.name], type=column.type))
        elif name == "commands" and column.nullable:
            arrays.append(pa.nulls(count, column.type))
        else:
            zero: Any = "" if pa.types.is_string(column.type) else b"" if pa.types.is_binary(column.type) else 0
            arrays.append(pa.array([zero] * count, type=column.type))
    return pa.table(arrays, schema=table_schema)
