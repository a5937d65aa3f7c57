"""A drive's own declarations, as a run recorded them: power states and features.

``drive`` of ``results.json`` holds the data that :mod:`wattbell.capture.identify` read from Identify Controller on the wire.
``drive.features`` may add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .model import Run

ALIASES: dict[str, tuple[str, ...]] = {
    "controller": ("controller", "controller_name"),
    "firmware": ("firmware",),
    "nvme_version": ("nvme_version", "version"),
    "apst": ("apst", "apsta"),
    "warning_c": ("warning_c", "warning_temperature_c"),
    "critical_c": ("critical_c", "critical_temperature_c"),
    "hctm": ("hctm", "hctma"),
    "nopspm": ("nopspm", "non_operational_permissive_mode"),
    "hmb": ("hmb", "hmb_preferred_bytes"),
    "write_cache": ("write_cache", "volatile_write_cache", "vwc"),
}
"""Name of a feature, and the keys it may stand under."""


_MOST = 1e9
"""W, s or us: no drive declares more, and JSON's whole numbers know no end."""


@dataclass(frozen=True)
class PowerStateDescriptor:
    """A power state descriptor. Latencies in s, ``idle_w`` IDLP, ``active_w`` ACTP under the workload ``workload`` (APW); None if the
    drive reports nothing."""

    number: int
    operational: bool
    max_w: float | None
    entry_s: float | None
    exit_s: float | None
    idle_w: float | None = None
    active_w: float | None = None
    workload: int | None = None


def _first(state: Mapping[str, Any], *keys: tuple[str, float]) -> float | None:
    for key, scale in keys:
        value = state.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _MOST:
            return float(value) * scale
    return None


def power_states(run: Run) -> list[PowerStateDescriptor]:
    """The declared power states, in the order of their numbers; empty if the run recorded none."""
    return descriptors(run.drive)


def descriptors(drive: Mapping[str, Any]) -> list[PowerStateDescriptor]:
    """Return the declared power states of ``drive`` of a document, in the order of their numbers; empty if it has none."""
    found = drive.get("power_states")
    out = []
    for i, state in enumerate(found if isinstance(found, list) else []):
        if not isinstance(state, Mapping):
            continue
        number = _first(state, ("state", 1.0), ("ps", 1.0))
        operational = state["operational"] if "operational" in state else not state.get("non_operational")
        latency = [
            _first(state, (f"{way}_latency_s", 1.0), (f"{way}_s", 1.0), (f"{way}_us", 1e-6), (f"{way}_latency_us", 1e-6))
            for way in ("entry", "exit")
        ]
        watt = _first(state, ("max_power_w", 1.0), ("max_w", 1.0))
        workload = _first(state, ("active_power_workload", 1.0))
        out.append(
            PowerStateDescriptor(
                i if number is None else int(number),
                bool(operational),
                watt,
                latency[0],
                latency[1],
                _first(state, ("idle_power_w", 1.0)),
                _first(state, ("active_power_w", 1.0)),
                None if workload is None else int(workload),
            )
        )
    return sorted(out, key=lambda state: state.number)


def feature(run: Run, name: str) -> Any:
    """A declared feature by its name in :data:`ALIASES`, or the number of (non-)operational states; None if unknown."""
    states = power_states(run)
    if name in ("operational_states", "non_operational_states"):
        return sum(s.operational == (name == "operational_states") for s in states) if states else None
    features = run.drive.get("features")
    for place in (features if isinstance(features, Mapping) else {}, run.drive):
        for key in ALIASES.get(name, (name,)):
            if place.get(key) is not None:
                return place[key]
    return None
