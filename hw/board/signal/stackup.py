"""``layout/stackup.toml``: layers and pairs."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PATH", "Layer", "Pair", "Stackup", "load"]

PATH = Path(__file__).parents[1] / "layout" / "stackup.toml"


@dataclass(frozen=True)
class Layer:
    """``top`` and ``thickness`` in m, ``top`` counted downwards from the upper face of the top copper."""

    kind: str
    name: str
    top: float
    thickness: float
    epsilon: float = 1.0
    loss_tangent: float = 0.0
    use: str = ""

    @property
    def bottom(self) -> float:
        return self.top + self.thickness


@dataclass(frozen=True)
class Pair:
    """Copper of a class of differential pairs, in m."""

    name: str
    layer: str
    reference: tuple[str, ...]
    width: float
    gap: float
    between: float
    target: float
    """Differential impedance, ohm."""


@dataclass(frozen=True)
class Stackup:
    name: str
    layers: tuple[Layer, ...]
    pairs: dict[str, Pair]
    mask_laminate: float
    mask_copper: float
    mask_epsilon: float
    mask_loss_tangent: float
    roughness: float
    """RMS, m."""
    conductivity: float
    """S/m."""

    @property
    def thickness(self) -> float:
        """Thickness in m without solder mask, as at the edge fingers."""
        return self.layers[-1].bottom

    def layer(self, name: str) -> Layer:
        """The copper layer of that name."""
        return next(layer for layer in self.layers if layer.kind == "copper" and layer.name == name)


def load(path: Path = PATH) -> Stackup:
    """Raises ``ValueError`` where a figure names no source of the file, or a pair a layer that does not exist."""
    data = tomllib.loads(path.read_text())
    layers: list[Layer] = []
    top = 0.0
    for entry in data["layer"]:
        if entry["source"] not in data["sources"]:
            raise ValueError(f"{path.name}: layer {entry['name']}: no source {entry['source']!r}")
        thickness = entry["thickness"] * 1e-3
        layers.append(
            Layer(
                entry["kind"],
                entry["name"],
                top,
                thickness,
                entry.get("epsilon", 1.0),
                entry.get("loss_tangent", 0.0),
                entry.get("use", ""),
            )
        )
        top += thickness
    names = {layer.name for layer in layers if layer.kind == "copper"}
    pairs = {}
    for name, entry in data["pair"].items():
        if missing := {entry["layer"], *entry["reference"]} - names:
            raise ValueError(f"{path.name}: pair {name}: no copper layer {', '.join(sorted(missing))}")
        pairs[name] = Pair(
            name,
            entry["layer"],
            tuple(entry["reference"]),
            entry["width"] * 1e-3,
            entry["gap"] * 1e-3,
            entry["between"] * 1e-3,
            entry["target_ohm"],
        )
    mask, copper = data["mask"], data["copper"]
    for table in (mask, copper):
        for key, figure in table.items():
            if figure["source"] not in data["sources"]:
                raise ValueError(f"{path.name}: {key}: no source {figure['source']!r}")
    return Stackup(
        data["name"],
        tuple(layers),
        pairs,
        mask["over_laminate"]["value"] * 1e-3,
        mask["over_copper"]["value"] * 1e-3,
        mask["epsilon"]["value"],
        mask["loss_tangent"]["value"],
        copper["roughness_rms_um"]["value"] * 1e-6,
        copper["conductivity"]["value"],
    )
