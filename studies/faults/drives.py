"""Drives that keep their declarations: profiles of the SSD model, drawn around built-in ones. A fault comes later, into the trace."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

BASES = ("intel-660p-1tb", "samsung-970-evo-plus", "wd-sn750", "crucial-p1-1tb")
WARNING_C, CRITICAL_C = 77, 85
OFFERS = ("power_measurement", "smart_power", "latency_monitor", "power_threshold")
SET_OUT_US = 250
"""Longest time in which a modelled drive sets out for a state behind the last command, with its link's way into L1.2."""
Profile = dict[str, Any]


def _given(value: object) -> dict[str, object]:
    return {"value": value, "source": "assumed: drawn by studies/faults/drives.py"}


def draw(profiles: Path, seed: int) -> Profile:
    """Return the profile of a drive. Its powers and latencies vary, and its declarations are drawn to hold for them."""
    random = np.random.default_rng([47, seed])
    made: Profile = tomllib.loads((profiles / f"{BASES[seed % len(BASES)]}.toml").read_text())
    made["identity"]["serial"] = _given(f"DRAWN{seed:08d}")
    made.setdefault("limits", {})
    made["limits"]["warning_temperature_c"], made["limits"]["critical_temperature_c"] = _given(WARNING_C), _given(CRITICAL_C)
    made.setdefault("offer", {}).update({name: _given(True) for name in OFFERS})
    for name in ("hctm_minimum_c", "hctm_maximum_c"):
        made["offer"].pop(name, None)
    power = made["power"] = {**tomllib.loads((profiles / "common.toml").read_text()).get("power", {}), **made["power"]}
    for key in ("core_active_w", "link_l0_w", "data_path_w", "die_program_slc_w"):
        if key in power:
            power[key] = _given(round(float(power[key]["value"]) * float(random.uniform(0.8, 1.25)), 5))
    asleep = float(power["link_l1_2_w"]["value"])
    below = float("inf")
    for state in made["power_state"]:
        if state["operational"]:
            continue
        real_w = min(float(state["core_w"]["value"]) * float(random.uniform(0.8, 1.25)), below)
        below = 0.8 * real_w
        entry, leave = (float(state[f"real_{way}_us"]["value"]) * float(random.uniform(0.6, 1.1)) for way in ("entry", "exit"))
        state["core_w"] = _given(round(real_w, 6))
        # a descriptor has steps of 0.1 mW, and here of 1 us
        state["max_w"] = _given(round((real_w + asleep) * float(random.uniform(1.03, 1.3)) + 2e-4, 4))
        state["real_entry_us"], state["real_exit_us"] = _given(round(entry)), _given(round(leave))
        state["entry_us"] = _given(round(entry * float(random.uniform(1.02, 1.3))) + SET_OUT_US)
        state["exit_us"] = _given(round(leave * float(random.uniform(1.15, 1.5))) + 50)
    return made


def slow(profile: Profile) -> None:
    """Make each read of the flash take about 7.5 ms: latencies lie between the thresholds of a latency monitor."""
    profile["flash"].update(
        {name: _given(7500) for name in ("read_slc_us", "read_dense_us")}, read_spread=_given(0.02), read_ahead_kib=_given(0)
    )


def write(profile: Profile, path: Path) -> None:
    """Write a profile as TOML."""
    lines: list[str] = [f"{key} = {json.dumps(value)}" for key, value in profile.items() if not isinstance(value, dict | list)]
    for name, table in profile.items():
        for one in table if isinstance(table, list) else [table] if isinstance(table, dict) else []:
            lines.append(f"\n[[{name}]]" if isinstance(table, list) else f"\n[{name}]")
            lines += [f"{key} = {_inline(value)}" for key, value in one.items()]
    path.write_text("\n".join(lines) + "\n")


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def states(profile: Profile, operational: bool) -> list[int]:
    """Return the numbers of the states of one kind."""
    return [k for k, one in enumerate(profile["power_state"]) if one["operational"] is operational]


def declared(profile: Profile, state: int, key: str) -> float:
    """Return a declaration of a state: ``max_w``, ``entry_us``, ``exit_us``."""
    return float(profile["power_state"][state][key]["value"])
