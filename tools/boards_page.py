#!/usr/bin/env python3
"""The histogram of docs/accuracy.md: random boards of the virtual rig after `wattbell calibrate`.

tools/boards_page.py build/calibrate/boards.jsonl      what `make calibrate` wrote, a line a board (tests/sim/rig/test_calibrate.py)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "accuracy.md"
PICTURE = ROOT / "docs" / "img" / "rig-boards.svg"
BEGIN, END = "<!-- generated: make calibrate -->", "<!-- end of make calibrate -->"
QUANTITIES = ("current", "power")
"""The two ratios of a line, each an error over its limit."""
STYLES: tuple[dict[str, Any], ...] = ({"alpha": 0.6}, {"histtype": "step", "linewidth": 1.4, "color": "black"})
"""How the histogram of each quantity is drawn."""


def by_level(boards: list[dict[str, Any]]) -> dict[tuple[float, float], list[tuple[float, float]]]:
    """(V, A) applied -> the ratios of current and power of each board."""
    levels: dict[tuple[float, float], list[tuple[float, float]]] = {}
    for board in boards:
        for volts, amps, *shares in board["shares"]:
            levels.setdefault((volts, amps), []).append(tuple(shares))
    return levels


def table(levels: dict[tuple[float, float], list[tuple[float, float]]], boards: list[dict[str, Any]]) -> str:
    """The text between the markers."""
    celsius = [board["celsius"] for board in boards]
    lines = [
        f"{len(boards)} boards, seeds {boards[0]['seed']} to {boards[-1]['seed']}, at {min(celsius):.0f} to {max(celsius):.0f} C, "
        "fast fidelity. Errors are of the mean over 190 ms, as a share of the limit.",
        "",
        "| applied | current: within 0.1 % + 5 uA | worst | standard deviation | power: within 0.2 % + 5 uA x V | worst |",
        "|---|---|---|---|---|---|",
    ]
    for (volts, amps), shares in levels.items():
        current, power = ([share[k] for share in shares] for k in range(2))
        spread = (sum(share * share for share in current) / len(current)) ** 0.5
        lines.append(
            f"| {volts:g} V, {amps:g} A | {sum(abs(s) <= 1 for s in current)} | {max(map(abs, current)):.2f} | {spread:.2f} | "
            f"{sum(abs(s) <= 1 for s in power)} | {max(map(abs, power)):.2f} |"
        )
    return "\n".join([*lines, "", f"![Errors of calibrated boards of the virtual rig, as a share of the limit](img/{PICTURE.name})"])


def draw(levels: dict[tuple[float, float], list[tuple[float, float]]]) -> None:
    """One column per level, with the limits drawn in. The same boards give the same bytes."""
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "wattbell"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(levels), figsize=(12, 2.8), sharey=True, squeeze=False, layout="constrained")
    for axis, ((volts, amps), shares) in zip(axes[0], levels.items(), strict=True):
        for k, style in enumerate(STYLES):
            axis.hist([share[k] for share in shares], bins=[n / 20 for n in range(-24, 25)], label=QUANTITIES[k], **style)
        for side in (-1, 1):
            axis.axvline(side, color="crimson", linewidth=1)
        axis.set(title=f"{volts:g} V, {amps:g} A", xlabel="error / limit", xlim=(-1.2, 1.2))
    axes[0][0].set_ylabel("boards")
    axes[0][0].legend(fontsize=7, loc="upper left")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def main() -> int:
    """Exit status 2: no such file, or nothing in it."""
    source = Path(sys.argv[1]) if len(sys.argv) == 2 else None
    if source is None or not source.exists() or not source.read_text().strip():
        print("boards_page: error: give the file that `make calibrate` wrote (build/calibrate/boards.jsonl).", file=sys.stderr)
        return 2
    boards = sorted((json.loads(line) for line in source.read_text().splitlines()), key=lambda board: board["seed"])
    levels = by_level(boards)
    before, mark, rest = DOCS.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        print(f"boards_page: error: {DOCS} has lost its mark {BEGIN} or {END}: put them back.", file=sys.stderr)
        return 2
    DOCS.write_text(f"{before}{BEGIN}\n\n{table(levels, boards)}\n\n{END}{after}")
    draw(levels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
