"""The whole chain of docs/phy-tests.md from lane words to command records over a million TLPs and more, with bit errors of 1e-4.

``WATTBELL_TAP_TLPS`` TLPs in all (skipped without), more on faster links: random ones, and TLPs of a real Linux NVMe driver; replays,
nullified TLPs, retraining, skew, reversal, swapped wires. The TLPs sent, damaged, delivered and counted are left in build/tap/. And that
driver's traffic without errors, through the lanes and past them: the same records, byte by byte.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.gateware.lanes import bus_trace, chain, lane_player, long_run

ROOT = Path(__file__).resolve().parents[2]

TLPS = os.environ.get("WATTBELL_TAP_TLPS")
LINKS = {("8", 4): 20, ("8", 2): 16, ("8", 1): 11, ("5", 4): 15, ("5", 2): 11, ("5", 1): 6, ("2.5", 4): 11, ("2.5", 2): 6, ("2.5", 1): 4}
"""Percent of the TLPs, chosen so that each takes about as many cycles."""
pytestmark = [pytest.mark.timeout(0), pytest.mark.skipif(TLPS is None, reason="set WATTBELL_TAP_TLPS to a number of TLPs")]


@pytest.fixture(scope="module")
def player():
    return lane_player.build()


@pytest.fixture(scope="module")
def linux(tmp_path_factory):
    return bus_trace.linux("fio-10.0", tmp_path_factory.mktemp("trace"))


@pytest.mark.parametrize(("speed", "lanes"), [*LINKS])
def test_bit_errors(player, linux, tmp_path, speed, lanes):
    result = ROOT / f"build/tap/{speed}-x{lanes}.json"
    result.parent.mkdir(parents=True, exist_ok=True)
    trace = bus_trace.tlps(linux, thin=8)
    long_run.run(player, trace, speed, lanes, -(-int(TLPS) * LINKS[speed, lanes] // 100), tmp_path, result)


@pytest.mark.parametrize(("speed", "lanes"), [*LINKS])
@pytest.mark.parametrize("name", ["fio-10.0", "fio-11.1", "fio-shadow-11.1", "nvme-cli-11.1"])
def test_linux_traffic_gives_the_same_records_as_without_lanes(player, tmp_path, name, speed, lanes):
    trace = bus_trace.tlps(bus_trace.linux(name, tmp_path), limit=25_000)
    played = chain.play(player, chain.send(trace, speed, lanes, seed=lanes, faults=chain.Faults(wired=True, retrain_every=5000)), tmp_path)
    assert [t.lost + t.damaged for t in played.tallies] == [0, 0] and sum(t.delivered for t in played.tallies) == len(trace)
    assert len(chain.records(played.lanes.stream)) > 200
    assert chain.command_bytes(played.lanes.stream) == chain.command_bytes(played.alone.stream)
