"""``python -m board.signal.report [--quick]``: the tables of ``docs/signal.md`` between their marks, and its pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle

from ..checks.copper import rail
from ..layout.board import FILE
from ..pcb import read
from . import copper, margins
from .channel import Channel, Model, figures
from .eye import Eye
from .impedance import differential, spread
from .lines import of_pair
from .stackup import Stackup, load

DOCS = Path(__file__).parents[3] / "docs"
RAIL = "### The rail, of the board's file"
BEGIN, END = "<!-- generated: python -m board.signal.report -->", "<!-- end of generated -->"
RESISTANCES = (50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 1000.0)
SPEED = {"g2_5": "2.5", "g5": "5", "g8": "8", "g16": "16"}


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def pairs(stack: Stackup) -> str:
    """Impedances and losses."""
    rows = []
    for pair in stack.pairs.values():
        line, (low, high) = of_pair(stack, pair), spread(stack, pair)
        losses = [f"{line.loss_db(f, 0.1):.1f}" for f in (1.25e9, 2.5e9, 4e9, 8e9)]
        rows.append(
            [
                pair.name,
                f"{pair.width * 1e3:.2f}",
                f"{pair.gap * 1e3:.2f}",
                f"{differential(stack, pair):.1f}",
                f"{low:.0f} .. {high:.0f}",
                *losses,
            ]
        )
    return _table(
        ["pair", "width, mm", "gap, mm", "ohm", "all tolerances at their bad ends", "dB in 100 mm at 1.25 GHz", "2.5", "4", "8"], rows
    )


def eyes(model: Model) -> str:
    """Receivers in both builds, amplifier and FPGA."""
    rows = []
    for host in margins.HOSTS:
        length = model.values["host"][host]
        for rate in margins.RATES:
            straight = model.channel(length, tapped=False, lanes23=True)
            without = model.channel(length, interposer=False)
            p = margins.at_receiver(model, straight, rate)
            bare = margins.at_receiver(model, without, rate, sockets=1)
            nyquist = model.values[f"rate.{rate}"]["gigatransfers"] * 0.5e9
            row = [
                f"{host}, {length:.0f} mm",
                SPEED[rate],
                f"{without.loss_db(nyquist):.1f} dB",
                f"{bare.eye.height * 1e3:.0f} mV, {bare.eye.width:.2f}",
                f"+{straight.loss_db(nyquist) - without.loss_db(nyquist):.1f} dB",
                f"{p.eye.height * 1e3:.0f} mV, {p.eye.width:.2f}",
            ]
            if rate in ("g2_5", "g5"):
                tapped = model.channel(length)
                t = margins.at_receiver(model, tapped, rate)
                row += [f"+{tapped.loss_db(nyquist) - without.loss_db(nyquist):.1f} dB", f"{t.eye.height * 1e3:.0f} mV, {t.eye.width:.2f}"]
            else:
                row += ["", ""]
            rows.append([*row, f"{p.height_limit * 1e3:.0f} mV, {p.width_limit:.1f}"])
    head = ["host", "GT/s", "loss without us", "eye without us", "build P adds", "eye, build P", "build T adds", "eye, build T", "limit"]
    return _table(head, rows)


def taps(model: Model) -> str:
    """Both directions at the amplifier and behind it."""
    rows = []
    for host in margins.HOSTS:
        for to_drive in (True, False):
            channel = model.channel(model.values["host"][host], to_drive=to_drive)
            for rate in ("g2_5", "g5"):
                tap = margins.at_tap(model, channel, rate)
                half = margins.at_tap(model, channel, rate, swing=400.0)
                height, width, least, narrow = margins.at_fpga(model, tap)
                rows.append(
                    [
                        f"{'host' if to_drive else 'drive'}, {host} host",
                        SPEED[rate],
                        f"{tap.eye.height * 1e3:.0f} mV",
                        f"{half.eye.height * 1e3:.0f} mV",
                        f"{tap.height_limit * 1e3:.0f} mV",
                        f"{tap.eye.width:.2f}",
                        f"{height * 1e3:.0f} mV, {width:.2f}",
                        f"{least * 1e3:.0f} mV, {narrow:.1f}",
                    ]
                )
    head = [
        "who talks",
        "GT/s",
        "eye at the amplifier",
        "with half swing",
        "needs",
        "width where it is enough, UI",
        "FPGA, mV and UI",
        "needs",
    ]
    return _table(head, rows)


def resistors(model: Model) -> str:
    """Return the effects of the tap's value at 5 GT/s, the worst of the hosts and directions."""
    rows = []
    for ohm in RESISTANCES:
        receivers, amplifiers, loss = [], [], 0.0
        for host in margins.HOSTS:
            length = model.values["host"][host]
            straight = model.channel(length, tapped=False)
            for to_drive in (True, False):
                channel = model.channel(length, to_drive=to_drive, resistance=ohm)
                receivers.append(margins.at_receiver(model, channel, "g5").eye)
                amplifiers.append(margins.at_tap(model, channel, "g5"))
                loss = max(loss, channel.loss_db(2.5e9) - straight.loss_db(2.5e9))
        worst = min(amplifiers, key=lambda c: c.eye.width)
        rows.append(
            [
                f"{ohm:.0f}",
                f"{loss:.1f} dB",
                f"{min(e.height for e in receivers) * 1e3:.0f} mV",
                f"{min(c.eye.height for c in amplifiers) * 1e3:.0f} mV",
                f"{margins.at_fpga(model, worst)[1]:.2f}",
            ]
        )
    return _table(
        ["ohm a leg", "more loss of the link at 2.5 GHz", "eye at the receiver", "eye at the amplifier", "width at the FPGA, UI"], rows
    )


def room(model: Model) -> str:
    """The longest host that still works, without and with us."""
    rows = []
    for rate in margins.RATES:
        cases = [{"interposer": False}, {"tapped": False, "lanes23": True}] + ([{"tapped": True}] if rate in ("g2_5", "g5") else [])
        found = [margins.reach(model, rate, **case) for case in cases]
        cells = [("more than " if mm >= 900 else "") + f"{mm:.0f} mm, {db:.1f} dB" for mm, db in found]
        rows.append([SPEED[rate], *cells, *[""] * (3 - len(cells))])
    return _table(["GT/s", "without us", "build P", "build T"], rows)


STRETCHES = {
    "host": "copper, edge pins to the load switch",
    "switched": "copper, load switch to the shunt's current terminal",
    "drive": "copper, shunt's current terminal to the pads of the drive's socket",
    "ground": "copper, ground from the drive's socket to the edge",
}


def rails(stack: Stackup) -> str:
    """The rail from the host's contacts to the drive's, or why the board has none."""
    found = rail(read(FILE), stack, copper.load())
    if isinstance(found, str):
        return f"The board's copper does not join edge and socket ({found})."
    rows = [
        [name, f"{ohm * 1e3:.2f}", f"{ohm * 3e3:.1f}"]
        for name, ohm in (
            *((STRETCHES[part], ohm) for part, ohm in found.copper.items()),
            ("load switch and shunt", found.parts),
            ("contacts of the drive's socket, 3.3 V and ground, at their limit", found.contacts),
            ("all", found.total),
        )
    ]
    return _table(["stretch", "mohm", "mV at 3 A"], rows)


def _draw_eye(axis: Axes, found: Eye, title: str) -> None:
    levels = found.levels * 1e3
    both = found.density + found.density[:, ::-1]
    x = (np.arange(len(both)) - len(both) / 2) / (len(both) / 2) - found.centre
    axis.pcolormesh(
        x, levels, np.maximum(both.T, 1e-13), norm=LogNorm(1e-12, both.max()), cmap="viridis", shading="nearest", rasterized=True
    )
    limit = 1.1 * levels[np.flatnonzero(both.max(axis=0) > 1e-12)[-1]]
    axis.set(xlim=(-0.6, 0.6), ylim=(-limit, limit), title=title, xlabel="UI", ylabel="mV")
    axis.plot([-found.width / 2, found.width / 2], [0, 0], color="w", lw=1)
    at = found.phase - found.centre
    axis.plot([at, at], [-found.height * 500, found.height * 500], color="w", lw=1)


def pictures(model: Model, stack: Stackup) -> None:
    """``docs/img/signal-*.png``."""
    straight, tapped = model.channel(100.0, tapped=False, lanes23=True), model.channel(100.0)
    figure, axes = plt.subplots(2, 3, figsize=(12, 7), constrained_layout=True)
    shown: list[tuple[str, margins.Case]] = [
        ("build P, 5 GT/s, drive's pins", margins.at_receiver(model, straight, "g5")),
        ("build P, 8 GT/s, behind the equaliser", margins.at_receiver(model, straight, "g8")),
        ("build P, 16 GT/s, behind the equaliser", margins.at_receiver(model, straight, "g16")),
        ("build T, 5 GT/s, drive's pins", margins.at_receiver(model, tapped, "g5")),
        ("build T, 2.5 GT/s, amplifier's input", margins.at_tap(model, tapped, "g2_5")),
        ("build T, 5 GT/s, amplifier's input", margins.at_tap(model, tapped, "g5")),
    ]
    for axis, (title, case) in zip(axes.flat, shown):
        _draw_eye(axis, case.eye, title)
    figure.suptitle("Calculated, host of 100 mm. Interference without jitter; white: height and width at 1e-12 with jitter", fontsize=10)
    figure.savefig(DOCS / "img" / "signal-eyes.png", dpi=80)
    plt.close(figure)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    curves: list[tuple[str, Channel]] = [
        ("without us", model.channel(100.0, interposer=False)),
        ("build P, lanes 2 and 3", straight),
        ("build T", tapped),
    ]
    for name, channel in curves:
        left.plot(channel.f / 1e9, 20 * np.log10(np.abs(channel.receiver)), label=name)
        right.plot(channel.f / 1e9, 20 * np.log10(np.abs(channel.network.s[:, 0, 0])), label=name)
    assert tapped.tap is not None
    left.plot(tapped.f / 1e9, 20 * np.log10(np.abs(tapped.tap)), label="host to the tap's amplifier", ls="--")
    left.set(xlim=(0, 16), ylim=(-30, 0), xlabel="GHz", ylabel="dB", title="Host to drive, 100 mm host (calculated)")
    right.set(xlim=(0, 16), ylim=(-40, 0), xlabel="GHz", ylabel="dB", title="Reflection at the host's die, 100 ohm")
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    left.grid(alpha=0.3)
    right.grid(alpha=0.3)
    figure.savefig(DOCS / "img" / "signal-loss.png", dpi=80)
    plt.close(figure)
    figure, axis = plt.subplots(figsize=(9, 5.2), constrained_layout=True)
    y = 0.0
    for layer in stack.layers:
        copper_layer = layer.kind == "copper"
        height = 0.6 if copper_layer else 1.0
        axis.add_patch(Rectangle((0, -y - height), 3, height, color="#c87533" if copper_layer else "#7c9c5e", ec="w"))
        name = layer.name if copper_layer else f"{layer.name}, Dk {layer.epsilon:g}"
        axis.text(1.5, -y - height / 2, f"{name}, {layer.thickness * 1e3:.4g} mm", ha="center", va="center", fontsize=8)
        if layer.use:
            axis.text(3.1, -y - height / 2, layer.use, va="center", fontsize=8)
        y += height
    axis.set(xlim=(0, 9.5), ylim=(-y, 0), title=f"{stack.name}: {stack.thickness * 1e3:.3f} mm without mask (heights not to scale)")
    axis.axis("off")
    figure.savefig(DOCS / "img" / "signal-stackup.png", dpi=90)
    plt.close(figure)


def main() -> None:
    """Writes all, or with ``--quick`` the rail alone, which a new layout changes (the rest takes a minute)."""
    parser = argparse.ArgumentParser(prog="board.signal.report", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the rail's table")
    quick = parser.parse_args().quick
    stack = load()
    path = DOCS / "signal.md"
    old = path.read_text()
    if quick:
        path.write_text(old[: old.index(RAIL)] + f"{RAIL}\n\n{rails(stack)}\n\n{END}" + old[old.index(END) + len(END) :])
        return
    model = Model(stack, figures())
    parts = [
        ("### Pairs", pairs(stack)),
        ("### Eyes at the drive, at 1e-12 (height, and width in UI)", eyes(model)),
        ("### How long a host may be", room(model)),
        ("### The tap", taps(model)),
        ("### The tap's resistor (5 GT/s, worst host and direction)", resistors(model)),
        (RAIL, rails(stack)),
    ]
    text = "\n\n".join(f"{title}\n\n{table}" for title, table in parts)
    path.write_text(old[: old.index(BEGIN)] + f"{BEGIN}\n\n{text}\n\n{END}" + old[old.index(END) + len(END) :])
    pictures(model, stack)


if __name__ == "__main__":
    main()
