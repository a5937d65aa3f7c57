"""The tables of docs/users-guide.md on the works and benches of each option, from the tables of the command line.

python tools/options_guide.py            prints them
python tools/options_guide.py --write    brings the guide up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

from wattbell.cli.applies import ANY_BENCH, ANY_WORK, APART, BENCH_WORDS, NEEDS, RUN, OptionScope, Trait, any_of, works_words

GUIDE = Path(__file__).resolve().parents[1] / "docs/users-guide.md"
BEGIN, END = "<!-- generated: python tools/options_guide.py --write -->\n", "<!-- end of generated -->\n"
HAS = {
    Trait.writes: "that writes",
    Trait.rounds: "with a test in rounds to a steady state",
    Trait.generated: "with a generated trace",
    Trait.set_at_once: "with a test for which a model is set to its condition at once",
}
_FORMER = "former name"
"""In the words of a rule about an option that no help shows."""


def tables() -> str:
    """Return the tables in Markdown."""
    lines = ["| option of `wattbell run` | applies to |", "|---|---|"]
    rows: dict[str, list[str]] = {}
    for option, boxes in RUN.items():
        if option.startswith("-"):
            rows.setdefault("; ".join(map(_words, boxes)), []).append(_code(option))
    lines += [f"| {', '.join(options)} | {words} |" for words, options in rows.items()]
    lines += ["", "| command | option | not with |", "|---|---|---|"]
    pairs: dict[tuple[str | None, str], list[str]] = {}
    for rule in APART:
        if _FORMER not in rule.words:
            pairs.setdefault((rule.command, rule.other), []).append(_code(rule.one))
    lines += [f"| {_code(command or '') or 'any'} | {', '.join(ones)} | {_code(other)} |" for (command, other), ones in pairs.items()]
    lines += ["", "| command | option | only with |", "|---|---|---|"]
    needs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for need in NEEDS:
        needs.setdefault((need.command, need.others), []).append(_code(need.option))
    lines += [f"| {_code(command)} | {', '.join(options)} | {any_of(map(_code, others))} |" for (command, others), options in needs.items()]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return text and ", ".join(f"`{part}`" for part in text.split("/"))


def _words(box: OptionScope) -> str:
    works = "any work" if box.works == ANY_WORK else works_words(box.works)
    has = "" if box.trait is None else f" {HAS[box.trait]}"
    return f"{works}{has}" + ("" if box.benches == ANY_BENCH else f", on {BENCH_WORDS[box.benches][0]}")


def main() -> None:
    """See the head of this file."""
    if sys.argv[1:] != ["--write"]:
        print(tables(), end="")
        return
    before, begin, rest = GUIDE.read_text(encoding="utf-8").partition(BEGIN)
    if not begin:
        sys.exit(f"{GUIDE} has no line {BEGIN}")
    GUIDE.write_text(before + BEGIN + tables() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
