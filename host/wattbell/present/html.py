"""Pages: tables, charts and sections as HTML, by Jinja2 with autoescape: everything that is not in a template of ours is text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from wattbell.present import spoken
from wattbell.present.chart import Bars, Block, Chart, ChartSection, Lines, TimeLine, shown
from wattbell.present.colours import on_dark
from wattbell.present.table import BREAK, figure
from wattbell.text import printable


def _breaks(text: str) -> Markup:
    """Return ``text`` as HTML, with its line breaks and with the places that allow a break."""
    return escape(text).replace("\n", Markup("<br>")).replace(BREAK, Markup("<wbr>"))


def _runs(section: ChartSection) -> list[tuple[str, str, list[Block]]]:
    """(kind, heading, blocks) of the blocks that are laid out together: a test's bar charts, charts that share a row; others singly."""
    kinds = {Bars: "bars", Chart: "chart", TimeLine: "timeline", Lines: "lines"}

    def group(item: tuple[int, Block]) -> tuple[str, str, int]:
        place, block = item
        if isinstance(block, Bars):
            return "bars", block.group, 0
        if isinstance(block, Chart) and block.half:
            return "pair", "", 0
        return kinds.get(type(block), "table"), "", place

    return [(kind, heading, [b for _, b in found]) for (kind, heading, _), found in groupby(enumerate(section.blocks), group)]


@cache
def _environment(package: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(package), PackageLoader("wattbell.present")])
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    made.filters |= {"breaks": _breaks, "runs": _runs, "figure": lambda value, factor: figure(shown(value), factor)}
    made.filters |= {"paint": lambda colour: f"--c:{colour};--d:{on_dark(colour)}"}
    made.globals |= {"spoken_panel": spoken.of_panel, "spoken_lane": spoken.of_lane, "spoken_bars": spoken.of_bars}
    return made


def page(package: str, template: str, styles: Sequence[str], scripts: Sequence[str], data: Mapping[str, Any], **context: Any) -> str:
    """Return a self-contained page, which includes uPlot with its licence, from the package that brings it.

    styles, scripts: files of ``package``
    data: constants for the scripts
    """
    here, plotting = files(package), files("uplot") / "static"
    # an escaped "<" can neither end the script element nor open a comment in it
    constants = [json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c") for value in data.values()]
    text = (
        _environment(package)
        .get_template(template)
        .render(
            style=Markup("".join(file.read_text("utf-8") for file in (plotting / "uPlot.min.css", *(here / style for style in styles)))),
            library=Markup(plotting.joinpath("uPlot.iife.js").read_text("utf-8").replace("</script", "<\\/script")),
            data=Markup("".join(f"const {name}={value};\n" for name, value in zip(data, constants, strict=True))),
            code=Markup("".join(here.joinpath(script).read_text("utf-8") for script in scripts)),
            **context,
        )
    )
    return printable(text)
