"""Order the sessions of a suite on a real drive, so that it is filled as seldom as the methods allow.

A session begins with Format NVM and a fill. Both may be left out after another session under two conditions:

- The other session began with the same Format and fill, and since then the drive was only read. So the data is still as the fill wrote it.
- The session begins with a rest, until the rail is at rest or for the time that the suite says. Reads between a fill and the end of that
  rest do not change the drive's inner work.

A session that needs a drive just filled has no such rest, and fills it itself (docs/methodology-suites.md, "Runs").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .outlook import writes_data
from .session import Session
from .step import Step


@dataclass
class _Chain:
    """Sessions on one filling of the drive. ``place``: original place of the first session."""

    place: int
    key: tuple[Step, ...]
    sessions: list[Session] = field(default_factory=list)
    written: bool = False


def order_sessions(sessions: Sequence[Session]) -> list[Session]:
    """Return the sessions in running order: those on full drives last, and ``goes_on_after`` set if one goes on with another's drive."""
    chains: list[_Chain] = []
    placed = sorted(enumerate(sessions), key=lambda each: (_turn(each[1]), each[0]))
    for place, session in placed:
        key = session.precondition
        rested, wrote = _begins_with_rest(session), _writes(session)
        chain = None
        if key and rested:
            chain = next((c for c in chains if c.key == key and not c.written), None)
        if chain is None:
            chain = _Chain(place, key)
            chains.append(chain)
        else:
            session = replace(session, goes_on_after=chain.sessions[-1].title)
        chain.sessions.append(session)
        chain.written = chain.written or wrote
    chains.sort(key=lambda chain: (chain.sessions[0].condition == "full", chain.place))
    return [session for chain in chains for session in chain.sessions]


def _turn(session: Session) -> int:
    """Return the rank of a session: heads of chains, then sessions that only read, then sessions that write, which end a chain."""
    return (2 if _writes(session) else 1) if _begins_with_rest(session) else 0


def _begins_with_rest(session: Session) -> bool:
    first = next(iter(session.steps[len(session.precondition) :]), None)
    return first is not None and (first.settle is not None or (first.idle_s is not None and not first.measured))


def _writes(session: Session) -> bool:
    return any(writes_data(step, session.files) for step in session.steps[len(session.precondition) :])
