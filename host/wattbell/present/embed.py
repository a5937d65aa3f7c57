"""What is put into a page: text into HTML, data into its script, labels into plots. Nothing that came with data is anything but text there.

HTML is made of ``Markup`` (markupsafe), which escapes every other string that is put into it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import plotly.offline
from markupsafe import Markup

from wattbell.analysis.text import printable


def document(title: str, styles: Sequence[str], body: Markup, name: str, data: Mapping[str, Any], script: str) -> str:
    """A page that needs nothing else: ``styles`` and ``script`` are files of this package, ``data`` is the script's constant ``name``."""
    here = files("wattbell.report")
    css = "".join(here.joinpath(style).read_text("utf-8") for style in styles)
    # an escaped "<" can neither end the script element nor open a comment in it
    payload = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    library = plotly.offline.get_plotlyjs().replace("</script", "<\\/script")
    code = here.joinpath(script).read_text("utf-8")
    text = Markup(
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        "<title>{} – Wattbell</title><style>{}</style></head><body><main>{}</main>"
        "<script>{}</script><script>const {}={};\n{}</script></body></html>\n"
    ).format(title, Markup(css), body, Markup(library), name, Markup(payload), Markup(code))
    return printable(str(text))


def bullets(texts: Iterable[str]) -> Markup:
    """A list, a text an item."""
    return Markup("<ul>{}</ul>").format(Markup().join(Markup("<li>{}</li>").format(text) for text in texts))


def note_below(note: str) -> Markup:
    """The note below a heading; nothing where there is none."""
    return Markup("<p class=note>{}</p>").format(note) if note else Markup()


def label(text: str) -> str:
    """``text`` for plotly.js, which reads tags, entities and ``%{...}`` in labels."""
    return escape(printable(text), quote=False).replace("%{", "&#37;{")


def plain(value: Any) -> Any:
    """Charts, tables and what else is drawn, with :func:`.printable` text in every string of it, however deep."""
    if isinstance(value, Markup):
        return Markup(printable(str(value)))
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return value if value and isinstance(value[0], int | float) else type(value)(plain(item) for item in value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)})
    return value
