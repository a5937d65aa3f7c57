"""The statements of the seed articles as data, and their check against measured results (``wattbell seeds-check``)."""

from .check import Outcome, check
from .statements import Statement, load_statements

__all__ = ["Outcome", "Statement", "check", "load_statements"]
