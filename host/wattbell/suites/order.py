"""In which order the sessions of a suite run on a real drive, so that it is filled as seldom as the methods allow.

A session begins with Format NVM and a fill. It may go on with the drive that another one leaves, without both, if
- that one began with the same Format and fill, and since then the drive was only read: what lies where is what the fill wrote; and
- it begins with a rest of its own, until the rail is at rest or for the time that the suite says: what happens inside a drive between a
  fill and the end of that rest does not depend on what was read meanwhile.
A session that is to find the drive just filled has no such rest, and fills it itself (docs/methodology-suites.md, "Runs").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .outlook import writes_data
from .session import Session
from .step import Step


@dataclass
class _Chain:
    """Sessions on one filling of the drive. ``place``: where the first of them stood."""

    place: int
    key: tuple[Step, ...]
    sessions: list[Session] = field(default_factory=list)
    written: bool = False


def order_sessions(sessions: Sequence[Session]) -> list[Session]:
    """The sessions as they are to run: those on full drives last, and ``goes_on_after`` set where one goes on with another's drive."""
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
    """Those that only read are placed before those that write, which end a chain; heads of chains before what follows them."""
    return (2 if _writes(session) else 1) if _begins_with_rest(session) else 0


def _begins_with_rest(session: Session) -> bool:
    first = next(iter(session.steps[len(session.precondition) :]), None)
    return first is not None and (first.settle is not None or (first.idle_s is not None and not first.measured))


def _writes(session: Session) -> bool:
    return any(writes_data(step, session.files) for step in session.steps[len(session.precondition) :])
