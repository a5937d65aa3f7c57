"""From a suite to plans: which tests run, in which sessions, on a drive in which condition."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UsageError
from .drive import Drive
from .kinds import KINDS
from .session import WAKE_SPAN_BYTES, Choice, Session, StepBuilder
from .step import FormatNvm, Step, Writing
from .suite import Fill, Suite, Test
from .units import size_bytes

SHORTEST_RAIL_INTERVAL_S = 1e-5
"""Lower limit when scaling: a rail sample every 10 us is 0.6 MB/s."""
MIN_SPAN_BLOCKS = 256


def choose_tests(suite: Suite, only: Sequence[str], condition: str | None) -> list[tuple[Test, str]]:
    """(test, condition) pairs to run. ``only``: ids of tests (empty: all that run by default). ``condition``:
    ``test-data`` (whatever each test has besides ``full``), ``full``, ``empty`` or None for all. Raises UsageError when none runs in that
    condition, or one that is asked for by name does not."""
    wanted = [suite.test(test_id) for test_id in only] or [t for t in suite.tests if t.default]
    pairs: list[tuple[Test, str]] = []
    for test in wanted:
        before = len(pairs)
        for has in test.conditions:
            if condition is None or has == condition or (condition == "test-data" and has != "full"):
                pairs.append((test, has))
        pairs += [(test, has) for has in test.more_conditions if has == condition]
        if only and len(only) > 1 and len(pairs) == before:
            known = ", ".join((*test.conditions, *test.more_conditions))
            raise UsageError(f"--condition {condition}: the test {test.id} has only {known}. Leave it out of --tests, or run it by itself.")
    if not pairs:
        raise UsageError(f"No test of {suite.name} runs in condition {condition}.")
    return pairs


def plan_sessions(suite: Suite, pairs: Sequence[tuple[Test, str]], drive: Drive, choice: Choice) -> list[Session]:
    """The sessions that run ``pairs``, in the order of the suite."""
    grouped: dict[tuple[str, str], list[Test]] = {}
    for test, condition in pairs:
        grouped.setdefault((condition, test.session), []).append(test)
    out = []
    for (condition, name), members in grouped.items():
        interval = min(t.rail_interval_s for t in members)
        if choice.scale < 1:
            interval = min(interval, max(SHORTEST_RAIL_INTERVAL_S, interval * choice.scale))
        session = Session(name, condition, members, interval)
        _precondition(session, drive, choice)
        for test in members:
            if condition == "full" and test.rest_s > 0:
                session.steps.append(Step(name=f"{test.id}-rest", idle_s=test.rest_s, measured=False))
            KINDS[test.kind].steps(StepBuilder(session, suite, test, drive, choice))
        out.append(session)
    return out


def _precondition(session: Session, drive: Drive, choice: Choice) -> None:
    """Plan how the drive reaches its condition: set in the model at once, or purged and written."""
    test = session.members[0]
    data = max(t.test_data for t in session.members)
    fill = test.fill
    if not choice.written and (fill is None or session.condition == "full"):
        session.start = session.condition
        if session.condition == "test-data":
            session.data_bytes = min(data or WAKE_SPAN_BYTES, drive.capacity_bytes)
        elif fill is not None:
            session.data_bytes = round(fill.span * drive.capacity_bytes)
        return
    session.start = "empty"
    if fill is None:
        if session.condition == "full":
            fill = Fill()
        elif session.condition == "test-data":
            fill = Fill(min(1.0, (data or WAKE_SPAN_BYTES) / drive.capacity_bytes))
    if choice.written or test.purge:
        session.steps.append(Step(name="purge", format=FormatNvm(drive.nsid, 1), measured=False))
    for k in range(fill.times if fill else 0):
        assert fill is not None
        least = MIN_SPAN_BLOCKS * size_bytes(fill.bs) / drive.capacity_bytes
        span = max(fill.span * choice.scale, least)
        name = "fill" if fill.times == 1 else f"fill#{k + 1}"
        session.steps.append(Step(name=name, fill=Writing(span, fill.bs), measured=False))
        session.written_bytes = round(span * drive.capacity_bytes)
