"""Interrupt messages that the host sets up over the link: both fidelities give the instants, and agree on which instants are a guess."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattbell_spec.wire import UNKNOWN24

from tests.gateware.nvme.messages import SCENARIOS, US, Bus
from tests.sim.rig.rig_process import column, decode, play
from tests.sim.rig.rig_trace import PERST_N, TLP_DOWN, TLP_UP, encode, end, missed, rail, sideband
from tests.sim.rig.test_fidelity import compare


def trace_of(bus: Bus) -> bytes:
    rows = [sideband(0, PERST_N, 1), rail(0, 3.3, 0.5), *(sideband(time_ps / US, PERST_N, level) for time_ps, level in bus.resets)]
    for put in bus.put:
        kind = TLP_UP if put.up else TLP_DOWN
        if put.missed:
            rows.append(missed(put.time_ps - 1000, kind))
        rows.append((kind, 0, put.time_ps, put.raw))
    return encode([*sorted(rows, key=lambda row: row[2]), end(bus.now / US + 50)])


@pytest.mark.parametrize("name", SCENARIOS)
def test_instants_are_right_or_a_guess(name: str, tmp_path: Path) -> None:
    bus, guesses = SCENARIOS[name]()
    bus.finish()
    trace = tmp_path / "trace.wbt"
    trace.write_bytes(trace_of(bus))
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    names = ("cid", "msix_after", "interrupt_guessed")
    rows = zip(*(column(batches, "commands", field) for field in names), strict=True)
    assert {cid - 1: (after, guess) for cid, after, guess in rows} == bus.due(guesses)
    result = compare(trace)
    assert result["equal"] and result["caveat"] is None


def test_the_drive_models_host_shows_its_messages(drive_trace: Path, tmp_path: Path) -> None:
    batches, _ = decode(play(drive_trace, tmp_path, "--fidelity", "fast"))
    guessed, after, qids = (column(batches, "commands", name) for name in ("interrupt_guessed", "msix_after", "qid"))
    assert len(guessed) > 40 and not any(guessed)
    assert all(ticks != UNKNOWN24 for ticks, qid in zip(after, qids, strict=True) if qid)  # it enables them before the first I/O queue
