"""The boards of the coverage runs, and the error terms that such a board states.

The boards are drawn from the designed front end, used at 10 to 40 C, and autozeroed within 1 K.

A capture without a statement is analysed with the front end's goal, 0.1 % + 5 uA, several times the error of these boards. That one term
would make every interval hold, and a run would not test the others.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattbell.capture import Capture
from wattbell.virtual.profiles import find_profile

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "hw/afe/model.toml"
CALIBRATED_C = 25.0
CALIBRATED_A = 3.5
"""The upper point of the coarse current path."""
AUTOZERO_K = 1.0
"""The board's temperature may have changed by so much since its inputs were last shorted (docs/accuracy.md)."""
_PLAIN_SOURCE = 3e-5
"""Relative gain error of the calibrator of the virtual rig's own board, used for drives with a rail other than 3.3 V.

Source: docs/virtual-rig.md.
"""
_OFFSET_A = 1e-6
"""k = 2 in A of an offset after calibration: noise of a conversion averaged over many.

The noise is 0.3 mA, or one code of the plain board (31 uA).
"""


@dataclass(frozen=True)
class Board:
    """``options``: of wattbell-rig. ``gain``, ``offset_a``: k = 2, as in ``rig.error_model``."""

    options: tuple[str, ...]
    gain: float
    offset_a: float

    def state(self, capture: Capture) -> Capture:
        """Return the capture with the error terms of its rig."""
        conditions: dict[str, Any] = capture.meta.get("conditions") or {}
        delay: dict[str, Any] = {name: conditions[name] for name in ("front_end_delay_s", "front_end_delay_u_s") if name in conditions}
        stated: dict[str, Any] = {"gain": self.gain, "offset_a": self.offset_a, "timebase": 0.0, "instant_s": 0.0, **delay}
        rig: dict[str, Any] = capture.meta.get("rig") or {}
        capture.meta["rig"] = {**rig, "error_model": stated, "accuracy": "of a board of the design, autozeroed"}
        return capture


def supply_is_high(profile: str) -> bool:
    """Whether a drive's rail is not 3.3 V, for which the designed front end is."""
    text = find_profile(profile).read_text()
    return "supply_v" in text and "supply_v = { value = 3.3" not in text


def board(seed: int, profile: str, folder: Path) -> Board:
    """The board of workload ``seed``. Writes the front end's file to ``folder``."""
    if supply_is_high(profile):
        return Board((), 2 * math.hypot(_PLAIN_SOURCE, _PLAIN_SOURCE), _OFFSET_A)
    temperature = 10 + seed % 31
    warmer = abs(temperature - CALIBRATED_C)
    text = MODEL.read_text()
    about = tomllib.loads(text)
    left = min(1.0, AUTOZERO_K / max(warmer, AUTOZERO_K))  # of the offset's drift, as the rig multiplies it by the whole difference
    drifts = {part["offset_tc_sigma"] for part in about.values() if "offset_tc_sigma" in part}
    for drift in drifts:
        text = text.replace(f"offset_tc_sigma = {drift!r}", f"offset_tc_sigma = {drift * left!r}")
    file = folder / "front-end.toml"
    file.write_text(text)
    kept = {part.get("offset_tc_sigma") for part in tomllib.loads(text).values()} - {None}
    if warmer > AUTOZERO_K and kept & drifts:
        raise SystemExit(f"energy: {MODEL} is written in another way than this expects")
    common, coarse, volts, source = (about[name] for name in ("common", "coarse", "voltage", "calibrator"))
    # The factory's upper point warmed the shunt, which a drive hardly does.
    heated = common["shunt_ohm"] * common["shunt_heating_k_per_w"] * CALIBRATED_A**2
    apart = max(warmer, abs(temperature - CALIBRATED_C - heated))
    drift = math.hypot(common["gain_tc_sigma"], coarse["gain_tc_sigma"], volts["gain_tc_sigma"]) * apart
    gain = 2 * math.hypot(source["current_gain_sigma"], source["voltage_gain_sigma"], drift)
    moved_a = 2 * math.hypot(common["offset_tc_sigma"], coarse["offset_tc_sigma"]) * min(warmer, AUTOZERO_K)
    offset_a = math.hypot(_OFFSET_A, moved_a)
    return Board(("--afe", str(file), "--temperature", str(temperature)), gain, offset_a)
