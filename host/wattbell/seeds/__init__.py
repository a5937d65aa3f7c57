"""What the seed articles state, as data, and the check of it against measured results (``wattbell seeds-check``)."""

from .check import Outcome, check
from .statements import Statement, load_statements

__all__ = ["Outcome", "Statement", "check", "load_statements"]
