"""Requirements on a ``results.json`` before it is used: its types, and numbers in a measurable range."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

from ..errors import ResultsError
from ..jsondata import JsonObject
from .energies import Energies
from .limits import LARGEST, Count, Name

Words = str | None


class DriveRecord(msgspec.Struct):
    """``drive``."""

    title: Words = None
    model: Words = None
    serial: Words = None
    firmware: Words = None
    profile: Words = None
    profile_hash: Words = None
    capacity_bytes: Count | None = None
    power_states: list[JsonObject] | None = None
    features: JsonObject | None = None


class Document(msgspec.Struct):
    """The file, without the content of its tests. Keys not named here are kept: they are never shown, or shown as text."""

    suite: Name
    suite_hash: Name
    drive: DriveRecord
    scale: Annotated[float, msgspec.Meta(gt=0, le=LARGEST)] = 1.0
    condition: Words = None
    started_utc: Words = None
    versions: dict[str, Words] | None = None
    conditions: JsonObject | None = None
    uncertainty: JsonObject | None = None
    jobs: dict[str, str] | None = None
    capture: Words = None
    virtual: bool | None = None
    planned: list[Any] | None = None
    notes: list[str] | None = None
    tests: list[JsonObject] | None = None
    energy: Energies | None = None


def decode(text: bytes | str, where: str) -> Any:
    """Decode untrusted JSON. Raises ResultsError when it is not JSON, is nested too deeply, or holds invalid text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ResultsError(f"{where} is no JSON ({error}); run the suite again, it resumes where it stopped.") from None


def check(document: Any, where: str) -> Document:
    """The document in :class:`Document`'s types. ResultsError, naming the place, when it is not of these."""
    try:
        checked = msgspec.convert(document, Document)
        json.dumps(document, allow_nan=False)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise ResultsError(f"{where}: {error}; it was not written by `wattbell run SUITE`, or is damaged.") from None
    return checked
