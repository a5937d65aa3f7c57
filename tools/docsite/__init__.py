"""The documentation site: Sphinx reads the Markdown pages where they are, and writes HTML to build/docs.

    python -m tools.docsite          the same as `make docs`

docs/README.md gives the navigation. Three pages have a mark that the site replaces: docs/cli.md by all commands of the program, docs/api.md
and docs/nvmetap-api.md by the docstrings of two packages.

Every warning is an error: a dead link, an unknown anchor, a page that docs/README.md lacks.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygments.lexers.special import TextLexer

from tools.docsite.navigation import INDEX, PAGES, START, toctrees, without_pages

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

COMMANDS = "<!-- make docs: the commands -->"
PYTHON = "<!-- make docs: the Python interface -->"
MONITOR = "<!-- make docs: the interface of cocotbext-nvmetap -->"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect these functions to the events of Sphinx."""
    app.connect("config-inited", choose)
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", fields)
    app.connect("build-finished", start_page)
    app.add_lexer("scpi", TextLexer)
    return {"parallel_read_safe": True}


def choose(app: Sphinx, config: Config) -> None:
    """Tell Sphinx which files are pages, and which folders have none."""
    config.include_patterns = list(PAGES)
    config.exclude_patterns = without_pages(Path(app.srcdir))


def complete(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the made parts to a page: the navigation to the first one, references in place of their marks."""
    if name == START:
        source[0] += toctrees((Path(app.srcdir) / f"{INDEX}.md").read_text(encoding="utf-8"))
    if COMMANDS in source[0]:
        from tools.docsite import commands

        source[0] = source[0].replace(COMMANDS, commands.reference())
    if PYTHON in source[0]:
        from tools.docsite import interface

        source[0] = source[0].replace(PYTHON, interface.reference())
    if MONITOR in source[0]:
        from tools.docsite import interface

        source[0] = source[0].replace(MONITOR, interface.monitor_reference())


def fields(app: Sphinx, kind: str, name: str, of: object, options: Any, lines: list[str]) -> None:
    """Turn a docstring's lines `name: text` and its lists of parameters into fields, and its names of pages into links."""
    lines[:] = sections_as_fields(lines)
    text = re.sub(r"(?<![`\w])docs/([\w-]+)\.md", r":doc:`/docs/\1`", "\n".join(lines))
    lines[:] = re.sub(r"^([a-z_]\w*(?:, [a-z_]\w*)*): (?=\S)", r":\1: ", text, flags=re.MULTILINE).split("\n")


def sections_as_fields(lines: list[str]) -> list[str]:
    """Turn the entries under `Parameters:` and `Raises:` into fields of Sphinx, at the margin."""
    out: list[str] = []
    kind = ""
    for line in lines:
        if line in ("Parameters:", "Raises:"):
            kind = "param" if line == "Parameters:" else "raises"
            out.append("")
            continue
        entry = re.match(r"    ([\w.]+): (.*)", line)
        if kind and entry:
            out.append(f":{kind} {entry[1]}: {entry[2]}")
        elif kind and line.startswith("        "):
            out.append(f"    {line.strip()}")
        else:
            kind = kind if not line else ""
            out.append(line)
    return out


def start_page(app: Sphinx, error: Exception | None) -> None:
    """Give the first page the name that a browser or server looks for."""
    if error is None and app.builder.name == "html":
        shutil.copyfile(Path(app.outdir) / f"{START}.html", Path(app.outdir) / "index.html")
