"""Events in words, each against the meaning that docs/wire-format.md gives its numbers."""

from __future__ import annotations

import pytest
from wattbell.capture.eventtext import NOT_FOLLOWED, event_text
from wattbell_spec.wire import EventType, GuessReason


@pytest.mark.parametrize(
    ("event", "numbers", "text"),
    [
        (EventType.LINK, (5, 0, 0), "link L1.2"),
        (EventType.LINK, (2, 0, 0), "link L0s"),
        (EventType.LINK, (0, 0, 0), "link unknown"),
        (EventType.LINK, (77, 0, 0), "link 77"),
        (EventType.LINK_STATE, (0, 2, 0), "link L0s, host to drive"),
        (EventType.LINK_STATE, (1, 1, 0), "link L0, drive to host"),
        (EventType.CLKREQ, (0, 0, 0), "CLKREQ# asserted"),
        (EventType.CLKREQ, (1, 0, 0), "CLKREQ# released"),
        (EventType.PERST, (0, 0, 0), "PERST# asserted"),
        (EventType.PERST, (1, 0, 0), "PERST# released"),
        (EventType.RUN, (1, 0, 0), "capture started"),
        (EventType.RUN, (0, 0, 0), "capture stopped"),
        (EventType.CC_EN, (1, 0, 0), "controller enabled"),
        (EventType.POWER_STATE, (3, 0, 0), "power state 3 set"),
        (EventType.POWER_STATE, (0x64, 0, 0), "power state 4 set"),
        (EventType.QUEUE_CREATED, (0, 7, 0), "submission queue 7 created"),
        (EventType.QUEUE_DELETED, (1, 2, 0), "completion queue 2 deleted"),
        (EventType.MARKER, (1, 0, 0xBEEF), "marker 0000BEEFh of the control port"),
        (EventType.MARKER, (0, 0, 0x102), "marker 00000102h"),
        (EventType.GUESSING, (3, 0x0101, 0), "two functions seen: the second is not followed (01:00.1)"),
        (
            EventType.GUESSING,
            (4, 2, 0),
            f"{NOT_FOLLOWED[GuessReason.SQE_PARTS]} (submission queue 2)",
        ),
        (EventType.GUESSING, (5, 2, 0), f"{NOT_FOLLOWED[GuessReason.SQES_UNREAD]} (submission queue 2)"),
        (EventType.GUESSING, (6, 0x0100, 0), f"{NOT_FOLLOWED[GuessReason.ADDRESS_SPACES]} (01:00.0)"),
        (EventType.MALFORMED, (1, 3, 0), "TLP refused, drive to host: encrypted"),
        (EventType.MALFORMED, (0, 5, 0), "TLP refused, host to drive: wrong length"),
        (EventType.MALFORMED, (0, 99, 0), "TLP refused, host to drive: class 99"),
        (EventType.SHUTDOWN, (1, 0, 0x464001), "shutdown notified: normal"),
        (EventType.SHUTDOWN, (3, 0, 0), "shutdown notified: 3"),
        (EventType.SHUTDOWN_STATUS, (2, 0, 500), "shutdown complete"),
        (EventType.SHUTDOWN_STATUS, (3, 0, 500), "shutdown 3"),
        (EventType.TRACKER_RESET, (1, 0, 0), "tracker reset: perst"),
        (EventType.TRACKER_RESET, (7, 0, 0), "tracker reset: unseen"),
        (EventType.TRACKER_RESET, (99, 0, 0), "tracker reset: 99"),
        (200, (1, 2, 3), "event 200 (1, 2, 3)"),
    ],
)
def test_words(event: int, numbers: tuple[int, int, int], text: str) -> None:
    assert event_text(int(event), *numbers) == text


def test_every_type_has_words_with_its_own_numbers() -> None:
    for event in EventType:
        assert event_text(int(event), 1, 2, 3).strip()
