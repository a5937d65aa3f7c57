"""Kinds of tests where a document does not say them: runs that were stored before it did."""

from __future__ import annotations

from ..suites.kinds.fill import Fill
from ..suites.kinds.idle import Idle
from ..suites.kinds.non_operational_states import NonOperationalStates
from ..suites.kinds.operational_states import OperationalStates
from ..suites.kinds.trace import Trace
from ..suites.kinds.wake import Wake

_BY_ID = {
    **dict.fromkeys(("idle", "active-idle"), Idle.name),
    **dict.fromkeys(("whole-drive-fill", "fill-of-a-90-percent-full-drive", "fill-of-a-full-drive"), Fill.name),
    "operational": OperationalStates.name,
    "non-operational": NonOperationalStates.name,
}


def kind_by_id(test: str) -> str:
    """The kind by the test's id, as far as pages need it; "" for all others."""
    if "wake-up" in test:
        return Wake.name
    if test.startswith("idle "):  # a level of a capture
        return Idle.name
    return Trace.name if test.startswith("atsb-") else _BY_ID.get(test, "")
