"""Every link of a page leads somewhere: the file is there, and so is the heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page, page, pages

TOP = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in ("build", ".git", ".venv")))
PATH = re.compile(rf"(?:{TOP})/[\w./-]*\w")
GENERATED = re.compile(r"^sim/target/|^gateware/.*\.v$")
"""Paths that builds make."""


def dead(of: Page, target: str) -> str:
    """Why a link leads nowhere; "" if it leads somewhere."""
    if re.match(r"[a-z]+:", target):
        return ""  # of the network, which tests do not ask
    file, _, anchor = target.partition("#")
    path = (ROOT / of.name).parent / file if file else ROOT / of.name
    if not path.exists():
        return f"{of.name}: no file {target}"
    if anchor and path.suffix == ".md":
        other = Page(path.resolve().relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        if anchor not in other.anchors():
            return f"{of.name}: no heading {target}"
    return ""


@pytest.mark.parametrize("of", pages(), ids=lambda of: of.name)
def test_links_lead_somewhere(of: Page) -> None:
    assert [why for target in of.links() if (why := dead(of, target))] == []


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("users-guide.md", ""),
        ("users-guide.md#suites", ""),
        ("#figures", ""),
        ("https://example.org/x", ""),
        ("nowhere.md", "no file"),
        ("users-guide.md#nowhere", "no heading"),
        ("img/no.png", "no file"),
        ("#nowhere", "no heading"),
    ],
)
def test_a_dead_link_is_found(target: str, found: str) -> None:
    text = f"# A\n## Figures\n[x]({target}) and ![y]({target})"
    of = Page("docs/new.md", text)
    if target.startswith("#"):
        assert (target[1:] in of.anchors()) == (found == "")
    else:
        assert len(of.links()) == 2 and all(found in dead(of, link) and bool(dead(of, link)) == bool(found) for link in of.links())


def test_anchors_are_githubs() -> None:
    text = "# What of `it`, and *why*?\n## A-b_c 2.1\n## Same\n## Same\n"
    assert Page("x.md", text).anchors() == {"what-of-it-and-why", "a-b_c-21", "same", "same-1"}


@pytest.mark.parametrize("of", pages(), ids=lambda of: of.name)
def test_files_that_a_page_names_exist(of: Page) -> None:
    """In code within a line, a path from the root of the repository."""
    named = {token.content for token in of.tokens() if token.type == "code_inline" and PATH.fullmatch(token.content)}
    bases = (ROOT, (ROOT / of.name).parent)
    assert [name for name in sorted(named) if not GENERATED.search(name) and not any((base / name).exists() for base in bases)] == []


def test_the_index_has_every_page_once() -> None:
    listed = [(Path("docs") / target).as_posix() for target in page("docs/README.md").links() if not target.startswith("http")]
    known = [each.name for each in pages() if each.name.startswith("docs/") and each.name != "docs/README.md"]
    assert sorted(target for target in listed if not target.startswith("docs/../")) == sorted(known)
