"""Requests of the block layer in the text of a kernel trace: ``block_rq_issue``, ``block_rq_complete`` and ``block_rq_requeue``.

An issue is ``259,0 R 4096 () 0 + 8 none,0,0 [fio]``. A completion is ``259,0 R () 0 + 8 none,0,0 [0]``, with the error in the last
brackets. Linux has the priority (``none,0,0``) since 6.2 (include/trace/events/block.h of the kernel).
"""

from __future__ import annotations

import re

from .blkparse import what_of
from .block import COMPLETE, ISSUE, REQUEUE, Request

BLOCK_EVENTS = {"block_rq_issue": ISSUE, "block_rq_complete": COMPLETE, "block_rq_requeue": REQUEUE}
_REQUEST = re.compile(
    r"(?P<device>\d{1,5},\d{1,8}) (?P<rwbs>[A-Z]{1,8}) (?:\d{1,10} )?\(.*?\) (?P<sector>\d{1,20}) \+ (?P<count>\d{1,10}) "
    r"(?:\S+ )?\[(?P<last>.*)\]$"
)
_NOWHERE = 1 << 62
"""Sectors from here on are none: a flush has no place, and the kernel prints -1 for it."""


def request_of(event: str, rest: str, ns: int) -> tuple[str, Request] | None:
    """(``major,minor`` of the device, request) of an event of :data:`BLOCK_EVENTS`; None for a request without data that is no flush, and
    for a text that cannot be read."""
    said = _REQUEST.match(rest)
    what = what_of(said["rwbs"]) if said else None
    if said is None or what is None:
        return None
    sector, count = int(said["sector"]), int(said["count"])
    if what == "sync":
        sector = count = 0
    elif not count or sector >= _NOWHERE:
        return None
    action = BLOCK_EVENTS[event]
    error = said["last"] if action == COMPLETE else "0"
    failed = int(error) if re.fullmatch(r"-?\d{1,6}", error) else 0
    return said["device"], Request(ns, action, what, sector, count, failed)
