"""The reference set: results of the suite `quick` on every modelled drive, which a page of one drive is drawn among.

``python tools/reference.py [--keep]`` runs the suite on each profile (some 10 s each; ``--keep``: not where build/reference has its results
already) and writes ``host/wattbell/results/reference/quick.json``. `make reference` calls it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from wattbell.virtual.profiles import known_profiles

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "reference"
OUT = ROOT / "host" / "wattbell" / "results" / "reference" / "quick.json"
SUITE = "quick"
_LEFT_OUT = {"capture", "wall_s", "series", "notes", "lost"}
"""Keys of a test that belong to the run and not to the drive; nothing is lost in a reference (below)."""


def rounded(value: Any) -> Any:
    """Numbers to six digits: no page shows more, and nobody compares drives more finely."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


def reduced(document: dict[str, Any]) -> dict[str, Any]:
    """A results.json as it is kept: what pages show of a drive in the background."""
    if document["lost"] or any(test["lost"] for test in document["tests"]) or not document["virtual"]:
        raise SystemExit(f"reference: {document['drive']['profile']} is no reference: data were lost, or it is no model")
    kept = ("format", "suite", "suite_hash", "scale", "scaled", "condition", "virtual", "planned")
    drive = {
        name: document["drive"].get(name) for name in ("title", "model", "serial", "firmware", "profile", "profile_hash", "capacity_bytes")
    }
    tests = [{name: part for name, part in test.items() if name not in _LEFT_OUT} for test in document["tests"]]
    conditions = {"fidelity": document["conditions"].get("fidelity"), "notes": ["a model's figures, shipped with Wattbell as a reference"]}
    made: dict[str, Any] = rounded(
        {**{name: document[name] for name in kept}, "drive": drive, "conditions": conditions, "lost": {}, "tests": tests}
    )
    return made


def main() -> None:
    """Run, reduce, write."""
    documents = []
    for profile in known_profiles():
        out = WORK / profile["profile"]
        if not ("--keep" in sys.argv and (out / "results.json").is_file()):
            print(f"reference: {profile['profile']}", file=sys.stderr, flush=True)
            command = [sys.executable, "-m", "wattbell", "run", SUITE, "--virtual", profile["profile"], "--fidelity", "fast"]
            options = ["--out", str(out), "--no-store", "--no-page", "--discard-captures", "--force", "--json"]
            subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
        documents.append(reduced(json.loads((out / "results.json").read_text(encoding="utf-8"))))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(
        "[\n" + ",\n".join(json.dumps(d, separators=(",", ":"), ensure_ascii=False) for d in documents) + "\n]\n", encoding="utf-8"
    )
    print(f"{OUT.relative_to(ROOT)}: {len(documents)} drives, {OUT.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
