"""``PYTHONPATH=hw:host python -m afe``: all decks through ngspice, random boards, and their figures.

    python -m afe [--quick] [--out build/afe]     results.json; --quick: 20 boards through ngspice in place of 200
    python -m afe --docs                          also hw/afe/model.toml, the tables of docs/front-end.md and their picture

Ends with status 1 if ngspice is missing, a deck fails, or ngspice and the hand analysis of a board disagree. It does so too if model.toml
differs from the result by more than a thousandth.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from . import boards, model, report, studies
from .design import design
from .parts import FOLDER, AfePart, load
from .population import population
from .selftest import load_edges, load_leakage, skew
from .spice import SpiceError

BOARDS, QUICK_BOARDS = 200, 20
AGREE_V, AGREE_S = 2e-6, 1e-10
"""Largest difference between ngspice and the hand analysis: in V, of 4 V (its tolerance is 1e-6), and in s of a delay."""


def monte_carlo(parts: dict[str, AfePart], count: int) -> dict[str, float]:
    """Random boards through ngspice, against :func:`.boards.transfer` and :func:`.boards.delays`: the largest differences."""
    rng = Random(1)
    volts = seconds = 0.0
    for _ in range(count):
        board = boards.draw(parts, rng)
        static, delays = boards.spice_transfer(board)
        for (path, current, rail, kelvin), value in static.items():
            by_hand = boards.transfer(board, current, rail, kelvin)
            volts = max(volts, abs(value - getattr(by_hand, path)))
        mine = boards.delays(board)
        seconds = max(seconds, *(abs(getattr(delays, path) - getattr(mine, path)) for path in ("coarse", "fine", "voltage")))
    return {"boards": count, "largest_difference_v": volts, "largest_difference_s": seconds}


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the names of entries that are in only one of two tables of tables, or differ by more than a thousandth."""
    flat = [
        {f"{name}.{key}": value if isinstance(value, list) else [value] for name, entry in tables.items() for key, value in entry.items()}
        for tables in (old, new)
    ]
    same = {
        key
        for key in flat[0].keys() & flat[1].keys()
        if len(flat[0][key]) == len(flat[1][key]) and all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(flat[0][key], flat[1][key]))
    }
    return sorted((flat[0].keys() | flat[1].keys()) - same)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m afe", description="the analog front end: decks, random boards, error budget")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_BOARDS} boards through ngspice, not {BOARDS}")
    parser.add_argument("--docs", action="store_true", help="write model.toml, docs/front-end.md and its picture")
    parser.add_argument("--out", type=Path, default=FOLDER.parents[1] / "build" / "afe", help="folder of results.json")
    options = parser.parse_args()
    parts, _ = load()
    try:
        results: dict[str, Any] = {
            "design": asdict(design(parts)),
            "noise": studies.noise(parts),
            "bandwidth": studies.bandwidth(parts),
            "edges": studies.edges(parts),
            "common_mode": studies.common_mode(parts),
            "overload": studies.overload(parts),
            "headroom": studies.headroom(parts),
            "load_edges": load_edges(parts),
            "load_leakage": {celsius: load_leakage(parts, celsius) for celsius in (0, 25, 50)},
            "monte_carlo": monte_carlo(parts, QUICK_BOARDS if options.quick else BOARDS),
        }
    except SpiceError as error:
        print(f"afe: {error}", file=sys.stderr)
        return 1
    tables = model.model(parts, results)
    results["skew"] = skew(parts, tables)
    readings = population(parts, results["noise"], BOARDS)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    text = report.tables(parts, results, readings)
    (options.out / "front-end.md").write_text(text + "\n")
    print(f"{options.out / 'results.json'}, {options.out / 'front-end.md'}")
    fresh = model.text(tables)
    if options.docs:
        model.MODEL.write_text(fresh)
        report.draw(readings)
        report.write_docs(text)
    agreement = results["monte_carlo"]
    if agreement["largest_difference_v"] > AGREE_V or agreement["largest_difference_s"] > AGREE_S:
        print(f"afe: ngspice and the hand analysis disagree: {agreement}", file=sys.stderr)
        return 1
    if stale := differences(tomllib.loads(model.MODEL.read_text()), tomllib.loads(fresh)):
        print(f"afe: {model.MODEL.name} is not of these parts and decks ({', '.join(stale)}): run with --docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
