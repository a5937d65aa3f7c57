"""Hosts that share completion queues, space doorbells widely, delete queues and use their memory again, switch shadow doorbells on and off
(tests/gateware/nvme/hosts.py), over 150 ms: both fidelities give the same stream, and it says what the host's model expects."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from rig_process import ORIGIN_TICK, column, decode, play, run
from rig_trace import encode, records
from test_fidelity import compare, disturbed
from wattbell.wire.spec import EventType, LossSource

Host = tuple[Path, dict[str, list]]
TRACKER_EVENTS = [t for t in EventType if t.name not in ("LINK", "CLKREQ", "PERST", "RUN")]


@pytest.fixture(scope="module", params=[(3, 2), (4, 4)], ids=["stride2", "stride4"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A trace, and what the tracker must say of it."""
    folder = tmp_path_factory.mktemp("host")
    trace, expected = folder / "host.wbt", folder / "expected.json"
    program(trace, expected, *request.param)
    return trace, json.loads(expected.read_text())


def program(trace: Path, expected: Path, *arguments: object) -> None:
    run([sys.executable, Path(__file__).with_name("host_trace.py"), *arguments[:2], trace, expected, *arguments[2:]])


def rows(table: dict[str, Iterable[int]], names: Iterable[str]) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(table[name] for name in names), strict=True))


def test_the_stream_says_what_the_host_did(host: Host, tmp_path: Path) -> None:
    trace, expected = host
    batches, decoder = decode(play(trace, tmp_path, "--fidelity", "fast"))
    loose = Counter((r["cqe_tick"], r["qid"], r["cid"]) for r in expected["records"] if "loose" in r)
    strict = [r for r in expected["records"] if "loose" not in r]
    names = list(strict[0])
    got = {name: column(batches, "commands", name) for name in names}
    got["cqe_tick"] = [tick - ORIGIN_TICK for tick in got["cqe_tick"]]
    have, want = rows(got, names), rows({name: [r[name] for r in strict] for name in names}, names)
    assert not want - have, f"not said: {[dict(zip(names, r, strict=True)) for r in list(want - have)[:3]]}"
    extra = [dict(zip(names, r, strict=True)) for r in (have - want).elements()]
    assert Counter((r["cqe_tick"], r["qid"], r["cid"]) for r in extra) == loose
    events = {name: column(batches, "events", name) for name in ("tick", "type", "arg8", "arg16", "arg32")}
    said = Counter((tick - ORIGIN_TICK, EventType(kind).name, *args)
                   for tick, kind, *args in zip(*events.values(), strict=True) if kind in TRACKER_EVENTS)  # fmt: skip
    assert said == Counter(map(tuple, expected["events"]))
    assert decoder.counters.missing_blocks == 0


def test_both_fidelities_are_equal(host: Host) -> None:
    """All of it, which is longer than every period and every age there is: of regular STATUS blocks, sweeps, losses."""
    result = compare(host[0], "--interval", 1e-4)
    assert result["caveat"] is None
    assert result["seconds"] > 0.134 and result["commands"] > 400


def test_both_fidelities_are_equal_where_the_tap_missed_something(host: Host, tmp_path: Path) -> None:
    """TLPs missing, twice and changed: tags are used again, CQEs and doorbells were not seen, which is said in LOSS events."""
    trace = tmp_path / "disturbed.wbt"
    trace.write_bytes(encode(disturbed(list(records(host[0])), 7)))
    compare(trace, "--interval", 1e-4)
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    events = list(zip(*(column(batches, "events", name) for name in ("type", "arg8")), strict=True))
    assert (EventType.LOSS, LossSource.TAGS) in events and any(column(batches, "commands", "flags"))


def test_both_fidelities_are_equal_where_the_tables_are_full(tmp_path: Path) -> None:
    """A page that is too crowded, for as long as that counts; a queue too many; SQEs that nobody can read."""
    trace = tmp_path / "crowded.wbt"
    program(trace, tmp_path / "none.json", 6, 1, "--crowded")
    compare(trace, "--interval", 1e-4)
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    events = set(zip(*(column(batches, "events", name) for name in ("type", "arg8")), strict=True))
    assert {(EventType.LOSS, source) for source in (LossSource.PAGES, LossSource.QUEUES, LossSource.TAGS)} <= events
