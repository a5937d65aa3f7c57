"""Generator of the table of columns in docs/capture.md; the rest of the page is written by hand."""

from __future__ import annotations

from . import columns

__all__ = ["PATH", "markdown"]

PATH = "docs/capture.md"
BEGIN = "<!-- made by python -m wattbell_spec -->\n\n"
END = "\n<!-- end -->\n"


def _type(column: columns.StoredColumn) -> str:
    return f"{'i' if column.signed else 'u'}{column.bits}" + (", nullable" if column.nullable else "")


def _table() -> str:
    lines = ["| column | type | unit | content |", "|---|---|---|---|"]
    lines += [f"| `{column.name}` | {_type(column)} | {column.unit} | {column.meaning} |" for column in columns.COMMANDS]
    later = ", ".join(f"`{column.name}`" for column in columns.COMMANDS if column.later)
    return "\n".join([*lines, "", f"Older captures lack these columns, which then read as 0: {later}."]) + "\n"


def markdown(page: str) -> str:
    """Return the page with the table as it should be. Raises ValueError for a page without its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PATH} lacks the marks around its table of columns")
    return f"{before}{BEGIN}{_table()}{END}{after}"
