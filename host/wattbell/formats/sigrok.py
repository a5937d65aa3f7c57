"""sigrok session files (``.sr``, srzip version 2): analog channels.

A ZIP of ``version`` (2), an INI ``metadata`` (``samplerate=8 MHz``, ``analog9=current``) and ``analog-1-<channel>-<chunk>``, float32
little-endian. Chunks count from 1 and are sorted as numbers, so 10 comes after 9 (sigrok.org, File format:Sigrok/v2). Values have no unit
there: they are A, V and W, or the unit in ``--column current=NAME:mA``.
"""

from __future__ import annotations

import configparser
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..errors import CaptureError
from ..origin import stated_by
from . import zipped
from .fileformat import file_format
from .text import Head
from .units import factor
from .waveform import F64, About, Waveform, WaveformOptions, WaveformPiece, no_volts, ticks, with_power

NAME, TITLE = "sigrok", "sigrok session"
TAKES = frozenset({"columns", "interval_s"})
_SI = {"current": "A", "voltage": "V", "power": "W"}
_CHUNK = re.compile(r"^analog-1-(\d+)(?:-(\d+))?$")
_RATE = re.compile(r"^(\d+(?:\.\d+)?)\s*([GMk]?)Hz$")
_SCALE = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_MOST_ENTRIES, _MOST_BYTES = 100_000, 1 << 36
_PIECE_BYTES = 1 << 22


def matches(head: Head) -> bool:
    """Whether it is a ZIP with sigrok's metadata in it, or one that is cut."""
    names = zipped.inside(head)
    return names is None or "metadata" in names


@file_format(NAME, TITLE, matches, TAKES)
def open_files(paths: Sequence[Path], options: WaveformOptions) -> Waveform:
    """Raises CaptureError."""
    (path,) = paths
    with zipped.opened(path) as (archive, entries):
        if len(entries) > _MOST_ENTRIES or entries.get("metadata", zipfile.ZipInfo()).file_size > zipped.MOST_METADATA:
            raise CaptureError(f"{path} is no sigrok session: {len(entries)} files in it, or metadata of more than 1 MiB.")
        if "version" not in entries or "metadata" not in entries or archive.open("version").read(8).strip() != b"2":
            raise CaptureError(f"{path} is a ZIP, but no sigrok session of version 2.")
        text = archive.read("metadata").decode("utf-8", "replace")
    rate, channels = _metadata(path, text, options)
    chunks = _chunks(path, entries)
    roles = _roles(path, {name: number for number, name in channels.items() if number in chunks}, options)
    samples = {role: sum(entry.file_size for entry in chunks[number]) // 4 for role, (number, _) in roles.items()}
    if len(set(samples.values())) > 1:
        each = ", ".join(f"{role} {count}" for role, count in samples.items())
        raise CaptureError(f"{path}: its channels differ in length ({each} samples); it seems to be cut.")
    span = min(samples.values())
    if span < 2 or span * 4 * len(roles) > _MOST_BYTES:
        raise CaptureError(f"{path} states {span} samples; a waveform has 2 to {_MOST_BYTES // 4 // len(roles)}.")
    volts = None if "voltage" in roles else options.volts
    if "voltage" not in roles and volts is None:
        raise no_volts(path, f"there is only {' and '.join(roles)}")
    tick_ps, interval_ticks = ticks(1.0 / rate, span, path)

    def read() -> Iterator[WaveformPiece]:
        with zipped.opened(path) as (archive, _):
            streams = {role: _values(archive, chunks[number]) for role, (number, _) in roles.items()}
            first = 0
            while True:
                got = {role: next(stream, None) for role, stream in streams.items()}
                parts = {role: part * roles[role][1] for role, part in got.items() if part is not None}
                if not parts:
                    return
                if len(parts) < len(roles) or len({len(part) for part in parts.values()}) > 1:
                    raise CaptureError(f"{path}: its channels are cut into different chunks.")
                yield _piece(first, parts, volts.value if volts else None)
                first += len(next(iter(parts.values())))

    return Waveform(About(TITLE, "sigrok", tick_ps, interval_ticks, span, volts=volts, conditions=_stated(text)), read)


def _stated(text: str) -> dict[str, object]:
    """Whether the session was made of a model, where Wattbell wrote it."""
    found = re.search(r"^origin=(\w+)$", text, re.MULTILINE)
    return {"virtual": stated_by(found[1])} if found else {}


def _metadata(path: Path, text: str, options: WaveformOptions) -> tuple[float, dict[int, str]]:
    """(samples a second, name of each analog channel). Raises CaptureError."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
        device = dict(parser["device 1"])
    except (configparser.Error, KeyError):
        raise CaptureError(f"{path}: its metadata has no [device 1].") from None
    stated = device.get("samplerate", "").strip()
    if not stated and options.interval_s is None:
        raise CaptureError(
            f"{path} has no times: it states no sample rate, as sessions of meters and supplies do, whose readings come when they come. If "
            "it was asked evenly, state the time between two readings as --interval; else record it with a program that writes a time "
            "beside each reading, as CSV, or with wattbell record --meter scpi:."
        )
    if stated:
        options.refuse_unused(path, interval_s=f"states its sample rate, {stated}")
    else:
        return 1 / (options.interval_s or 1.0), {int(key[6:]): name for key, name in device.items() if re.fullmatch(r"analog\d+", key)}
    match = _RATE.match(stated)
    rate = float(match[1]) * _SCALE[match[2]] if match else 0.0
    if not 0 < rate <= 1e9:
        raise CaptureError(f"{path}: its sample rate is {device.get('samplerate', 'not stated')!r}.")
    return rate, {int(key[6:]): name for key, name in device.items() if re.fullmatch(r"analog\d+", key)}


def _chunks(path: Path, entries: Mapping[str, zipfile.ZipInfo]) -> dict[int, list[zipfile.ZipInfo]]:
    """Chunks of each analog channel in order. Raises CaptureError if one is missing or cut."""
    found: dict[int, dict[int, zipfile.ZipInfo]] = {}
    for name, entry in entries.items():
        match = _CHUNK.match(name)
        if match:
            found.setdefault(int(match[1]), {})[int(match[2] or 1)] = entry
    for channel, chunks in found.items():
        numbers = sorted(chunks)
        if numbers != list(range(1, len(numbers) + 1)):
            missing = next(n for n in range(1, len(numbers) + 2) if n not in chunks)
            raise CaptureError(f"{path}: analog-1-{channel}-{missing} is missing.")
        odd = [chunk.filename for chunk in chunks.values() if chunk.file_size % 4]
        if odd:
            raise CaptureError(f"{path}: {odd[0]} holds no whole number of float32 values.")
    return {channel: [chunks[number] for number in sorted(chunks)] for channel, chunks in found.items()}


def _roles(path: Path, channels: Mapping[str, int], options: WaveformOptions) -> dict[str, tuple[int, float]]:
    """(channel number, factor to SI) by role. Raises CaptureError."""
    roles: dict[str, tuple[int, float]] = {}
    for role in _SI:
        column = options.columns.get(role)
        if column is None:
            same = [name for name in channels if name.lower() == role]
            if same:
                roles[role] = (channels[same[0]], 1.0)
            continue
        if column.name not in channels:
            raise CaptureError(f"{path}: there is no analog channel {column.name}; it has {', '.join(channels) or 'none'}.")
        known = factor(column.unit or _SI[role])
        if known is None or known[0] != role:
            raise CaptureError(f"{path}: {column.unit} is no unit of a {role}.")
        roles[role] = (channels[column.name], known[1])
    if "current" not in roles and "power" not in roles:
        raise CaptureError(
            f"{path}: none of its analog channels ({', '.join(channels) or 'it has none'}) is named current or power; "
            "say which is which with --column current=NAME:A --column voltage=NAME:V."
        )
    return roles


def _values(archive: zipfile.ZipFile, chunks: Sequence[zipfile.ZipInfo]) -> Iterator[F64]:
    for chunk in chunks:
        with archive.open(chunk) as file:
            while data := file.read(_PIECE_BYTES):
                yield np.frombuffer(data, "<f4").astype(np.float64)


def _piece(first: int, parts: Mapping[str, F64], volts: float | None) -> WaveformPiece:
    count = len(next(iter(parts.values())))
    voltage = parts["voltage"] if volts is None else np.full(count, volts)
    current = parts.get("current", np.zeros(count))
    if "power" in parts:
        current = with_power(voltage, current, parts["power"])
    return WaveformPiece(first + np.arange(count, dtype=np.int64), voltage.astype(np.float32), current.astype(np.float32))
