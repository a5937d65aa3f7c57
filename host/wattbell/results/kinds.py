"""Kinds of tests where a document does not say them: runs that were stored before it did."""

from __future__ import annotations

from ..suites.kinds.fill import FillTest
from ..suites.kinds.idle import IdleTest
from ..suites.kinds.non_operational_states import NonOperationalStatesTest
from ..suites.kinds.operational_states import OperationalStatesTest
from ..suites.kinds.trace import TraceTest
from ..suites.kinds.wake import WakeTest

_BY_ID = {
    **dict.fromkeys(("idle", "active-idle"), IdleTest.name),
    **dict.fromkeys(("whole-drive-fill", "fill-of-a-90-percent-full-drive", "fill-of-a-full-drive"), FillTest.name),
    "operational": OperationalStatesTest.name,
    "non-operational": NonOperationalStatesTest.name,
}


def kind_by_id(test: str) -> str:
    """The kind by the test's id, as far as pages need it; "" for all others."""
    if "wake-up" in test:
        return WakeTest.name
    if test.startswith("idle "):  # a level of a capture
        return IdleTest.name
    return TraceTest.name if test.startswith("atsb-") else _BY_ID.get(test, "")
