"""The drive's own account of its temperature and health, read while it works and never while it must be left alone.

Every reading is a Get Log Page command, which wakes a sleeping drive. hwmon's files do not avoid this: the kernel's driver sends the same
command. So there is no reading during or right before an idle time, a wake-up or the wait for rest. There, only answers to the test's own
requests may wake the drive. Readings use the admin queue, and count in no figure of I/O.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..errors import DriveError
from ..suites.health import FILE, HealthReading, Record
from .device import Device
from .tools import WHICH_NVME, Tools

PERIOD_S = 1.0
_ZERO_C_K = 273
"""Kelvins at 0 degrees Celsius: the log page has whole kelvins, and drives use 273."""
_KNOWN = {
    "critical_warning": ("critical_warning",),
    "available_spare_percent": ("avail_spare", "available_spare"),
    "percentage_used": ("percent_used", "percentage_used"),
    "media_errors": ("media_errors",),
    "unsafe_shutdowns": ("unsafe_shutdowns",),
    "error_log_entries": ("num_err_log_entries",),
    "warning_min": ("warning_temp_time",),
    "critical_min": ("critical_comp_time", "critical_temp_time"),
    "light_count": ("thm_temp1_trans_count",),
    "heavy_count": ("thm_temp2_trans_count",),
    "light_s": ("thm_temp1_total_time",),
    "heavy_s": ("thm_temp2_total_time",),
}
"""Names of the fields in the versions of nvme-cli.

Numbers are whole, fractions (1.x: a double) or text (beyond 64 bits). The warning is a number or a table with its ``value``. All may be
below the device's name.
"""


def parse(said: str, at_ns: int, phases: int, during: bool = False) -> HealthReading:
    """A reading from the JSON of ``nvme smart-log``. Raises DriveError when it makes no sense."""
    try:
        tree = msgspec.json.decode(said)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DriveError(f"nvme smart-log gave no JSON ({error}): {WHICH_NVME}.") from None
    below = list(tree.values()) if isinstance(tree, dict) else []
    log: dict[str, Any] | None = next((t for t in (tree, *below) if isinstance(t, dict) and "temperature" in t), None)
    if log is None:
        raise DriveError(f"nvme smart-log gave no temperature: {WHICH_NVME}.")
    if isinstance(log.get("critical_warning"), dict):
        log = {**log, "critical_warning": log["critical_warning"].get("value")}
    found: dict[str, Any] = {key: value for key, names in _KNOWN.items() if (value := _first(log, names)) is not None}
    sensors = [c for k in range(1, 9) if (c := _celsius(log.get(f"temperature_sensor_{k}"))) is not None]
    return HealthReading(
        at_ns=at_ns, phases=phases, during=during, temperature_c=_celsius(log["temperature"]), sensors_c=tuple(sensors), **found
    )


def _first(log: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((number for name in names if (number := _whole(log.get(name))) is not None), None)


def _whole(value: Any) -> int | None:
    """Return a count, if the value is one: below 2^63, which no drive lives to see."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 40:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    return int(value)


def _celsius(kelvin: Any) -> float | None:
    """0 K is how a drive says that it has no such sensor."""
    number = _whole(kelvin)
    return None if not number else float(number - _ZERO_C_K)


class HealthWatch:
    """Reads the log page between phases, and once a second within those that work; ``folder`` gets ``health.json``.

    A drive or an nvme-cli that does not answer ends the readings, not the run; the file says why.
    """

    def __init__(self, device: Device, tools: Tools, folder: Path, period_s: float = PERIOD_S) -> None:
        self._device, self._tools, self._file, self._period_s = device, tools, folder / FILE, period_s
        self._readings: list[HealthReading] = []
        self._absent = ""

    @property
    def record(self) -> Record:
        """The readings so far."""
        return Record(tuple(self._readings), self._absent)

    def between(self, phases: int) -> None:
        """Read once, after ``phases`` phases, and write the file."""
        self._read(phases, during=False)
        self._write()

    @contextlib.contextmanager
    def during(self, phases: int) -> Iterator[None]:
        """Read once a second within the block; the first time after a second, so that a short burst is left alone."""
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(self._period_s) and not self._absent:
                self._read(phases, during=True)

        thread = threading.Thread(target=watch, name="health", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self._write()

    def _write(self) -> None:
        self._file.write_bytes(msgspec.json.encode(self.record))

    def _read(self, phases: int, *, during: bool) -> None:
        if self._absent:
            return
        try:
            said = self._tools.run("nvme", "smart-log", self._device.character_device, "--output-format=json", timeout_s=30)
            reading = parse(said, time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), phases, during)
        except DriveError as error:
            self._absent = str(error)
            return
        self._readings.append(reading)


__all__ = ["HealthWatch", "parse"]
