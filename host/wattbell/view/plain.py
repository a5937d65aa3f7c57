"""Answers as JSON: arrays as lists, numbers that are not finite as null, measured numbers to seven digits."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from starlette.responses import Response

_DIGITS = 7


def answer(value: Any, status: int = 200) -> Response:
    """JSON of dicts, lists, numbers, arrays and series."""
    return Response(msgspec.json.encode(value, enc_hook=_plain), status, media_type="application/json")


def error(status: int, text: str) -> Response:
    """``{"error": one line}``."""
    return answer({"error": " ".join(text.split("\n"))}, status)


def rounded(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Round to seven significant digits, so that JSON has no more of each number."""
    values = np.asarray(values, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        power = _DIGITS - 1 - np.floor(np.log10(np.abs(values)))
        power = np.where(np.isfinite(power), power, 0).clip(-22, 22)  # powers of ten that a double holds exactly
        up, down = 10.0 ** np.maximum(power, 0), 10.0 ** np.maximum(-power, 0)
        found: npt.NDArray[np.float64] = np.rint(values * up / down) / up * down
    return found


def rounded_one(value: float | None) -> float | None:
    """The same of one number."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, pl.Series):
        return value.to_list()
    raise NotImplementedError(type(value).__name__)
