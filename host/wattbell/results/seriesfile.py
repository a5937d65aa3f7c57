"""The Parquet file of a test's time series: columns of numbers, and of texts."""

from __future__ import annotations

import io

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from .. import door
from .limits import LARGEST

_MOST_ROWS = 50_000_000
"""A year of seconds is 32 million."""


def read_series(data: bytes) -> pl.DataFrame:
    """Return the table in a Parquet file: Float64 and String columns only; a number that no rig can have measured is null.

    Raises ValueError with the reason for any other file.
    """
    try:
        # Arrow and not Polars: its reader answers a damaged file with an error in every case that was tried
        file = pq.ParquetFile(io.BytesIO(data))
        if file.metadata.num_rows > _MOST_ROWS:
            raise ValueError(f"{file.metadata.num_rows} rows")
        door.judge_parquet(file.metadata, len(data), "the series")
        table = file.read()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise ValueError((str(error).splitlines() or ["no Parquet file"])[0]) from None
    columns = {}
    for name, column in zip(table.column_names, table.columns):
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            columns[name] = pl.Series(name, column.to_pylist(), pl.String)
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            numbers = pl.Series(name, column.cast(pa.float64(), safe=False).to_numpy())
            columns[name] = numbers.set(~(numbers.abs() <= LARGEST).fill_null(False), None)
        else:
            raise ValueError(f"column {name} holds {kind}")
    if len(columns) != len(table.column_names):
        raise ValueError("two columns of one name")
    return pl.DataFrame(columns)
