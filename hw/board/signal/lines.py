"""Lossy lines as S-parameters: causal dielectric, skin effect, rough copper.

- Permittivity: log-uniform relaxations between ``M1`` and ``M2``; given by value and loss tangent at 1 GHz. Source: Djordjevic, Biljic,
  Likar-Smiljanic, Sarkar, "Wideband frequency-domain characterization of FR-4 and time-domain causality", IEEE Trans. EMC 43 (2001).
- Resistance: surface resistance times the field solver's factor (Wheeler), and the DC resistance joined in squares. The internal
  inductance that causality demands is included; its reactance is the same number of ohms.
- Roughness: Hammerstad's 1 + 2 / pi atan(1.4 (Delta / delta)^2) on the skin resistance: at most twice. Above 10 GHz it saturates where real
  foil goes on (Huray); said in docs/signal.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import skrf
from skrf.media import DefinedGammaZ0

from .field import MU_0, LineConstants
from .impedance import odd
from .stackup import Pair, Stackup

__all__ = ["RlgcLine", "of_pair", "permittivity"]

AT_HZ = 1e9
M1_HZ, M2_HZ = 1e4, 1e12


def permittivity(f: np.ndarray, epsilon: float, loss_tangent: float) -> np.ndarray:
    """Complex relative permittivity at ``f`` (Hz, positive) of a dielectric of ``epsilon`` and ``loss_tangent`` at 1 GHz."""

    def logarithm(x: np.ndarray | float) -> np.ndarray:
        return np.log((M2_HZ + 1j * np.asarray(x)) / (M1_HZ + 1j * np.asarray(x)))

    at = logarithm(AT_HZ)
    slope = -epsilon * loss_tangent / at.imag
    infinity = epsilon - slope * at.real
    return np.asarray(infinity + slope * logarithm(f))


@dataclass(frozen=True)
class RlgcLine:
    """One trace of a pair in the odd mode with the materials' losses; as a two-port it is the pair, at twice the impedance."""

    line: LineConstants
    loss_tangents: dict[str, float]
    epsilons: dict[str, float]
    conductivity: float
    roughness: float
    dc_resistance: float
    """ohm/m, of one trace."""

    def rlgc(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Series impedance and shunt admittance per metre of one trace."""
        w = 2 * np.pi * f
        depth = np.sqrt(2 / (w * MU_0 * self.conductivity))
        rough = 1 + 2 / np.pi * np.arctan(1.4 * (self.roughness / depth) ** 2)
        skin = self.line.skin * rough / (self.conductivity * depth)
        # Causal join of DC and skin resistance: sqrt(R0^2 + (skin (1 + j))^2) is R0 at DC and skin (1 + j) at high frequencies.
        series = np.sqrt(self.dc_resistance**2 + (skin * (1 + 1j)) ** 2)
        relative = np.full(f.shape, 1.0 - sum(self.line.shares.values()), dtype=complex)
        for name, share in self.line.shares.items():
            relative = relative + share * permittivity(f, self.epsilons[name], self.loss_tangents[name]) / self.epsilons[name]
        return series + 1j * w * self.line.inductance, 1j * w * self.line.capacitance * relative

    def network(self, frequency: skrf.Frequency, length: float, z0: float = 85.0, name: str | None = None) -> skrf.Network:
        """The pair of ``length`` m as a differential two-port, referred to ``z0`` ohm."""
        z, y = self.rlgc(np.maximum(frequency.f, 1.0))
        media = DefinedGammaZ0(frequency, gamma=np.sqrt(z * y), z0=2 * np.sqrt(z / y), z0_port=z0)
        return media.line(length, unit="m", name=name)

    def loss_db(self, f: float, length: float = 1.0) -> float:
        """Matched loss of ``length`` m at ``f`` Hz."""
        z, y = self.rlgc(np.array([f]))
        return float(8.685889638 * np.sqrt(z * y).real[0] * length)


def of_pair(stack: Stackup, pair: Pair) -> RlgcLine:
    """The line of a pair of the stack-up."""
    line = odd(stack, pair, skin=True)
    tangents, epsilons = {"mask": stack.mask_loss_tangent}, {"mask": stack.mask_epsilon}
    for n, layer in enumerate(stack.layers):
        tangents[f"{layer.name} {n}"], epsilons[f"{layer.name} {n}"] = layer.loss_tangent, layer.epsilon
    tangents["resin"], epsilons["resin"] = 0.02, 3.5
    dc = 1 / (stack.conductivity * pair.width * stack.layer(pair.layer).thickness)
    return RlgcLine(line, tangents, epsilons, stack.conductivity, stack.roughness, dc)
