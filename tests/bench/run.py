"""``make bench``: all of the project's speed figures in one run, each beside its target.

Runs ``start.py``, ``model.py``, ``rtl.py``, ``host_bench.py``, ``analysis.py``, ``view.py`` and (where Chromium is installed)
``view_page.py`` one after the other (they would disturb each other) and prints their results as one table, or as one JSON object with
``--json``. A missed target is printed; it is not an error. It takes five to ten minutes; with ``--suite``, which times an unscaled suite as
well, half an hour more.
For root the live recording and the page run before everything else on the machine (``--urgent``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]


def measured(script: str, *arguments: str) -> dict[str, object]:
    """The JSON printed by a benchmark; exits if the benchmark fails."""
    done = subprocess.run([sys.executable, "-m", f"tests.bench.{script}", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"bench: {script} failed with exit code {done.returncode}; its message stands above")
    return json.loads(done.stdout)


def rows(prefix: str, value: object) -> list[tuple[str, str]]:
    """The leaves of a JSON value as (dotted name, text)."""
    if isinstance(value, dict):
        return [row for key, part in value.items() for row in rows(f"{prefix}.{key}" if prefix else str(key), part)]
    return [(prefix, f"{value:.4g}" if isinstance(value, float) else str(value))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--suite", action="store_true", help="time an unscaled suite as well: half an hour")
    arguments = parser.parse_args()
    machine = {"cpus": os.cpu_count(), "load_before": os.getloadavg()[0]}
    start = time.monotonic()
    urgent = [] if os.geteuid() else ["--urgent"]
    result = {
        "machine": machine,
        "start": measured("start"),
        "model": measured("model", *(["--suite"] if arguments.suite else [])),
        "rtl": measured("rtl"),
        "view": measured("view", "--json"),
        **({"view_page": measured("view_page", *urgent)} if shutil.which("chromium") else {}),
        "host": measured("host_bench", "--json", *urgent),
        "analysis": measured("analysis", "--json"),
    }
    machine |= {"load_after": os.getloadavg()[0], "minutes": (time.monotonic() - start) / 60}
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    table = Table(title="make bench", box=None, title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, text in rows("", result):
        table.add_row(name, text)
    Console().print(table)


if __name__ == "__main__":
    main()
