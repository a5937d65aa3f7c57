"""Cross-sections of the board's pairs, and their impedances."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from .field import Conductor, CrossSection, Dielectric, LineConstants, line
from .stackup import Pair, Stackup

__all__ = ["TOLERANCE", "differential", "odd", "section", "spread"]

TOLERANCE = 0.10
"""The fab's, of a controlled impedance. The nominal has to be within 2 % of the target."""


def section(stack: Stackup, pair: Pair, mode: str = "odd", mask: bool = True) -> CrossSection:
    """The right half of a pair. Downwards in the stack is upwards in the section if the reference is above (nothing changes by it)."""
    layer = stack.layer(pair.layer)
    trace = (pair.gap / 2, pair.gap / 2 + pair.width)
    references = [stack.layer(name) for name in pair.reference]
    reach = 8 * max(abs(r.top - layer.top) for r in references) + 4 * (pair.width + pair.gap)
    right = trace[1] + reach
    # y grows upwards: -depth. Planes are the section's lower (and upper) walls.
    lower = max(references, key=lambda r: r.top)
    upper = min(references, key=lambda r: r.top) if len(references) > 1 else None
    outer = layer in (stack.layers[0], stack.layers[-1])
    if layer is stack.layers[-1]:
        raise ValueError("describe pairs of the bottom layer as of the top one: the stack is symmetrical")
    plane = 5e-6
    y0 = -lower.top - plane
    y1 = -layer.top + reach if upper is None else -upper.bottom + plane
    dielectrics = [
        Dielectric(0.0, right, -d.bottom, -d.top, d.epsilon, f"{d.name} {n}")
        for n, d in enumerate(stack.layers)
        if d.kind != "copper" and d.bottom <= lower.top + 1e-12 and (upper is None or d.top >= upper.bottom - 1e-12)
    ]
    # Prepreg flows into the height of the inner copper beside the trace.
    if upper is not None:
        near = min(
            (d for d in stack.layers if d.kind == "prepreg"), key=lambda d: min(abs(d.bottom - layer.top), abs(d.top - layer.bottom))
        )
        dielectrics.append(Dielectric(0.0, right, -layer.bottom, -layer.top, near.epsilon, "resin"))
    if outer and mask:
        surface, top = -layer.bottom, -layer.top
        over, beside = stack.mask_copper, stack.mask_laminate
        dielectrics += [
            Dielectric(0.0, right, surface, surface + beside, stack.mask_epsilon, "mask"),
            Dielectric(max(0.0, trace[0] - over), trace[1] + over, surface, top + over, stack.mask_epsilon, "mask"),
        ]
    conductors = [
        Conductor(trace[0], trace[1], -layer.bottom, -layer.top, 1.0),
        Conductor(0.0, right, y0, -lower.top),
    ]
    if upper is not None:
        conductors.append(Conductor(0.0, right, -upper.bottom, y1))
    return CrossSection(0.0, right, y0, y1, tuple(dielectrics), tuple(conductors), mode)


@lru_cache(maxsize=256)
def _solved(cut: CrossSection, skin: bool) -> LineConstants:
    return line(cut, skin)


def odd(stack: Stackup, pair: Pair, skin: bool = False) -> LineConstants:
    """One trace of the pair in the odd mode."""
    return _solved(section(stack, pair), skin)


def differential(stack: Stackup, pair: Pair) -> float:
    """Differential impedance, ohm, without losses (near 1 GHz the internal inductance adds 1 to 2 %)."""
    return 2 * odd(stack, pair).impedance


def spread(stack: Stackup, pair: Pair, width: float = 2e-5, height: float = 0.1, epsilon: float = 0.2) -> tuple[float, float]:
    """Lowest and highest impedance with etching (``width`` more copper, so much less gap), thickness of the dielectrics (share) and
    permittivity all at their bad ends."""

    def corner(sign: int) -> float:
        top, layers = 0.0, []
        for layer in stack.layers:
            insulator = layer.kind != "copper"
            thickness = layer.thickness * (1 - sign * height if insulator else 1)
            layers.append(replace(layer, top=top, thickness=thickness, epsilon=layer.epsilon + sign * epsilon if insulator else 1.0))
            top += thickness
        return differential(
            replace(stack, layers=tuple(layers)), replace(pair, width=pair.width + sign * width, gap=pair.gap - sign * width)
        )

    return corner(1), corner(-1)
