"""The start of the ``wattbell`` command: processor time and memory of calls that do no work, and their ratio to the libraries alone.

    python -m tests.bench.start

Prints JSON. ``ratio``: processor time of the call in units of a Python that imports Typer with what draws its help.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

AIM_S = 0.3
CALLS = {"version": ["--version"], "help": ["--help"], "help_of_run": ["run", "--help"], "wrong_option": ["run", "--wrong"]}
LIBRARIES = [sys.executable, "-c", "import typer, typer.rich_utils"]
ROUNDS = 5


def spent(command: list[str]) -> tuple[float, float]:
    """Processor time (s) and largest memory (MiB) of a command, its output thrown away."""
    pid = os.fork()
    if pid == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.execv(command[0], command)
    _, _, usage = os.wait4(pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    program = str(Path(sys.executable).parent / "wattbell")
    commands = {"libraries": LIBRARIES, **{name: [program, *words] for name, words in CALLS.items()}}
    runs = {name: [] for name in commands}
    for _ in range(ROUNDS):  # in turns: another load meets all of them
        for name, command in commands.items():
            runs[name].append(spent(command))
    best = {name: min(each) for name, each in runs.items()}
    result = {}
    for name in CALLS:
        seconds, memory = best[name]
        times = {"processor_s": seconds, "ratio": seconds / best["libraries"][0], "aim_s": AIM_S, "met": seconds <= AIM_S}
        result[name] = {**times, "memory_mib": memory}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
