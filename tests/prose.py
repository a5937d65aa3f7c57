"""How readable the words of a tree are: vague clauses, long sentences and docstrings that begin without their subject.

    python -m tests.prose                          # a line for each group: its figures beside its limits
    python -m tests.prose --worst 20 host          # the worst sentences and openings of the groups below host
    python -m tests.prose --lower                  # write tests/prose.toml anew; a limit only ever falls

Three figures for each group (a page, or a folder with its docstrings and pages):

vague: clauses per 1000 words that name no subject. Counted are `what` before is, was, are, were, it, a, an, the, of, has, had, they, one,
    there, can, may, stands, comes, ran, runs, goes, lies, follows, remains; `of what`, and `what` after by, with, in, to, from, for, than;
    `that of`, `those of`, `of which`, `of it`, `of them`, `the like`, `is done with`, `be had`, `come to`, `tells`, `told`, `stands in`,
    `stands for`, `stands there`, `whose`, `hence`, `thereof`, `therein`. Only whole words count: not `that of` in "that often". `nor` is
    plain English.
long: per cent of the sentences that have more than 25 words. A sentence has at least four. A list item and a paragraph end their sentence.
opening: docstrings that begin with What, Of, Where, As, That, By or Behind.

Docstrings belong to modules, classes and functions, and the strings below a field or a constant. In Rust and JavaScript they are the
comments of documentation (`///`, `//!`, `/** */`), in C all comments. Code, tables, headings and the addresses of links are no prose.
"""

from __future__ import annotations

import argparse
import ast
import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
NAMES = ("vague", "long", "opening")
AIM = {"vague": 2.0, "long": 12.0, "opening": 0}
"""The limits of a group that is new: it is written well from the start."""
FLOOR = {"vague": 1.0, "long": 6.0, "opening": 0}
"""No limit falls below these: the rest is chance."""
LONG = 25
"""Words that a sentence may have."""

VAGUE = re.compile(
    r"\b(?:what (?:of|is|was|are|were|it|an?|the|has|had|they|one|there|stands|comes|ran|runs|goes|lies|follows|remains|may|can)"
    r"|(?:of|by|with|in|to|from|for|than) what|that of|those of|of which|the like|is done with|be had|comes? to|tells|told"
    r"|stands? (?:in|for|there)|whose|hence|of it|of them|thereof|therein)\b",
    re.I,
)
OPENING = re.compile(r"\W*(?:What|Of|Where|As|That|By|Behind)\b")
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)]|@\w+)\s+")
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z(*_`\"])|(?<=[\w)][.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!cf\.)\s+(?=[a-z])")
"""A sentence may begin with a small letter, as the names of programs do."""
FIELD = re.compile(r"\s*`?[\w.\[\]*]+`?(?:, `?[\w.\[\]*]+`?)*: ")
"""A line of a docstring that explains one parameter or field."""
COMMENT = re.compile(r"/\*\*?(?P<block>.*?)\*/", re.S)
DOC_COMMENT = re.compile(r"/\*\*(?P<block>.*?)\*/|(?P<lines>(?:^[ \t]*//[/!](?!/)[^\n]*\n?)+)", re.S | re.M)
SKIPPED = {"build", "target", "node_modules", "__pycache__", "rtl", "third_party"}


@dataclass
class Prose:
    """The sentences of a group, each with its file and line, and the docstrings that begin badly."""

    sentences: list[tuple[str, str]] = field(default_factory=list)
    openings: list[tuple[str, str]] = field(default_factory=list)

    @property
    def words(self) -> int:
        """Words of all sentences."""
        return sum(len(sentence.split()) for _, sentence in self.sentences)

    def unit(self) -> dict[str, float]:
        """The step of each figure if the group has one clause, one long sentence or one opening more."""
        return {"vague": 1000 / max(1, self.words), "long": 100 / max(1, len(self.sentences)), "opening": 1}

    def figures(self) -> dict[str, float]:
        """The three figures, unrounded."""
        step = self.unit()
        return {
            "vague": step["vague"] * sum(len(VAGUE.findall(sentence)) for _, sentence in self.sentences),
            "long": step["long"] * sum(len(sentence.split()) > LONG for _, sentence in self.sentences),
            "opening": len(self.openings),
        }


def blocks(text: str, fields: bool) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items of a text, each with its line (from 0), without code, tables and headings.

    fields: a line such as `name: ...` begins a block, as it does in a docstring.
    """
    text = re.sub(r"(?ms)^\s*(```|~~~).*?^\s*\1[^\n]*$", lambda code: "\n" * code[0].count("\n"), text)
    text = re.sub(r"(?s)<!--.*?-->", lambda note: "\n" * note[0].count("\n"), text)
    start, held, fresh, listed = 0, list[str](), True, False
    for number, line in enumerate([*text.split("\n"), ""]):
        stripped = line.strip().lstrip("> ")
        item = bool(ITEM.match(line)) or (fields and bool(FIELD.match(line)))
        code = fresh and not item and not listed and line.startswith("    ")
        if not stripped or stripped.startswith(("|", "#")) or item or code:
            if held:
                yield start, " ".join(held)
            held = []
            fresh = not stripped or code
            if not stripped or stripped.startswith(("|", "#")) or code:
                continue
        if not line.startswith(" ") or item:
            listed = item
        start, fresh = (start if held else number), False
        held.append(ITEM.sub("", stripped) if item else stripped)


def sentences(text: str, fields: bool = False) -> Iterator[tuple[int, str]]:
    """Sentences of at least four words, each with the line (from 0) of its paragraph."""
    for line, block in blocks(text, fields):
        for pattern, put in ((r"!?\[([^\]]*)\]\([^)]*\)", r"\1"), (r"<[^>]+>", ""), (r"``?[^`]*``?", "X")):
            block = re.sub(pattern, put, block)
        for sentence in SENTENCE_END.split(block):
            if len(sentence.split()) >= 4:
                yield line, sentence


def python(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings of a Python file, and the strings that stand below fields and constants, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, re.sub(rf"(?m)^ {{{node.col_offset}}}", "", node.value.value)


def comments(source: str, every: bool) -> Iterator[tuple[int, str]]:
    """Comments of documentation of a Rust or JavaScript file, each with its line; every: all comments of a C file."""
    for found in (COMMENT if every else DOC_COMMENT).finditer(source):
        text = found["block"] or found.groupdict().get("lines") or ""
        yield source.count("\n", 0, found.start()) + 1, re.sub(r"(?m)^[ \t]*(?://[/!]|\*)? ?", "", text)


def read(file: Path, into: Prose, root: Path = ROOT) -> None:
    """Add the prose of a file."""
    source, name = file.read_text(encoding="utf-8"), file.relative_to(root).as_posix()
    if file.suffix == ".md":
        into.sentences += [(f"{name}:{line + 1}", sentence) for line, sentence in sentences(source)]
        return
    for start, text in python(source) if file.suffix == ".py" else comments(source, every=file.suffix in {".c", ".h"}):
        into.sentences += [(f"{name}:{start + line}", sentence) for line, sentence in sentences(text, fields=True)]
        if OPENING.match(text):
            into.openings.append((f"{name}:{start}", text))


def files(folder: Path) -> Iterator[Path]:
    """Files with prose below a folder, without those that builds make."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in SKIPPED and not path.name.startswith("."):
            yield from files(path)
        elif path.suffix in {".md", ".py", ".rs", ".c", ".h", ".js"}:
            yield path


def group(name: str) -> str:
    """The group of a file, by its path from the root: a page itself, a package of the host or the gateware, or the first folder."""
    parts = name.split("/")
    if len(parts) == 1 or (parts[0] == "docs" and len(parts) == 2):
        return name
    if name.startswith(("host/wattbell/", "gateware/wattbell_gateware/")):
        return "/".join(parts[:3]) if len(parts) > 3 else "/".join(parts[:2])
    if parts[0] == "docs":
        return "/".join(parts[:2]) if parts[1] == "log" else name
    return parts[0]


@cache
def measured(root: Path = ROOT) -> dict[str, Prose]:
    """The prose of each group of a tree. The list of changes is a log, not a page."""
    found: dict[str, Prose] = {}
    tops = [root / name for name in ("cocotbext", "docs", "firmware", "gateware", "host", "hw", "sim", "spec", "studies", "tests", "tools")]
    for file in [*(root.glob("*.md")), *(file for top in tops if top.is_dir() for file in files(top))]:
        if file.name != "CHANGELOG.md":
            read(file, found.setdefault(group(file.relative_to(root).as_posix()), Prose()), root)
    return {name: prose for name, prose in sorted(found.items()) if prose.sentences}


def ceiling(figure: str, value: float) -> float:
    """A figure as the table writes it: rounded up, to a tenth where it is a share."""
    return math.ceil(value) if figure == "opening" else math.ceil(value * 10 - 1e-9) / 10


def wanted(prose: Prose, figure: str) -> float:
    """The limit for a group as it is now: its figure and room for one more, but no room above the aim, and never below the floor."""
    now, step = prose.figures()[figure], prose.unit()[figure]
    roomy = now if figure == "opening" else max(now, min(now + step, AIM[figure]))
    return max(FLOOR[figure], ceiling(figure, roomy))


def is_stale(prose: Prose, figure: str, limit: float) -> bool:
    """Whether a limit lies so far above its figure that it holds nothing: by more than 5 % and by more than three clauses or sentences."""
    step = prose.unit()[figure]
    slack = max(0.05 * limit, (2 if figure == "opening" else 3) * step)
    return limit > max(FLOOR[figure], wanted(prose, figure)) and limit - prose.figures()[figure] > slack


def row(name: str, limits: dict[str, float]) -> str:
    """A line of the table."""
    return f'"{name}" = {{ ' + ", ".join(f"{figure} = {limits[figure]:g}" for figure in NAMES) + " }"


def limits(table: Path = TABLE) -> dict[str, dict[str, float]]:
    """The table of limits: three figures for each group."""
    return tomllib.loads(table.read_text(encoding="utf-8")) if table.exists() else {}


def faults(found: dict[str, Prose], held: dict[str, dict[str, float]]) -> list[str]:
    """Return figures that do not agree with their limits, each in a line that says what to do."""
    wrong = [f"{name}: no such page or folder; delete its line" for name in held if name not in found]
    for name, prose in found.items():
        if name not in held:
            wrong.append(f"{name}: has no limit yet; python -m tests.prose --lower adds one, at most {row(name, AIM)}")
            continue
        now = prose.figures()
        for figure in NAMES:
            limit = held[name][figure]
            if now[figure] > limit + 1e-9:
                wrong.append(f"{name}: {figure} is {now[figure]:.2f}, above its limit {limit:g}; python -m tests.prose --worst 10 {name}")
            elif is_stale(prose, figure, limit):
                new = {**held[name], figure: wanted(prose, figure)}
                wrong.append(f"{name}: {figure} has fallen to {now[figure]:.2f}; lower its limit {limit:g}: {row(name, new)}")
    return wrong


def lowered(found: dict[str, Prose], held: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The table anew: each limit as it is or lower. A new group gets at most the aim; a group that is gone loses its line."""
    return {name: {figure: min(held.get(name, AIM)[figure], wanted(prose, figure)) for figure in NAMES} for name, prose in found.items()}


def write(rows: dict[str, dict[str, float]], table: Path = TABLE) -> None:
    """Write the table."""
    head = (
        "# Limits of tests/test_prose.py (tests/prose.py says what counts). They are only ever lowered: python -m tests.prose --lower\n\n"
    )
    table.write_text(head + "".join(row(name, rows[name]) + "\n" for name in sorted(rows)), encoding="utf-8")


def worst(prose: Prose, most: int) -> list[str]:
    """The sentences that cost most, and the openings, each with its place."""
    rated = sorted(((len(VAGUE.findall(s)) * 8 + max(0, len(s.split()) - LONG), place, s) for place, s in prose.sentences), reverse=True)
    bad = [f"{place}: {sentence}" for rate, place, sentence in rated if rate]
    return bad[:most] + [f"{place}: begins {text.strip().splitlines()[0]}" for place, text in prose.openings[:most]]


def main() -> None:
    """Print the figures, the worst sentences, or lower the limits."""
    parser = argparse.ArgumentParser(description="Show how readable pages and docstrings are, or lower their limits.")
    parser.add_argument("names", nargs="*", help="groups, or folders above them; without: all")
    parser.add_argument("--worst", type=int, default=0, help="print so many sentences and openings of each group")
    parser.add_argument("--lower", action="store_true", help="write the table anew; limits only fall")
    arguments = parser.parse_args()
    held = limits()
    if arguments.lower:
        write(lowered(measured(), held))
        return
    print(f"{'group':46} {'words':>6} {'vague':>6} {'limit':>6} {'long':>6} {'limit':>6} {'opening':>7} {'limit':>5}")
    for name, prose in measured().items():
        if arguments.names and not any(name == given.rstrip("/") or name.startswith(given.rstrip("/") + "/") for given in arguments.names):
            continue
        now, limit = prose.figures(), held.get(name, AIM)
        print(
            f"{name:46} {prose.words:6} {now['vague']:6.1f} {limit['vague']:6g} {now['long']:6.1f} {limit['long']:6g} "
            f"{now['opening']:7} {limit['opening']:5g}"
        )
        for line in worst(prose, arguments.worst) if arguments.worst else []:
            print("   ", line)


if __name__ == "__main__":
    main()
