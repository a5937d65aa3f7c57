"""Runs from where they lie: a results directory, a capture directory, or an id in the store."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from .. import door
from ..errors import ResultsError
from ..nearest import did_you_mean_folder
from .document import decode
from .from_capture import run_from_capture
from .model import Run, parse
from .sides import repeated_in
from .store import Store

RESULTS = "results.json"
_ID = re.compile(r"[0-9a-f]*", re.IGNORECASE)
"""An id in the store, or its beginning."""


def _series_reader(folder: Path) -> Callable[[str], bytes | None]:
    """Return a function that reads series files inside ``folder`` only: their names are in a file that may come from anywhere."""

    def read(name: str) -> bytes | None:
        if "\0" in name:
            raise ResultsError(f"{folder / RESULTS} names a series with a zero in its name; it is damaged.")
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise ResultsError(f"{folder / RESULTS} names the series {name}, which lies outside {folder}; not read.")
        try:
            if path.exists() and not path.is_file():
                raise ResultsError(f"{path} is not a file; run that test again.")
            return door.read_bytes(path, door.SERIES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ResultsError(f"{path} cannot be read ({error.strerror}).") from None

    return read


def read_run(path: Path) -> Run:
    """The run in a results directory (or a ``results.json``). Raises ResultsError when there is none."""
    file = path / RESULTS if path.is_dir() else path
    try:
        if file.exists() and not file.is_file():
            raise ResultsError(f"{file} is not a file; give a directory that `wattbell run SUITE` wrote.")
        text = door.read_bytes(file, door.DOCUMENT)
    except FileNotFoundError:
        raise ResultsError(f"{path} has no {RESULTS}; give a directory that `wattbell run SUITE` wrote.") from None
    except OSError as error:
        raise ResultsError(f"{file} cannot be read ({error.strerror}).") from None
    return parse(decode(text, str(file)), str(file), _series_reader(file.parent), source=str(file.parent.resolve()))


def resolve_all(reference: str, open_store: Callable[[], Store]) -> list[Run]:
    """The runs of a reference: several of a folder that ``wattbell run --repeat`` wrote, otherwise one, as :func:`resolve` finds it."""
    repeated = repeated_in(Path(reference))
    return [read_run(path) for path in repeated] or [resolve(reference, open_store)]


def resolve(reference: str, open_store: Callable[[], Store]) -> Run:
    """A run from a results directory, a capture directory, or (the beginning of) an id in the store.

    ``open_store`` is called only where the reference is no path. Raises ResultsError when it is none of the three.
    """
    path = Path(reference)
    if path.is_file() or (path / RESULTS).exists():
        return read_run(path)
    if (path / "meta.json").is_file():
        return run_from_capture(path)
    if path.exists():
        text = f"{reference} has neither {RESULTS} (a suite's results) nor meta.json (a capture)"
        raise ResultsError(f"{text}; give a directory that `wattbell run` or `wattbell record` wrote.")
    if not _ID.fullmatch(reference):
        raise ResultsError(f"There is no {reference}; give a directory, or an id.{did_you_mean_folder(path, RESULTS, 'meta.json')}")
    return open_store().get(reference)
