"""Checks the messages of commits, as CONTRIBUTING.md asks: ``make lint`` runs this.

    python tools/commit_messages.py        every commit after START that this clone has

The first line has at most 72 characters, no period at its end, and begins with a verb in the imperative. The second line is empty.
``tools/imperatives.txt`` lists the imperatives, since no rule of spelling separates "Passes" from "Process". Exit code 1 if a message
breaks a rule.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START = "34c85f96"
"""The last commit that nobody checks."""
LONGEST = 72
"""Characters of a first line."""
VERBS = frozenset(Path(__file__).with_name("imperatives.txt").read_text(encoding="utf-8").split())
"""Words that begin a message: the base forms of verbs."""


def faults(message: str) -> list[str]:
    """Return the rules that a message breaks, as the ends of sentences."""
    first, *rest = message.rstrip("\n").split("\n")
    out = []
    if len(first) > LONGEST:
        out.append(f"has {len(first)} characters in its first line: {LONGEST} are allowed")
    if first.rstrip().endswith("."):
        out.append("ends its first line with a period")
    words = [*first.split(), "", ""]
    if words[0] not in VERBS or words[1] == "of":
        out.append(f"begins with '{words[0]}': begin with a verb in the imperative, or add the verb to tools/imperatives.txt")
    if rest and rest[0].strip():
        out.append("has text in its second line: leave that line empty")
    return out


def git(root: Path, *words: str) -> str | None:
    """Return the output of a command of git; None if it fails."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, errors="replace")
    return done.stdout if done.returncode == 0 else None


def commits(root: Path, start: str) -> tuple[list[tuple[str, str]], str]:
    """Return the commits to check, each with its message, and why there are fewer than all, or "".

    A shallow clone without `start` is newer than that commit: its every commit is checked.
    """
    top = git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()).resolve() != root.resolve() or git(root, "rev-parse", "HEAD") is None:
        return [], "this tree has no history of its own"
    span, why = f"{start}..HEAD", ""
    if git(root, "merge-base", "--is-ancestor", start, "HEAD") is None:
        if (git(root, "rev-parse", "--is-shallow-repository") or "").strip() != "true":
            return [], f"this history does not contain commit {start}"
        span, why = "HEAD", "this clone has only a part of the history"
    listed = git(root, "log", "-z", "--format=%h%n%B", span)
    if listed is None:
        return [], "git cannot list this history"
    entries = [entry.lstrip("\n").partition("\n") for entry in listed.split("\0") if entry.strip()]
    return [(name, message) for name, _, message in entries], why


def main(root: Path = ROOT, start: str = START) -> int:
    """Print the faults, or how much was checked."""
    checked, why = commits(root, start)
    found = [f"commit {name} {fault}" for name, message in checked for fault in faults(message)]
    for line in found:
        print(f"commit messages: error: {line}", file=sys.stderr)
    if why:
        print(f"commit messages: {len(checked)} checked: {why}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
