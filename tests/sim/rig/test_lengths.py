"""Lengths of data in traffic with lists, metadata and formats: instants of data are right, or flagged, in both fidelities alike.

The hosts and drives come from ``tests.traffic``, which know nothing of the tracker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.rig.rig_process import column, decode, play
from tests.sim.rig.test_fidelity import compare
from tests.traffic.generate import generate
from tests.traffic.judge import judge, read
from tests.traffic.kinds import draw

PARTIAL = 0x04


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("extended", 10), ("mptr", 10), ("lba8192", 11), ("formats", 10), ("format_nvm", 10), ("ats", 10), ("data_ca", 12)],
)
def test_no_data_is_wrong_without_a_flag(kind: str, seed: int, tmp_path: Path) -> None:
    traffic = generate(draw(seed, (kind,), 60))
    trace = tmp_path / "traffic.wbt"
    trace.write_bytes(traffic.trace())
    stream = play(trace, tmp_path, "--fidelity", "fast")
    verdict = judge(traffic.deeds, read(stream))
    assert not verdict.names["first_data"] and not verdict.names["last_data"] and verdict.right > 5
    batches, _ = decode(stream)
    rows = list(zip(*(column(batches, "commands", name) for name in ("length_checked", "flags", "status")), strict=True))
    assert any(checked and not flags for checked, flags, _ in rows)
    if kind == "data_ca":  # a failed command may move less
        assert any(checked and not flags and status for checked, flags, status in rows)
    elif kind == "ats":  # translated addresses are not the host's pointers
        assert any(flags & PARTIAL for _, flags, _ in rows)
    else:
        assert verdict.flagged == 0 and not any(flags & PARTIAL for _, flags, _ in rows)
    result = compare(trace)
    assert result["equal"] and result["caveat"] is None


@pytest.mark.parametrize("seed", [10, 11])
def test_reads_of_zero_bytes_are_no_data(seed: int, tmp_path: Path) -> None:
    traffic = generate(draw(seed, ("one_queue+zero_read",), 100))
    trace = tmp_path / "traffic.wbt"
    trace.write_bytes(traffic.trace())
    verdict = judge(traffic.deeds, read(play(trace, tmp_path, "--fidelity", "fast")))
    assert verdict.silent == verdict.flagged == 0 and verdict.right > 90
    assert compare(trace)["equal"]
