"""Reports: :func:`write_report` makes one self-contained HTML file, and PNG and SVG of each plot."""

from .capture import write_report

__all__ = ["write_report"]
