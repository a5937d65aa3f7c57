"""The site's navigation: the tables of docs/README.md, which sort the pages by the four kinds of reader pages."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

START = "README"
"""The page that the site opens with; the file's name without its ending, from the root of the repository."""
INDEX = "docs/README"
"""The page with the tables."""
PAGES = ("*.md", "docs/**.md", "hw/*.md", "firmware/*.md", "cocotbext/*.md")
"""Patterns of the files that are pages."""


def sections(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each second-level heading of docs/README.md, with its pages as title and name from the root of the repository."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    title, pages = "", list[tuple[str, str]]()
    for before, token in zip(tokens, tokens[1:]):
        if before.type == "heading_open" and before.tag == "h2":
            if pages:
                yield title, pages
            title, pages = token.content, []
        elif before.type == "td_open":
            inner = token.children or []
            for link, words in zip(inner, inner[1:]):
                if link.type == "link_open":
                    target = posixpath.normpath(posixpath.join(posixpath.dirname(INDEX), str(link.attrs["href"])))
                    pages.append((words.content, target.removesuffix(".md")))
    if pages:
        yield title, pages


def toctrees(text: str) -> str:
    """Return the same as hidden directives of MyST, for the end of the first page."""
    lines = [f"\n```{{toctree}}\n:hidden:\n\nAll pages <{INDEX}>\n```\n"]
    for title, pages in sections(text):
        listed = "\n".join(f"{words} <{name}>" for words, name in pages)
        lines.append(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n```\n")
    return "".join(lines)


def without_pages(root: Path) -> list[str]:
    """Return the folders that Sphinx is not to walk through: those at the root, and those one level below, that no pattern names."""
    with_pages = {pattern.partition("/")[0] for pattern in PAGES if "/" in pattern}
    deep = {pattern.partition("/")[0] for pattern in PAGES if "**" in pattern}
    folders = [path for path in root.iterdir() if path.is_dir() and path.name not in deep]
    below = [inner for path in folders if path.name in with_pages for inner in path.iterdir() if inner.is_dir()]
    return sorted([path.name for path in folders if path.name not in with_pages] + [path.relative_to(root).as_posix() for path in below])
