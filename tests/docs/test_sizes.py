"""No page but reference has more than 3000 words: who learns or does something reads it from begin to end."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import Page, page, pages
from tools.docsite.navigation import sections

LONGEST = 3000
LOOKED_UP = "Reference"
"""Section of docs/README.md for pages that nobody reads from begin to end."""


def words(of: Page) -> int:
    """Words of text, headings and tables; without blocks of code and addresses of links."""
    lines = (token.children or () for token in of.tokens() if token.type == "inline")
    text = " ".join("".join(part.content or " " for part in line) for line in lines)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def reference() -> set[str]:
    return {f"{name}.md" for title, listed in sections(page("docs/README.md").text) if title == LOOKED_UP for _, name in listed}


def test_the_index_names_reference_pages() -> None:
    assert {"docs/scpi.md", "docs/registers.md", "CHANGELOG.md"} <= reference() < {each.name for each in pages()}


@pytest.mark.parametrize("of", [each for each in pages() if each.name not in reference()], ids=lambda of: of.name)
def test_a_page_that_is_read_is_not_too_long(of: Page) -> None:
    assert words(of) <= LONGEST, "split it (docs/README.md), or put it under Reference if nobody reads it from begin to end"


def test_words_are_those_that_a_reader_sees() -> None:
    text = "# A title\n\nTwo `of code`, a [link here](https://a.b).\nNext\n\n| a | b |\n|---|---|\n| - | c d |\n\n```sh\nnot this\n```\n"
    assert words(Page("x.md", text)) == 13
    assert words(Page("x.md", "word " * 3001)) == LONGEST + 1
