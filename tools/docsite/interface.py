"""The Python interface, out of its docstrings: directives of Sphinx for everything public that docs/python.md names."""

from __future__ import annotations

from collections.abc import Iterator

import wattbell
from wattbell import api, errors
from wattbell.analysis import result


def reference() -> str:
    """Return the sections of the page."""
    lines = [*section("Open a capture", "wattbell", wattbell.__all__, below=errors.WattbellError.__name__)]
    lines += section("Pictures and times", "wattbell.api", [name for name in api.__all__ if name not in wattbell.__all__])
    lines += section("Bounds of a capture", "wattbell.api.span", ["Bounds"])
    kinds = [name for name, of in vars(errors).items() if isinstance(of, type) and of.__module__ == errors.__name__]
    lines += section("Errors", "wattbell.errors", kinds)
    lines += section("A figure", "wattbell.measure.figure", ["Figure"])
    typed = [name for name, of in vars(result).items() if isinstance(of, type) and of.__module__ == result.__name__]
    lines += section("The result of an analysis", "wattbell.analysis.result", [name for name in typed if not name.startswith("_")])
    return "\n".join(lines)


def section(title: str, module: str, names: list[str], below: str = "") -> Iterator[str]:
    """Yield a heading and a directive for each name; without constants, and without the class that has a section of its own."""
    yield from (f"## {title}", "", "```{eval-rst}")
    for name in sorted(names, key=lambda one: one[0].isupper()):  # functions first
        if name.startswith("__") or name == below:
            continue
        kind = "class" if name[0].isupper() else "function"
        yield from (f".. auto{kind}:: {module}.{name}", *(["   :members:", "   :undoc-members:", ""] if kind == "class" else [""]))
    yield from ("```", "")
