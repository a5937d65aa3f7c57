"""The pages of the repository as their readers get them: headings with anchors, links, code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]


@cache
def parsed(text: str) -> tuple[Token, ...]:
    """The tokens of the blocks of a page."""
    return tuple(MarkdownIt("commonmark").enable("table").parse(text))


@dataclass(frozen=True)
class Page:
    """A Markdown file. ``name``: from the root of the repository."""

    name: str
    text: str

    def tokens(self) -> Iterator[Token]:
        """Every token, those within a line too."""
        for token in parsed(self.text):
            yield token
            yield from token.children or ()

    def anchors(self) -> set[str]:
        """The anchors of headings, as GitHub makes them: lower case, words joined by hyphens, repeated ones numbered."""
        found: dict[str, int] = {}
        out = set()
        of_heading = False
        for token in self.tokens():
            if token.type == "inline" and of_heading:
                plain = "".join(part.content for part in token.children or () if part.type in ("text", "code_inline"))
                slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
                out.add(f"{slug}-{found[slug]}" if slug in found else slug)
                found[slug] = found.get(slug, 0) + 1
            of_heading = token.type == "heading_open"
        return out

    def links(self) -> list[str]:
        """The targets of links and pictures."""
        found = [token.attrs.get("href") or token.attrs.get("src") for token in self.tokens() if token.type in ("link_open", "image")]
        return [str(target) for target in found]

    def code(self) -> Iterator[str]:
        """The code within lines, and every line of blocks of commands; a line that ends in a backslash with the next one."""
        for token in self.tokens():
            if token.type == "code_inline":
                yield token.content
            elif token.type in ("fence", "code_block") and token.info in ("", "sh"):
                yield from re.sub(r"\s*\\\n\s*", " ", token.content).splitlines()


@cache
def pages() -> tuple[Page, ...]:
    """Those in the root, in docs/ and in hw/."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "hw").rglob("*.md")]
    return tuple(Page(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in sorted(found))


def page(name: str) -> Page:
    """The page of that name."""
    return next(each for each in pages() if each.name == name)
