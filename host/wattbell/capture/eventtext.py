"""Describe events in a few words, for annotations and exports."""

from __future__ import annotations

from enum import IntEnum

from wattbell_spec.wire import EventType, GuessReason, LinkState, LossSource, MalformedClass, MarkerSource, ResetCause

_NAMES = {
    EventType.CLKREQ: ("CLKREQ# asserted", "CLKREQ# released"),
    EventType.PERST: ("PERST# asserted", "PERST# released"),
    EventType.RUN: ("capture stopped", "capture started"),
    EventType.CC_EN: ("controller disabled", "controller enabled"),
}
_OF_ARG8: dict[EventType, tuple[str, type[IntEnum]]] = {
    EventType.TRACKER_RESET: ("tracker reset:", ResetCause),
    EventType.GUESSING: ("queue positions inferred:", GuessReason),
}
NOT_FOLLOWED: dict[int, str] = {
    GuessReason.SECOND_FUNCTION: "two functions seen: the second is not followed",
    GuessReason.SQE_PARTS: "the drive reads queue entries in parts: commands have no entry, and new queues are not followed",
    GuessReason.ADDRESS_SPACES: "the drive uses addresses of processes (PASID): commands may be missing, the others are guesses",
    GuessReason.SQES_UNREAD: "the drive does not read a queue's entries, which may lie in the drive's memory: the commands have no entry",
}
"""Reports of the gateware that commands are missing, by reason: the first lines of a capture's description."""
_REFUSED: dict[int, str] = {
    MalformedClass.CUT: "cut short",
    MalformedClass.PREFIXES: "prefixes that PCIe forbids",
    MalformedClass.ENCRYPTED: "encrypted",
    MalformedClass.FORMAT: "unknown format",
    MalformedClass.LENGTH: "wrong length",
    MalformedClass.BOUNDARY: "crosses a 4 KiB boundary",
    MalformedClass.POISONED: "poisoned",
    0: "no class (a rig before this version)",
}
_SHUTDOWNS = {1: "normal", 2: "abrupt"}
_SHUTDOWN_STATES = {0: "status: none", 1: "in progress", 2: "complete"}
"""NVMe: CC, SHN; CSTS, SHST."""
_QUEUES = ("submission", "completion")
_DIRECTIONS = ("host to drive", "drive to host")
LINK_STATES = {int(state): state.name.replace("_", ".").replace("L0S", "L0s") for state in LinkState} | {0: "unknown"}
"""LinkState as an engineer writes it."""


def event_text(kind: int, arg8: int, arg16: int, arg32: int) -> str:
    """The event in words; of a type that this version does not know, its numbers."""
    try:
        event = EventType(kind)
    except ValueError:
        return f"event {kind} ({arg8}, {arg16}, {arg32})"
    if event in _NAMES:
        return _NAMES[event][1 if arg8 else 0]
    if event is EventType.LINK:
        return f"link {LINK_STATES.get(arg8, arg8)}"
    if event is EventType.LINK_STATE:
        return f"link {LINK_STATES.get(arg16, arg16)}, {_DIRECTIONS[arg8 & 1]}"
    if event is EventType.MARKER:
        return f"marker {arg32:08X}h" + ("" if arg8 == MarkerSource.IN_BAND else " of the control port")
    if event is EventType.LOSS:
        return f"lost: {arg32} {_of(LossSource, arg8)}"
    if event in (EventType.QUEUE_CREATED, EventType.QUEUE_DELETED):
        done = "created" if event is EventType.QUEUE_CREATED else "deleted"
        return f"{_QUEUES[arg8 & 1]} queue {arg16} {done}"
    if event is EventType.SHUTDOWN:
        return f"shutdown notified: {_SHUTDOWNS.get(arg8, arg8)}"
    if event is EventType.SHUTDOWN_STATUS:
        return f"shutdown {_SHUTDOWN_STATES.get(arg8, arg8)}"
    if event is EventType.POWER_STATE:
        return f"power state {arg8 & 31} set"
    if event is EventType.GUESSING and arg8 in NOT_FOLLOWED:
        function = f"{arg16 >> 8:02x}:{arg16 >> 3 & 31:02x}.{arg16 & 7}"
        of_function = arg8 in (GuessReason.SECOND_FUNCTION, GuessReason.ADDRESS_SPACES)
        return f"{NOT_FOLLOWED[arg8]} ({function if of_function else f'submission queue {arg16}'})"
    if event is EventType.MALFORMED:
        return f"TLP refused, {_DIRECTIONS[arg8 & 1]}: {_REFUSED.get(arg16, f'class {arg16}')}"
    if event in _OF_ARG8:
        text, names = _OF_ARG8[event]
        return f"{text} {_of(names, arg8)}"
    return f"{event.name.lower().replace('_', ' ')} {arg8} {arg16} {arg32:X}h"


def _of(names: type[IntEnum], value: int) -> str:
    try:
        return names(value).name.lower().replace("_", " ")
    except ValueError:
        return str(value)
