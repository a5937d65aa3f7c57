"""The statements of the seed articles as data, and their check against measured results (``wattbell seeds-check``)."""

from .check import CheckedStatement, check
from .statements import Statement, load_statements

__all__ = ["CheckedStatement", "Statement", "check", "load_statements"]
