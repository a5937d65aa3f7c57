"""The statements of the seed articles as data, and their check against measured results (``python -m studies.seeds``)."""

from .check import CheckedStatement, check
from .statements import Statement, load_statements

__all__ = ["CheckedStatement", "Statement", "check", "load_statements"]
