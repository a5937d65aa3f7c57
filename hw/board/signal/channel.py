"""The channel as S-parameters (scikit-rf): host - socket - edge fingers - our pair - tap - socket - drive, both directions.

Everything is differential: conversion between modes is not modelled. ``channel.toml`` has every figure.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import skrf
from skrf.media import DefinedGammaZ0
from skrf.network import a2s, connect

from .field import SPEED_OF_LIGHT
from .impedance import differential
from .lines import of_pair
from .stackup import Pair, Stackup

__all__ = ["PATH", "Channel", "Model", "figures", "fingers"]

PATH = Path(__file__).with_name("channel.toml")
REFERENCE = 85.0
TERMINATION = 100.0
KINDS = {"design", "limit", "max", "typ", "assumed"}


def figures(path: Path = PATH) -> dict[str, dict[str, Any]]:
    """Values of ``channel.toml`` by table and key (``rate.g5`` is a table). Raises ``ValueError`` for a figure without a source."""
    data = tomllib.loads(path.read_text())
    sources = data.pop("sources")
    tables = {f"rate.{name}": table for name, table in data.pop("rate").items()} | data
    for name, table in tables.items():
        for key, figure in table.items():
            if figure.get("source") not in sources or figure.get("kind") not in KINDS:
                raise ValueError(f"{path.name}: {name}.{key}: no source or kind")
    return {name: {key: figure["value"] for key, figure in table.items()} for name, table in tables.items()}


def fingers(stack: Stackup, width: float, pitch: float, reference: str) -> Pair:
    """A pair of pads or fingers over the first plane that is not cut out, as a cross-section."""
    return Pair("fingers", "F.Cu", (reference,), width, pitch - width, pitch - width, REFERENCE)


@dataclass(frozen=True)
class Channel:
    """Voltage transfers from a matched transmitter's swing, at ``f`` Hz: to the far receiver, and (with a tap) to the amplifier."""

    f: np.ndarray
    receiver: np.ndarray
    tap: np.ndarray | None
    network: skrf.Network
    """Transmitter, receiver, and with a tap its amplifier: all ports 100 ohm differential."""

    def loss_db(self, f: float) -> float:
        return float(-20 * np.log10(np.interp(f, self.f, np.abs(self.receiver))))


class Model:
    """Builds channels of one stack-up and one set of figures."""

    def __init__(self, stack: Stackup, values: dict[str, dict[str, Any]], finger_reference: str = "In3.Cu", stop: float = 40e9) -> None:
        self.stack, self.values, self.finger_reference = stack, values, finger_reference
        self.frequency = skrf.Frequency(10e6, stop, round(stop / 10e6), unit="Hz")
        self.media = DefinedGammaZ0(self.frequency, z0=REFERENCE)

    def line(self, pair: str, mm: float) -> skrf.Network:
        return self._lines[pair].network(self.frequency, mm * 1e-3, REFERENCE)

    @cached_property
    def _lines(self) -> dict[str, Any]:
        return {name: of_pair(self.stack, pair) for name, pair in self.stack.pairs.items()}

    def shunt_c(self, pf_a_leg: float) -> skrf.Network:
        return self.media.shunt_capacitor(pf_a_leg * 0.5e-12)

    @cached_property
    def pads(self) -> tuple[skrf.Network, skrf.Network]:
        """Edge fingers; pads of the drive's socket."""
        board = self.values["board"]
        made = []
        for width, length in ((board["finger_width"], board["finger_length"]), (board["pad_width"], board["pad_length"])):
            pair = fingers(self.stack, width * 1e-3, board["finger_pitch"] * 1e-3, self.finger_reference)
            made.append(of_pair(self.stack, pair).network(self.frequency, length * 1e-3, REFERENCE))
        return made[0], made[1]

    def pad_impedance(self) -> float:
        """Differential impedance of the edge fingers over their plane."""
        board = self.values["board"]
        return differential(
            self.stack, fingers(self.stack, board["finger_width"] * 1e-3, board["finger_pitch"] * 1e-3, self.finger_reference)
        )

    @cached_property
    def socket(self) -> skrf.Network:
        s = self.values["socket"]
        f = self.frequency.f
        alpha = s["loss_db_8ghz"] / 8.685889638 / (s["length"] * 1e-3) * np.sqrt(f / 8e9)
        # A loss by the root of f comes with as much phase: minimum phase, as of a skin effect.
        gamma = alpha * (1 + 1j) + 2j * np.pi * f * np.sqrt(s["epsilon"]) / SPEED_OF_LIGHT
        return DefinedGammaZ0(self.frequency, gamma=gamma, z0=s["impedance"], z0_port=REFERENCE).line(s["length"] * 1e-3, unit="m")

    def end(self, side: str, trace: float) -> skrf.Network:
        """Network from the die's pads to the board's socket: port 0 is the die."""
        v = self.values[side]
        return self.shunt_c(v["die_capacitance"]) ** self.line("pcie", v["package"]) ** self.line("pcie", trace)

    def tap(self, resistance: float | None = None) -> skrf.Network:
        """Network from the pair to the amplifier's inputs (port 1, its 100 ohm not included)."""
        t, a = self.values["tap"], self.values["amplifier"]
        r = t["resistance"] if resistance is None else resistance
        w = 2 * np.pi * self.frequency.f
        z = 1 / (1 / (2 * r + 2j * w * t["resistor_inductance"] * 1e-9) + 1j * w * t["resistor_capacitance"] * 0.5e-12)
        series = self.media.line(0, unit="m").copy()
        series.s = a2s(
            np.moveaxis(np.array([[np.ones_like(z), z], [np.zeros_like(z), np.ones_like(z)]]), 2, 0), np.full((len(z), 2), REFERENCE)
        )
        pad = self.shunt_c(t["pad_capacitance"])
        capacitor = self.media.capacitor(t["ac_capacitor"] * 0.5e-12)
        # To the back and up again: half of the barrel's capacitance before and half behind its inductance.
        barrel = self.shunt_c(t["via_capacitance"] / 2)
        via = barrel ** self.media.inductor(2 * t["via_inductance"] * 1e-9) ** barrel
        return (
            pad
            ** self.line("pcie", t["stub"])
            ** series
            ** pad
            ** via
            ** self.line("tap", t["trace"])
            ** via
            ** capacitor
            ** self.shunt_c(a["input_capacitance"])
        )

    def channel(
        self,
        host_mm: float,
        to_drive: bool = True,
        interposer: bool = True,
        resistance: float | None = None,
        tapped: bool = True,
        lanes23: bool = False,
    ) -> Channel:
        """``tapped``: build T's lanes 0 and 1; else build P. ``lanes23``: with the links of lanes 2 and 3 (build P)."""
        b = self.values["board"]
        host = self.end("host", host_mm) ** self.socket ** self.pads[0]
        drive = self.end("drive", self.values["drive"]["trace"])
        if not interposer:
            return self._two(host, drive, to_drive)
        if not tapped and lanes23:
            link = (
                self.shunt_c(b["link_capacitance"])
                ** self.media.inductor(2 * b["link_inductance"] * 1e-9)
                ** self.shunt_c(b["link_capacitance"])
            )
        else:
            link = None
        # Seen from the middle: host's half ends, drive's half begins, where the tap sits.
        near = host ** self.line("pcie", b["pair_before"])
        if link is not None:
            near = near**link
        far = self.line("pcie", b["pair_after"]) ** self.pads[1] ** self.socket ** self.pads[0] ** drive.flipped()
        if not tapped:
            return self._two(near, far.flipped(), to_drive)
        first, second = (near, far.flipped()) if to_drive else (far.flipped(), near)
        # A two-port joined to a port of a three-port leaves its other end in that port's place.
        joined = connect(first, 1, self.media.splitter(3), 0)
        joined = connect(joined, 1, second, 1)
        whole = connect(joined, 2, self.tap(resistance), 0)
        whole.renormalize(TERMINATION)
        return Channel(self.frequency.f, whole.s[:, 1, 0], whole.s[:, 2, 0], whole)

    def _two(self, near: skrf.Network, far: skrf.Network, to_drive: bool) -> Channel:
        whole = near ** far.flipped()
        if not to_drive:
            whole = whole.flipped()
        whole.renormalize(TERMINATION)
        return Channel(self.frequency.f, whole.s[:, 1, 0], None, whole)
