"""``PYTHONPATH=hw python -m afe``: all decks through ngspice, and what follows from them, as JSON.

    python -m afe [--quick] [--out build/afe]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from . import studies
from .design import design
from .parts import FOLDER, load
from .spice import SpiceError


def main() -> int:
    """Status 1 with a message where ngspice is missing or a deck fails."""
    parser = argparse.ArgumentParser(prog="python -m afe", description="decks of the analog front end")
    parser.add_argument("--out", type=Path, default=FOLDER.parents[1] / "build" / "afe", help="folder of results.json")
    options = parser.parse_args()
    parts, _ = load()
    try:
        results = {
            "design": asdict(design(parts)),
            "noise": studies.noise(parts),
            "bandwidth": studies.bandwidth(parts),
            "edges": studies.edges(parts),
            "common_mode": studies.common_mode(parts),
            "overload": studies.overload(parts),
        }
    except SpiceError as error:
        print(f"afe: {error}", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(f"{options.out / 'results.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
