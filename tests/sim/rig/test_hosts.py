"""Hosts that share completion queues, space doorbells widely, delete queues and reuse their memory, and switch shadow doorbells on
and off (tests/gateware/nvme/hosts.py).

Over 150 ms, both fidelities give the same stream, with the contents that the host's model expects.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from wattbell_spec.wire import STATUS_PERIOD_TICKS, TICK_PS, EventType, GuessReason, LossSource

from tests.gateware.nvme.expect import allow_partial
from tests.sim.rig.rig_process import ORIGIN_TICK, ROOT, column, decode, find, play, run
from tests.sim.rig.rig_trace import TLP_DOWN, TLP_UP, US, Record, encode, missed, records, squeeze
from tests.sim.rig.test_fidelity import compare, disturbed

Host = tuple[Path, dict[str, list]]
MESSAGE = bytes([0x34, 0, 0, 0, 0, 0, 0, 0x7F]) + bytes(8)
"""A TLP that the tracker ignores."""
STRAY = bytes([0, 0, 0, 1, 1, 0, 0x5A, 0x0F, 0xFF, 0xFF, 0xF0, 0])
"""A read of the drive in a page that belongs to nobody: it fits nothing."""
TRACKER_EVENTS = [t for t in EventType if t.name not in ("LINK", "CLKREQ", "PERST", "RUN")]


@pytest.fixture(scope="module", params=[(3, 2), (4, 4)], ids=["stride2", "stride4"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """Make a trace, and the tracker's expected report."""
    folder = tmp_path_factory.mktemp("host")
    trace, expected = folder / "host.wbt", folder / "expected.json"
    program(trace, expected, *request.param)
    return trace, json.loads(expected.read_text())


@pytest.fixture(scope="module")
def polled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a trace of a host that also looks for CQEs before their interrupts."""
    folder = tmp_path_factory.mktemp("polled")
    program(folder / "host.wbt", folder / "none.json", 5, 2, "--polled")
    return folder / "host.wbt"


def program(trace: Path, expected: Path, *arguments: object) -> None:
    run([sys.executable, "-m", "tests.sim.rig.host_trace", *arguments[:2], trace, expected, *arguments[2:]], cwd=ROOT)


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
    allow_partial(strict, expected["perhaps_partial"], zip(*(got[name] for name in ("cqe_tick", "qid", "cid", "flags")), strict=True))
    have, want = rows(got, names), rows({name: [r[name] for r in strict] for name in names}, names)
    assert not want - have, f"not said: {[dict(zip(names, r, strict=True)) for r in list(want - have)[:3]]}"
    extra = [dict(zip(names, r, strict=True)) for r in (have - want).elements()]
    assert Counter((r["cqe_tick"], r["qid"], r["cid"]) for r in extra) == loose
    events = {name: column(batches, "events", name) for name in ("tick", "type", "arg8", "arg16", "arg32")}
    said = Counter(
        (tick - ORIGIN_TICK, EventType(kind).name, *args)
        for tick, kind, *args in zip(*events.values(), strict=True)
        if kind in TRACKER_EVENTS
    )
    assert said == Counter(map(tuple, expected["events"]))
    assert decoder.counters.missing_blocks == 0


def test_both_fidelities_are_equal(host: Host) -> None:
    """The whole trace is longer than every period and age: regular STATUS blocks, sweeps, losses."""
    result = compare(host[0], "--interval", 1e-4)
    assert result["caveat"] is None
    assert result["seconds"] > 0.134 and result["commands"] > 400


def test_both_fidelities_are_equal_where_the_tap_missed_something(host: Host, tmp_path: Path) -> None:
    """TLPs are missing, duplicated and changed: tags are reused, and LOSS events report unseen CQEs and doorbells."""
    trace = tmp_path / "disturbed.wbt"
    trace.write_bytes(encode(disturbed(list(records(host[0])), 7)))
    compare(trace, "--interval", 1e-4)
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    events = list(zip(*(column(batches, "events", name) for name in ("type", "arg8")), strict=True))
    assert (EventType.LOSS, LossSource.TAGS) in events and any(column(batches, "commands", "flags"))


def test_both_fidelities_are_equal_where_the_host_polls(polled: Path, tmp_path: Path) -> None:
    """The trace runs unchanged, and without its pauses: the next TLP then waits for the engine, which must not show in the stream."""
    assert compare(polled, "--interval", 1e-4)["caveat"] is None
    trace = tmp_path / "squeezed.wbt"
    trace.write_bytes(encode(with_gaps(records(polled), 1)))
    compare(trace, "--interval", 1e-4)
    for longest_us in (0.3, 0.5, 1):
        trace.write_bytes(encode(squeeze(records(polled), longest_us)))
        result = compare(trace, "--interval", 1e-5)
        assert result["caveat"] is None and result["commands"] > 400


def test_too_much_traffic_is_told_once(polled: Path, tmp_path: Path) -> None:
    """Several resets and all traffic come in 0.3 ms: the gateware is late, which fast does not imitate."""
    trace = tmp_path / "squeezed.wbt"
    for longest_us, told in ((0.1, 1), (1, 0)):
        trace.write_bytes(encode(squeeze(records(polled), longest_us)))
        command = [find("wattbell-rig"), "play", trace, "--output", tmp_path / "o", "--autostart", "--exit-on-done", "--fidelity", "fast"]
        assert run(command).stderr.count("warning: TLPs came faster than the tracker takes them") == told


def with_gaps(rows: Iterable[Record], seed: int) -> list[Record]:
    """Return the records without some TLPs, as from a tap that knows where it missed some."""
    rng = random.Random(seed)
    out: list[Record] = []
    gone = set()
    for row in rows:
        kind, _, time_ps, _ = row
        if kind in (TLP_DOWN, TLP_UP):
            if len(out) > 200 and rng.random() < 0.01:
                gone.add(kind)
                continue
            if kind in gone:
                gone.remove(kind)
                out.append(missed(time_ps, kind))
                if rng.random() < 0.5:
                    out.append((kind, 0, time_ps, MESSAGE))
        out.append(row)
    return out


def is_one_word_write(row: Record) -> bool:
    """Return whether the host writes one word: a doorbell, or another register or device."""
    kind, _, _, body = row
    return kind == TLP_DOWN and body[0] & 0x5F == 0x40 and body[3] == 1


def with_late_doorbells(rows: Iterable[Record], seed: int) -> list[Record]:
    """Return the records with some doorbells after the next one at their address, like replayed TLPs."""
    rng = random.Random(seed)
    out: list[Record] = []
    waiting: dict[bytes, bytes] = {}
    for row in rows:
        kind, flags, time_ps, body = row
        address = body[8:-4]
        if not is_one_word_write(row):
            out.append(row)
        elif address in waiting:
            late = time_ps + 12_000
            out += [missed(time_ps, kind), row, missed(late, kind), (kind, flags, late, waiting.pop(address))]
        elif len(out) > 200 and rng.random() < 0.1:
            waiting[address] = body
        else:
            out.append(row)
    return sorted(out, key=lambda row: row[2])


@pytest.mark.parametrize("change", [with_gaps, with_late_doorbells], ids=["gaps", "late"])
def test_both_fidelities_are_equal_where_the_tap_knows_what_it_missed(
    host: Host, tmp_path: Path, change: Callable[[Iterable[Record], int], list[Record]]
) -> None:
    trace = tmp_path / "missed.wbt"
    trace.write_bytes(encode(change(records(host[0]), 1)))
    compare(trace, "--interval", 1e-4)
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    events = set(zip(*(column(batches, "events", name) for name in ("type", "arg8")), strict=True))
    assert {(EventType.LOSS, LossSource.TLP_DOWN), (EventType.GUESSING, GuessReason.AFTER_LOSS)} <= events


def test_both_fidelities_are_equal_where_admin_doorbells_are_missing(host: Host, tmp_path: Path) -> None:
    """This includes sessions with shadow doorbells: an admin command was announced on the bus or not at all."""
    rows = list(records(host[0]))
    # Offset from BAR0 at which the first command of the first session rings: the lowest address of a frequent one-DW write.
    bells = Counter(row[3][8:-4] for row in rows if is_one_word_write(row))
    admin = min(address for address, count in bells.items() if count > 20)
    rng = random.Random(1)
    trace = tmp_path / "missing.wbt"
    trace.write_bytes(encode(row for row in rows if not (row[0] == TLP_DOWN and row[3][8:-4] == admin and rng.random() < 0.4)))
    compare(trace, "--interval", 1e-4)


@pytest.mark.parametrize("options", [(), ("--polled",)], ids=["interrupts", "polled"])
def test_both_fidelities_are_equal_where_any_doorbells_are_missing(tmp_path: Path, options: tuple[str, ...]) -> None:
    """No doorbell is left, or each third is missing without the tap's knowledge.

    These hosts have such small queues that a tail comes round to its old place before a fetch. One host polls a PRP list; its last entry
    is also the last of the page.
    """
    trace, rng = tmp_path / "host.wbt", random.Random(4)
    program(trace, tmp_path / "none.json", 4, 2, *options)
    assert compare(trace, "--interval", 1e-4)["caveat"] is None
    rows = enumerate(list(records(trace)))
    trace.write_bytes(encode(row for n, row in rows if not (n > 200 and is_one_word_write(row) and rng.random() < 0.3)))
    assert compare(trace, "--interval", 1e-4)["caveat"] is None


@pytest.mark.parametrize(("kind", "tlp", "reach"), [(TLP_DOWN, MESSAGE, 300), (TLP_UP, STRAY, 30)], ids=["seen", "unmatched"])
def test_status_counts_up_to_its_clock(host: Host, tmp_path: Path, kind: int, tlp: bytes, reach: int) -> None:
    """One TLP comes in each cycle around the regular STATUS block's.

    TLPs are counted when they come. TLPs that fit nothing are counted when the tracker has handled everything before the block's
    tick.
    """
    due = STATUS_PERIOD_TICKS  # a comparison plays from tick 0
    train = [(kind, 0, (due + 4 * k) * TICK_PS, tlp) for k in range(-reach, reach)]
    rows = [row for row in records(host[0]) if abs(row[2] - due * TICK_PS) > 5 * US]
    trace = tmp_path / "train.wbt"
    trace.write_bytes(encode(sorted([*rows, *train], key=lambda row: row[2])))
    assert compare(trace, "--interval", 1e-4)["caveat"] is None


def test_both_fidelities_are_equal_where_interrupts_mislead(tmp_path: Path) -> None:
    trace = tmp_path / "misled.wbt"
    program(trace, tmp_path / "none.json", 7, 1, "--misled")
    compare(trace, "--interval", 1e-4)
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    flushes = [n for n, qid in enumerate(column(batches, "commands", "qid")) if qid == 2]
    first, second = (column(batches, "commands", "msix_after")[n] for n in flushes[-2:])
    assert first > 50_000 > second - 2_000_000 > 20_000  # its own message; at most the twentieth of the other's


def test_both_fidelities_are_equal_where_the_tables_are_full(tmp_path: Path) -> None:
    """A page stays too crowded as long as that matters; there is one queue too many; nobody can read some SQEs."""
    trace = tmp_path / "crowded.wbt"
    program(trace, tmp_path / "none.json", 6, 1, "--crowded")
    compare(trace, "--interval", 1e-4)
    gaps = tmp_path / "gaps.wbt"
    gaps.write_bytes(encode(with_gaps(records(trace), 1)))
    compare(gaps, "--interval", 1e-4)
    batches, _ = decode(play(trace, tmp_path, "--fidelity", "fast"))
    events = set(zip(*(column(batches, "events", name) for name in ("type", "arg8")), strict=True))
    assert {(EventType.LOSS, source) for source in (LossSource.PAGES, LossSource.QUEUES, LossSource.TAGS)} <= events
