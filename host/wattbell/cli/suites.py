"""``wattbell suites``: lists the suites."""

from __future__ import annotations

from typing import Annotated

import typer

from . import complete, output
from .options import Json, Wide


def suites(
    name: Annotated[str | None, typer.Argument(metavar="SUITE", help="Show the tests of this one.", autocompletion=complete.suites)] = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """List the suites, or the tests of one.

    wattbell suites

    wattbell suites anandtech-2018
    """
    from rich.text import Text

    from ..suites.listing import suite_names
    from ..suites.manifest import load_suite

    if name is None:
        loaded = [load_suite(n) for n in suite_names()]
        if json:
            output.print_json([{"name": s.name, "title": s.title, "tests": len(s.tests), "hash": s.digest} for s in loaded])
            return
        table = output.table("suite", ">tests", "what it is")
        for suite in loaded:
            table.add_row(suite.name, str(len(suite.tests)), suite.title)
        output.out.print(table)
        return
    suite = load_suite(name)
    if json:
        rows = [{"id": t.id, "name": t.name, "kind": t.kind, "conditions": t.conditions, "default": t.default} for t in suite.tests]
        output.print_json({"name": suite.name, "title": suite.title, "hash": suite.digest, "tests": rows})
        return
    table = output.table("test", "name", "kind", "conditions", "job file", title=suite.title)
    for test in suite.tests:
        name_text = Text(test.name) if test.default else Text.assemble(test.name, (" (only with --tests)", "dim"))
        table.add_row(test.id, name_text, test.kind, ", ".join(test.conditions), test.jobs or test.trace or "-")
    output.out.print(table)
