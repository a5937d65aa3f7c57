"""Notes for the fab as text beside the board (Dwgs.User), made from the same tables as the board."""

from __future__ import annotations

from ..signal.stackup import load
from . import outline
from .rules import fab

__all__ = ["fabrication"]


def fabrication() -> list[str]:
    """Return the lines of the fabrication drawing."""
    stack, least, data = load(), fab()["least"], outline.load()
    (x0, x1), (y1,) = data["body"]["x"], data["body"]["y"][1:]
    copper = sum(layer.kind == "copper" for layer in stack.layers)
    widths = f"track and space {least['track']:g} and {least['clearance']:g}; drill {least['drill']:g}, pad {least['via']:g}"
    lines = [
        "FABRICATION NOTES (mm). Rev 0: never built.",
        "",
        f"1. Outline {x1 - x0:g} x {y1:g}, with the M.2 M tongue and its key: Edge.Cuts.",
        f"2. {copper} layers, {stack.thickness * 1e3:.3f} without mask; at the fingers 0.80 +-0.08 with copper and mask.",
        f"   Stack {stack.name}, FR4:",
    ]
    for layer in stack.layers:
        kind = layer.name if layer.kind == "copper" else f"{layer.kind}, er {layer.epsilon:g}"
        use = f"   {layer.use}" if layer.use else ""
        lines.append(f"      {layer.thickness * 1e3:.4f}  {kind}{use}")
    lines += [
        f"3. Least {widths}; copper to edge {least['edge']:g}.",
        "4. Impedance controlled +-10 %:",
    ]
    for pair in stack.pairs.values():
        lines.append(
            f"      {pair.name}: {pair.target:g} ohm differential, {pair.layer}, width {pair.width * 1e3:.3f}, gap {pair.gap * 1e3:.3f}"
        )
    lines += [
        "5. Fingers: hard gold over nickel, edge bevelled 20 degrees on both sides. Everything else ENIG.",
        "6. Vias plated through, tented on both sides.",
        "   Vias in exposed pads: filled and capped, or plugged from the other side.",
        "7. Solder mask green, silkscreen white, both sides. Panel: tongue free on three sides, no tab on it.",
        "8. Bare board tested electrically against wattbell.ipc (IPC-D-356).",
    ]
    return lines
