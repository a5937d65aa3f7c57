"""Eyes of every case compared with their limits, and the cost of the interposer and the tap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .channel import Channel, Model
from .eye import BER, PRESETS, Eye, ReceiverModel, Transmitter, eye, opening, total_jitter

__all__ = ["HOSTS", "RATES", "Case", "Levels", "at_fpga", "at_receiver", "at_tap", "levels", "reach", "wander"]

RATES = ("g2_5", "g5", "g8", "g16")
HOSTS = ("near", "typical", "far")
DC_GAINS = range(-12, -5)


@dataclass(frozen=True)
class Case:
    """An eye and its limits; heights in V, widths in UI."""

    what: str
    rate: str
    host: str
    to_drive: bool
    eye: Eye
    height_limit: float
    width_limit: float

    @property
    def passed(self) -> bool:
        return self.eye.height >= self.height_limit and self.eye.width >= self.width_limit


def _rate(values: dict[str, dict[str, Any]], rate: str) -> tuple[dict[str, Any], float, tuple[float, float]]:
    r = values[f"rate.{rate}"]
    ui = 1e-9 / r["gigatransfers"]
    sigma = r["random_jitter"] * 1e-12
    dirac = r["total_jitter"] * ui - total_jitter(0.0, sigma)
    return r, ui, (max(0.0, dirac), sigma)


def _aggressors(values: dict[str, dict[str, Any]], swing: float, sockets: int) -> tuple[float, ...]:
    return (swing / 2 * 10 ** (values["socket"]["crosstalk_db"] / 20),) * (2 * sockets)


def _transmitter(values: dict[str, dict[str, Any]], rate: str, swing: float | None = None) -> Transmitter:
    r = values[f"rate.{rate}"]
    taps = Transmitter.deemphasis(r["deemphasis_db"]) if "deemphasis_db" in r and swing is None else (0.0, 0.0)
    return Transmitter((r["swing"] if swing is None else swing) * 1e-3, r["rise"] * 1e-12, taps)


def at_receiver(model: Model, channel: Channel, rate: str, host: str = "", to_drive: bool = True, sockets: int = 2) -> Case:
    """Eye at the receiver's pins at 2.5 and 5 GT/s; behind the reference equaliser at 8 and 16, the best preset and DC gain chosen."""
    r, ui, jitter = _rate(model.values, rate)
    tx, rx = _transmitter(model.values, rate), ReceiverModel()
    if "ctle_pole1" in r:
        dfe = tuple(limit * 1e-3 for limit in r["dfe"])
        choices = [
            (Transmitter(tx.swing, tx.rise, taps), ReceiverModel(float(gain), r["ctle_pole1"] * 1e9, r["ctle_pole2"] * 1e9, dfe))
            for taps in PRESETS.values()
            for gain in DC_GAINS
        ]
        tx, rx = max(choices, key=lambda c: opening(channel.f, channel.receiver, ui, *c))
    found = eye(channel.f, channel.receiver, ui, tx, rx, jitter, aggressors=_aggressors(model.values, tx.swing, sockets))
    return Case("receiver", rate, host, to_drive, found, r["height"] * 1e-3, r["width"])


def at_tap(model: Model, channel: Channel, rate: str, host: str = "", to_drive: bool = True, swing: float | None = None) -> Case:
    """Eye at the amplifier's input; the width is where the opening is at least its sensitivity. ``swing`` in mV, without de-emphasis:
    the half swing that a host may be set to."""
    if channel.tap is None:
        raise ValueError("this channel has no tap")
    r, ui, jitter = _rate(model.values, rate)
    a = model.values["amplifier"]
    tx = _transmitter(model.values, rate, swing)
    lost = 10 ** (np.interp(1e9 * r["gigatransfers"] / 4, channel.f, 20 * np.log10(np.abs(channel.tap))) / 20)
    aggressors = tuple(x * lost for x in _aggressors(model.values, r["swing"] * 1e-3, 1))
    found = eye(channel.f, channel.tap, ui, tx, ReceiverModel(), jitter, aggressors=aggressors, threshold=a["sensitivity"] * 1e-3)
    width = model.values["fpga"][f"width_{'2g5' if rate == 'g2_5' else '5g'}"]
    # The rest of the bit for the amplifier's own jitter and the trace to the FPGA.
    return Case("tap", rate, host, to_drive, found, a["sensitivity"] * 1e-3 * (1 + wander(model, rate)), width)


def at_fpga(model: Model, tap: Case) -> tuple[float, float, float, float]:
    """Return height (V) and width (UI) at the FPGA behind the limiting amplifier, and their limits.

    If the amplifier's input is open by its sensitivity, its output has its full swing. Three times are subtracted from the bit one after
    the other: the time outside that opening, the amplifier's own jitter, and the trace's interference.
    """
    _, ui, _ = _rate(model.values, tap.rate)
    a, fpga = model.values["amplifier"], model.values["fpga"]
    line = model.line("lvds", fpga["trace"]) ** model.shunt_c(fpga["input_capacitance"])
    line.renormalize(100.0)
    found = eye(line.f, line.s[:, 1, 0], ui, Transmitter(a["output"] * 1e-3, 30e-12))
    jitter = a["deterministic_jitter"] * 1e-12 + total_jitter(0.0, a["random_jitter"] * 1e-12)
    width = tap.eye.width - jitter / ui - (1 - min(1.0, found.width))
    suffix = "2g5" if tap.rate == "g2_5" else "5g"
    return (found.height if tap.eye.height > 0 else 0.0), max(0.0, width), fpga[f"minimum_{suffix}"] * 1e-3, fpga[f"width_{suffix}"]


def wander(model: Model, rate: str) -> float:
    """Return the share of the amplitude by which the capacitor at the amplifier lets the level sag.

    8b/10b's running sum stays within six bits. The time constant is of the capacitor with tap resistor, input and half the pair.
    """
    t, a = model.values["tap"], model.values["amplifier"]
    tau = (t["resistance"] + a["input_resistance"] / 2 + 85.0 / 4) * t["ac_capacitor"] * 1e-12
    return float(6 * 1e-9 / model.values[f"rate.{rate}"]["gigatransfers"] / tau)


@dataclass(frozen=True)
class Levels:
    """Peak to peak at the amplifier's input, V: the rest of electrical idle, and the least signal."""

    idle: float
    signal: float


def levels(model: Model, channels: list[Channel]) -> Levels:
    """Idle with the greatest transfer of all channels, signal with the least (5 GT/s, worst pattern, half swing)."""
    idle = max(float(np.max(np.abs(c.tap[: round(2.5e9 / c.f[0])]))) for c in channels if c.tap is not None)
    swing = model.values["rate.g5"]["swing"] / 2
    least = min(at_tap(model, c, "g5", swing=swing).eye.worst for c in channels)
    return Levels(idle * model.values["idle"]["residue"] * 1e-3, least)


def reach(model: Model, rate: str, longest: float = 900.0, **options: Any) -> tuple[float, float]:
    """Return the longest host trace (mm) at which both directions still meet the receiver's limits, and that channel's loss.

    The loss is in dB at the Nyquist frequency without the interposer. ``options`` as in :meth:`Model.channel`.
    """
    sockets = 2 if options.get("interposer", True) else 1

    def holds(mm: float) -> bool:
        return all(
            at_receiver(model, model.channel(mm, to_drive=to_drive, **options), rate, sockets=sockets).passed for to_drive in (True, False)
        )

    low, high = 0.0, longest
    if not holds(low):
        return 0.0, math.nan
    if holds(high):
        low = high
    while high - low > 10.0:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    nyquist = model.values[f"rate.{rate}"]["gigatransfers"] * 0.5e9
    return low, model.channel(low, interposer=False).loss_db(nyquist)


assert BER == 1e-12  # the transmitters' jitters in channel.toml are totals at this rate
