"""``meta.json``: read and validated, written atomically, sealed with the hashes of the capture's files."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import uuid
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from .. import door, durable, permissions
from ..errors import CaptureError
from ..jsondata import JsonObject
from ..nearest import did_you_mean_folder
from . import hashes, schema
from .metamodel import MetaModel

Meta = JsonObject
NAME = "meta.json"
MOST_BYTES = 64 << 20
"""A meta.json has some kB; anything larger than this is not one and is not read."""
_KIND = door.FileKind("the meta.json of a capture", MOST_BYTES)
_ZEROS = b"0" * 64


class OtherFormat(CaptureError):
    """The capture's format is one that this version does not read."""


UNITS = {
    "tick": "clock.tick_ps picoseconds",
    "voltage": "V",
    "current": "A",
    "power": "W",
    "energy_raw": "1e-11 W x ADC conversion period",
}


def new() -> Meta:
    """A meta with every key present."""
    return {
        "format": schema.FORMAT_VERSION,
        "id": uuid.uuid4().hex,
        "state": "recording",
        "rig": {},
        "clock": {"tick_ps": 1000, "utc_anchor": None},
        "units": dict(UNITS),
        "rail": {"first_tick": None, "interval_ticks": None, "samples": 0, "adc_period_ticks": None},
        "loss": {},
        "drive": None,
        "conditions": {"virtual": None, "profile": None, "timing": None, "notes": []},
        "workload": {"phases": []},
        "software": dict(software()),
    }


@cache
def software() -> dict[str, str]:
    """Versions of the software that writes captures."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for name in ("wattbell", "numpy", "pyarrow", "pyjls", "pyserial", "polars", "msgspec"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    if found["wattbell"] == "unknown":
        from .. import __version__

        found["wattbell"] = __version__
    return found


def save(directory: Path, meta: Meta) -> None:
    """Replace ``meta.json`` atomically, with its own checksum: a reader, a crash or a power cut leaves the old or the new one.

    Raises CaptureError, and leaves the old one, when a reader would refuse the new one.
    """
    try:
        msgspec.convert(meta, MetaModel)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CaptureError(f"{directory / NAME} cannot say what was recorded ({error}); what is there is kept.") from None
    temporary = directory / f"{NAME}.tmp"
    temporary.unlink(missing_ok=True)  # a capture from a stranger may have a link of that name, to any file of the user's
    with open(temporary, "xb") as out:
        out.write(_with_checksum(meta))
    permissions.inherit(temporary, directory / NAME)
    durable.replace(temporary, directory / NAME)


def seal(directory: Path, meta: Meta | None = None, known: Mapping[str, Mapping[str, Any]] | None = None) -> Meta:
    """Record size and SHA-256 of every file of a finished capture in its ``meta.json``; to be called after the last change to a file.

    All files are first synced to the disk.

    meta: contents to write, else the present contents (CaptureError as :func:`load`)
    known: sums already taken

    Returns the contents written.
    """
    meta = load(directory) if meta is None else meta
    flush(directory)
    meta["files"] = {**hashes.sums(directory, leave_out=known or ()), **(known or {})}
    save(directory, meta)
    return meta


def flush(directory: Path) -> None:
    """Wait until the disk has every file of a capture, and its name. Raises OSError."""
    durable.flush_all(directory / name for name in hashes.names(directory))
    for folder, _folders, _files in os.walk(directory / hashes.WORKLOAD):
        durable.flush(Path(folder))
    durable.flush(directory)


def load(directory: Path) -> Meta:
    """Read ``meta.json`` of a capture. Raises CaptureError when it is missing, damaged, altered since it was written, of another format, or
    holds impossible values (docs/meta.schema.json)."""
    data, meta = read(directory)
    if not intact(data, meta):
        raise CaptureError(
            f"{directory / NAME} is not as it was written: its own checksum differs. `wattbell check {directory}` tells what is whole; "
            "if you edited it, `wattbell check --seal` takes it as it is."
        )
    return meta


def read(directory: Path) -> tuple[bytes, Meta]:
    """Bytes of ``meta.json`` and their content, as :func:`load` but without verifying the checksum."""
    path = directory / NAME
    if not directory.is_dir():
        hint = did_you_mean_folder(directory, NAME)
        raise CaptureError(f"{directory} is not a directory; give the capture directory that `wattbell record` wrote.{hint}")
    try:
        with door.open_file(path, _KIND) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise CaptureError(f"{path} is not the meta.json of a capture: it has more than {MOST_BYTES >> 20} MiB.")
        meta = msgspec.json.decode(data)
    except door.FileRefused as error:
        raise CaptureError(f"{path} is not the meta.json of a capture: {error.strerror}.") from None
    except FileNotFoundError:
        raise CaptureError(f"{directory} is not a capture: it has no {NAME}.") from None
    except (OSError, ValueError, RecursionError) as error:
        text = error.strerror if isinstance(error, OSError) else error
        raise CaptureError(f"{path} cannot be read ({text}); restore it from a copy of the capture.") from None
    if not isinstance(meta, dict) or "format" not in meta:
        raise CaptureError(f"{path} is not the meta.json of a capture.")
    if meta["format"] != schema.FORMAT_VERSION:
        raise OtherFormat(
            f"{directory} has capture format {str(meta['format'])[:20]}; this wattbell reads {schema.FORMAT_VERSION}. "
            "Use the wattbell version that wrote it."
        )
    try:
        msgspec.convert(meta, MetaModel)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CaptureError(f"{path} has an invalid value ({error}); restore it from a copy of the capture.") from None
    return data, meta


def intact(data: bytes, meta: Meta) -> bool:
    """Whether ``meta.json``'s own checksum holds; True for one without, which is older than checksums."""
    stated = meta.get("self")
    if stated is None:
        return "files" not in meta
    before, found, behind = data.rpartition(stated.encode())
    return bool(found) and hashlib.sha256(before + _ZEROS + behind).hexdigest() == stated


def _with_checksum(meta: Meta) -> bytes:
    """The text of ``meta.json``. The checksum is taken over the text with zeros in its place, so that no byte can change unnoticed."""
    plain = {name: value for name, value in meta.items() if name != "self"}
    text = json.dumps({**plain, "self": _ZEROS.decode()}, indent=1, allow_nan=False).encode() + b"\n"
    before, _, behind = text.rpartition(_ZEROS)
    return before + hashlib.sha256(text).hexdigest().encode() + behind
