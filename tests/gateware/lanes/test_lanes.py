"""From lane words to command records: real Linux traffic, bit errors, sustained load."""

from __future__ import annotations

import pytest
from wattbell_spec.wire import EventType, ResetCause

from tests.gateware.lanes import bus_trace, chain, commands, lane_player, load, long_run

pytestmark = pytest.mark.xdist_group("lanes")  # one player, built by one worker


@pytest.fixture(scope="session")
def player():
    return lane_player.build()


@pytest.fixture(scope="session")
def linux(tmp_path_factory):
    """Return the trace of fio on a real Linux NVMe driver."""
    return bus_trace.linux("fio-10.0", tmp_path_factory.mktemp("trace"))


@pytest.mark.parametrize(("speed", "lanes", "tlps"), [pytest.param("8", 4, 1800, marks=pytest.mark.long), ("8", 4, 900), ("5", 2, 900)])
def test_linux_traffic_gives_the_same_records_as_without_lanes(player, linux, tmp_path, speed, lanes, tlps):
    """Every byte of every COMMANDS block is equal, ticks included."""
    trace = bus_trace.tlps(linux, limit=tlps)
    played = chain.play(player, chain.send(trace, speed, lanes, seed=lanes, faults=chain.Faults(wired=True, retrain_every=700)), tmp_path)
    assert [t.lost + t.damaged for t in played.tallies] == [0, 0] and sum(t.delivered for t in played.tallies) == tlps
    for direction in range(2):
        assert [(d.tick, d.raw) for d in played.lanes.tlps[direction]] == played.sent.clean(direction)
    found = chain.records(played.lanes.stream)
    assert len(found) > 20 and not any(r["flags"] & commands.UNSURE for r in found)
    assert chain.command_bytes(played.lanes.stream) == chain.command_bytes(played.alone.stream)


def test_a_hot_reset_reaches_the_tracker(player, linux, tmp_path):
    """Commands in flight end as aborted, at the tick of the reset."""
    trace = bus_trace.tlps(linux, limit=655)
    played = chain.play(player, chain.send(trace, "5", 2, seed=4, faults=chain.Faults(hot_reset=True)), tmp_path)
    told = [e for e in chain.events(played.lanes.stream) if (e.type, e.arg8) == (EventType.TRACKER_RESET, ResetCause.LINK)]
    begun_ps = [sender.reset_ps for sender in played.sent.senders]
    assert [0 <= event.tick - min(begun_ps) / 1000 < 2000 for event in told] == [True], (told, begun_ps)
    ended = [r for r in chain.records(played.lanes.stream) if r["flags"] & commands.ABORTED]
    alone = [r for r in chain.records(played.alone.stream) if r["flags"] & commands.ABORTED]
    assert len(ended) > 0 and not alone
    assert {r["cqe_tick"] for r in ended} == {told[0].tick}


@pytest.mark.parametrize(("speed", "lanes", "heard"), [("8", 4, 1.0), ("5", 2, 0.7)])
def test_bit_errors_make_no_phantoms(player, linux, tmp_path, speed, lanes, heard):
    """One bit error in 10 000 gives no TLP that was not sent, no record without its command, and no wrong record without a flag."""
    tallies, compared = long_run.nvme(player, bus_trace.tlps(linux, limit=800, thin=8), speed, lanes, 7, tmp_path, heard=heard)
    assert sum(t.damaged for t in tallies) > 10 and compared.whole > 50
    assert compared.phantom == compared.unnoticed == 0, compared
    # TLPs that the link itself lost were replayed. TLPs that only the tap lost (one in some microseconds) flag the commands in
    # flight.
    assert compared.equal > compared.whole * (0.5 if heard == 1 else 0.02), compared


@pytest.mark.parametrize(("speed", "lanes"), [("2.5", 4), ("8", 2)])
def test_random_tlps_make_no_command(player, tmp_path, speed, lanes):
    tallies = long_run.stress(player, speed, lanes, 1200, 3, tmp_path)
    assert sum(t.sent for t in tallies) == 1200 and sum(t.damaged for t in tallies) > 5


@pytest.mark.parametrize("data_bytes", [0, 4096])
def test_sustained_load(player, tmp_path, data_bytes):
    """830 000 commands per second at 8 GT/s x4, with USB taking 42 MB/s (tests/bench/load.py runs longer, and finds the first loss)."""
    outcome = load.play(player, 830_000, 0.2 if not data_bytes else 0.06, tmp_path, data_bytes=data_bytes, drain_ns=240_000)
    assert outcome.lossless and outcome.records > 45, outcome
