"""From a recorded session to the outcomes of its tests."""

from __future__ import annotations

from ..capture import Capture
from ..measure.source import Source
from . import health
from .kinds import KINDS
from .outcome import Outcome
from .peaks import find_peaks
from .session import Session
from .suite import Suite, Test


def score_test(source: Source, suite: Suite, test: Test, scale: float) -> Outcome:
    """Points and scores of one test of a capture; an empty outcome with a note when the capture has none of its phases."""
    out = KINDS[test.kind].score(source, test, suite.sections(test), scale)
    if not out.points and not out.scores:
        out.notes.append("nothing was measured: the capture has no phase of this test")
    return out


def score_session(capture: Capture, suite: Suite, session: Session, scale: float) -> dict[str, Outcome]:
    """Outcomes of the tests of a session, by id."""
    source = Source(capture)
    found = {test.id: score_test(source, suite, test, scale) for test in session.members}
    record = health.load(capture.workload_dir)
    if record is not None:
        phases = [str(phase.get("name")) for phase in (capture.meta.get("workload") or {}).get("phases") or []]
        for test_id, outcome in found.items():
            outcome.health = health.of_test(record, phases, test_id, list(found))
            outcome.notes += health.notes(outcome.health)
    for outcome in found.values():
        outcome.notes += source.seen
    for test_id, peaks in find_peaks(source, session.members).items():
        found[test_id].peaks = peaks
    return found
