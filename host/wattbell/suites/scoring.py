"""From a recorded session to the outcomes of its tests."""

from __future__ import annotations

from ..capture import Capture
from . import longrun, power, rates
from .manifest import Suite, Test
from .measure import Source
from .outcome import Outcome
from .plan import Session, test_sections
from .rounds import rounds


def score_test(source: Source, suite: Suite, test: Test, scale: float) -> Outcome:
    """Points and scores of one test of a capture; an empty outcome with a note when the capture has none of its phases."""
    sections = test_sections(suite, test)
    match test.kind:
        case "burst":
            out = rates.burst(source, test, sections)
        case "queue-depths":
            out = rates.queue_depths(source, test, sections)
        case "mixes":
            out = rates.mixes(source, test, sections)
        case "fill":
            out = rates.fill(source, test)
        case "consistency":
            out = longrun.consistency(source, test, scale)
        case "rounds":
            out = rounds(source, test, sections)
        case "trace":
            out = longrun.trace(source, test)
        case "idle":
            out = power.idle(source, test)
        case "wake":
            out = power.wake_up(source, test)
        case "operational-states":
            out = power.operational(source, test)
        case _:
            out = power.non_operational(source, test)
    if not out.points and not out.scores:
        out.notes.append("nothing was measured: the capture has no phase of this test")
    return out


def score_session(capture: Capture, suite: Suite, session: Session, scale: float) -> dict[str, Outcome]:
    """Outcomes of the tests of a session, by id."""
    source = Source(capture)
    return {test.id: score_test(source, suite, test, scale) for test in session.members}
