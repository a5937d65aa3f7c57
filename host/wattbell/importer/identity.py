"""Read the drive's identity from files of nvme-cli: Identify Controller and Identify Namespace, as JSON or as the 4096 raw bytes.

The commands are ``nvme id-ctrl /dev/nvme0 -o json`` or ``-o binary``, and likewise ``nvme id-ns /dev/nvme0n1``. The raw bytes may be a hex
dump. The keys of JSON identify its structure (:mod:`.nvmecli`). Raw bytes have no keys and are accepted only if they have the structure's
shape (:mod:`..capture.identify`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from .. import door
from ..capture.identify import (
    IDENTIFY_BYTES,
    IdentifiedDrive,
    IdentifiedNamespace,
    looks_like_controller,
    looks_like_namespace,
    parse_controller,
    parse_namespace,
)
from ..errors import CaptureError
from . import nvmecli

_MOST_BYTES = 1 << 22
_SHOWN = 60
_JSON = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_DUMPED = re.compile(r"[ \t]*([0-9a-fA-F]{4,8})(:?)[ \t]+((?:(?:[0-9a-fA-F]{2}){1,4}[ \t]+){1,15}(?:[0-9a-fA-F]{2}){1,4})(?=\s|$)")
_LINE_BYTES = 16
_OTHERS = (
    ("smartctl's JSON", {"smartctl", "json_format_version"}),
    ("nvme list's JSON", {"Devices"}),
    ("nvme smart-log's JSON", {"critical_warning", "percent_used", "percentage_used"}),
    ("nvme fw-log's JSON", {"afi"}),
    ("lsblk's JSON", {"blockdevices"}),
    ("fio's JSON", {"fio version"}),
)
"""Output of other programs and commands, each recognized by one of its keys."""
_TEXTS = (
    (
        "the plain text of nvme id-ctrl or id-ns",
        re.compile(r"^\s*NVME Identify |^(?:vid|nsze|npss|lbaf\s+\d+)\s*:|^ps\s+\d+\s*:\s*mp:", re.MULTILINE),
    ),
    ("smartctl's text", re.compile(r"^smartctl \d|^=== START OF ", re.MULTILINE)),
)
_CONTROLLER = "nvme id-ctrl DEVICE -o json"


_UNIQUE = re.compile(rb'"(?:nguid|eui64)"\s*:\s*"[0-]*[1-9a-fA-F]')
"""An identifier of a namespace in nvme-cli's JSON; zeros are none (NVM Command Set, Identify Namespace)."""


class _Found(NamedTuple):
    """The contents of one file: a controller or a namespace; the other field is None."""

    controller: IdentifiedDrive | None
    namespace: IdentifiedNamespace | None


def read_identity(paths: Sequence[Path]) -> IdentifiedDrive:
    """Return the identity of one drive from files. Namespaces are numbered 1, 2, ... in the order of their files.

    Raises CaptureError for unreadable files and for a second controller.
    """
    drive: IdentifiedDrive = {}
    namespaces: list[IdentifiedNamespace] = []
    seen: dict[Path | bytes, Path] = {}
    for path in paths:
        found = _read(path, len(namespaces) + 1)
        _must_be_new(path, seen)
        if found.namespace is not None:
            namespaces.append(found.namespace)
        elif drive:
            raise CaptureError(f"{path}: a second Identify Controller; a capture is of one drive.")
        elif found.controller is not None:
            drive = found.controller
    if not drive:
        drive = {"power_states": []}
    drive["source"] = "file"
    drive["namespaces"] = namespaces
    return drive


def _must_be_new(path: Path, seen: dict[Path | bytes, Path]) -> None:
    """Raise CaptureError for a file given twice, also as a copy, where it has an identifier that no two namespaces share."""
    data = door.read_bytes(path, door.SETTINGS)
    for key in (path.resolve(), *((data,) if _UNIQUE.search(data) else ())):
        if key in seen:
            raise CaptureError(f"{path} and {seen[key]} are the same namespace or controller. Give it once.")
        seen[key] = path


def _read(path: Path, nsid: int) -> _Found:
    """Read Identify Controller, or Identify Namespace for namespace number ``nsid``."""
    try:
        with door.open_file(path, door.SETTINGS) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}).") from None
    if not data.strip():
        raise CaptureError(f"{path} is empty. nvme-cli prints nothing where it fails: run the command without > FILE and read its error.")
    if len(data) > _MOST_BYTES:
        raise CaptureError(f"{path} has more than {_MOST_BYTES} bytes; Identify data have {IDENTIFY_BYTES}, as JSON some thousand.")
    text = _as_text(data)
    if text is not None:
        return _of_text(path, text, nsid)
    if len(data) != IDENTIFY_BYTES:
        raise CaptureError(
            f"{path} is neither text nor the {IDENTIFY_BYTES} bytes of Identify data: it has {len(data)}. It is cut, or of another command."
        )
    return _of_bytes(path, data, nsid)


def _as_text(data: bytes) -> str | None:
    """Return a file's bytes as text; None if they are not text. Bytes that are not UTF-8 become U+FFFD."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\0" in data and not (data.lstrip()[:1] == b"{" and len(data) != IDENTIFY_BYTES):
        return None
    return data.decode("utf-8-sig", "replace")


def _of_bytes(path: Path, data: bytes, nsid: int) -> _Found:
    if not any(data):
        raise CaptureError(f"{path} is all zeros: no drive answered that.")
    controller, namespace = looks_like_controller(data), looks_like_namespace(data)
    if controller == namespace:
        raise CaptureError(
            f"{path} has the {IDENTIFY_BYTES} bytes of Identify data, but "
            f"{'may be either' if controller else 'the fields are neither those'} of Identify Controller "
            f"{'or' if controller else 'nor'} of Identify Namespace. Give JSON, which says what it is: {_CONTROLLER}."
        )
    return _Found(parse_controller(data), None) if controller else _Found(None, parse_namespace(nsid, data))


def _of_text(path: Path, text: str, nsid: int) -> _Found:
    # nvme-cli prints its actions (-v) and its warnings before the JSON
    begins = _JSON.search(text)
    if begins is None:
        dumped = _dumped(text)
        if dumped and len(dumped) != IDENTIFY_BYTES:
            raise CaptureError(
                f"{path} is a hex dump of {len(dumped)} bytes in a row; Identify data have {IDENTIFY_BYTES}. Give the whole dump, or JSON: "
                f"{_CONTROLLER}."
            )
        if dumped:
            return _of_bytes(path, dumped, nsid)
        _no_json(path, text)
    at = text.index(begins[0].strip(), begins.start())
    try:
        # strings may hold control characters: nvme-cli prints a drive's as they are
        keys, end = json.JSONDecoder(strict=False, parse_constant=_no_number).raw_decode(text, at)
    except json.JSONDecodeError as error:
        if text[:at].strip() and _plain(text) is not None:
            _no_json(path, text)
        raise CaptureError(
            f"{path}, line {error.lineno}, column {error.colno}: the JSON is broken ({error.msg}): the file is cut or was "
            "changed. Save it anew."
        ) from None
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{path}: the JSON is broken ({error}). The file was changed: save it anew.") from None
    if _JSON.search(text, end):
        raise CaptureError(f"{path}: more than one JSON document; save each in a file of its own, and give each with --identify.")
    return _of_keys(path, keys, nsid)


def _dumped(text: str) -> bytes:
    """Return the bytes of a hex dump: of ``xxd``, ``hexdump`` with or without ``-C``, ``od``, or nvme-cli's own; empty if there is none.

    They end where a line's offset does not go on. A star stands for lines like the one before.
    """
    found = bytearray()
    starred = False
    for line in text.splitlines():
        if line.strip() == "*":
            starred = bool(found)
            continue
        bare = re.fullmatch(r"\s*([0-9a-fA-F]{4,8})\s*", line)
        told = _DUMPED.match(line)
        if bare is None and told is None:
            if found:
                break
            continue
        offset = int((bare or told or [""])[1], 16)
        if starred and found[-_LINE_BYTES:] and len(found) < offset <= IDENTIFY_BYTES:
            found += found[-_LINE_BYTES:] * ((offset - len(found)) // _LINE_BYTES)
        starred = False
        if told is None or offset != len(found):
            if found:
                break
            continue
        groups = told[3].split()
        if not told[2] and all(len(group) == 4 for group in groups):  # hexdump: words of this machine's order
            groups = [group[2:] + group[:2] for group in groups]
        found += bytes.fromhex("".join(groups))[:_LINE_BYTES]
    return bytes(found)


def _of_keys(path: Path, keys: Any, nsid: int) -> _Found:
    if isinstance(keys, list) and len(keys) == 1:
        keys = keys[0]
    if isinstance(keys, dict) and len(keys) == 1 and isinstance(inner := next(iter(keys.values())), dict):
        keys = inner if nvmecli.is_controller(inner) or nvmecli.is_namespace(inner) else keys
    if not isinstance(keys, dict):
        raise CaptureError(
            f"{path}: the JSON is no object with the fields of Identify, but {'a list' if isinstance(keys, list) else 'one value'}."
        )
    what = "id-ctrl"
    try:
        if nvmecli.is_controller(keys):
            return _Found(nvmecli.controller(keys), None)
        what = "id-ns"
        if nvmecli.is_namespace(keys):
            return _Found(None, nvmecli.namespace(keys, nsid))
    except nvmecli.Odd as error:
        raise CaptureError(f"{path} is not what nvme {what} prints as JSON: {error}.") from None
    error_said = keys.get("error")
    if isinstance(error_said, str):
        raise CaptureError(f"{path} holds an error of nvme-cli instead of data: {_shown(error_said)}.")
    for name, theirs in _OTHERS:
        if theirs & set(keys):
            raise CaptureError(f"{path} is {name}, which is not read here. Give that of nvme id-ctrl (and id-ns): {_CONTROLLER}.")
    has = ", ".join(_shown(key) for key in list(keys)[:5]) or "none"
    raise CaptureError(
        f"{path} has neither the keys of Identify Controller (psds, mn) nor of Identify Namespace (lbafs, nsze); its keys: {has}."
    )


def _plain(text: str) -> str | None:
    """Return the kind of a text without JSON; None if the text is not recognized."""
    return next((name for name, pattern in _TEXTS if pattern.search(text)), None)


def _no_json(path: Path, text: str) -> NoReturn:
    name = _plain(text)
    if name is None:
        first = next(line for line in text.splitlines() if line.strip())
        raise CaptureError(
            f"{path} is neither JSON of nvme-cli nor the {IDENTIFY_BYTES} bytes of Identify data; it begins with: {_shown(first.strip())}"
        )
    raise CaptureError(f"{path} is {name}, which is not read: nvme-cli prints JSON with -o json ({_CONTROLLER}).")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")
