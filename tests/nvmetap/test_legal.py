"""Legal traffic: every command has the instants at which its TLPs were sent, without doubt, and no rule fires."""

from __future__ import annotations

import pytest
from cocotbext.nvmetap import Checker, Direction, LinkObserver

from tests.nvmetap.traffic import Traffic, traffic


def _instants(command: object) -> tuple[object, ...]:
    names = (
        "sqid",
        "cid",
        "opcode",
        "doorbell_ps",
        "fetch_ps",
        "first_data_ps",
        "last_data_ps",
        "cqe_ps",
        "interrupt_ps",
        "head_ps",
        "data_bytes",
    )
    return tuple(getattr(command, name) for name in names)


def _compare(played: Traffic) -> int:
    observer = LinkObserver()
    checker = Checker(observer)
    for packet in played.packets:
        observer.feed(packet.time_ps, Direction.DOWN if packet.down else Direction.UP, bytes(packet.data))
    observer.close()
    commands = list(observer.commands())
    assert not checker.violations
    assert not observer.unmatched
    assert [c for c in commands if c.doubts] == []
    assert sorted(map(_instants, commands), key=repr) == sorted(map(_instants, played.truth), key=repr)
    return len(commands)


@pytest.mark.parametrize("seed", range(20))
def test_legal_traffic_is_understood_whole(seed: int) -> None:
    assert _compare(traffic(seed, 60)) > 100


def test_many_commands_wrap_every_queue() -> None:
    assert _compare(traffic(99, 1200)) > 3600
