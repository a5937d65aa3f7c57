"""The whole instrument, played for 20 ms: every cycle, with idle cycles skipped, and with the tracker's clock gated.

The build for slow parts, with serial ADCs, is played with every cycle.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gateware import blockparser
from tests.gateware.instrument import cplayer
from tests.gateware.nvme.expect import allow_partial
from tests.host.wire import encoder

EVENT_NAMES = dict(
    enumerate(
        (
            "LINK",
            "CLKREQ",
            "PERST",
            "CC_EN",
            "SHADOW_DOORBELLS",
            "TRACKER_RESET",
            "MARKER",
            "LOSS",
            "QUEUE_CREATED",
            "QUEUE_DELETED",
            "BAR0",
            "POWER_STATE",
            "GUESSING",
            "MALFORMED",
            "RUN",
        ),
        1,
    )
)
pytestmark = pytest.mark.xdist_group("instrument")  # played once, not once per worker
OURS = ("LINK", "CLKREQ", "PERST", "MARKER", "LOSS", "RUN")
STATUS = struct.Struct("<IIHHHHHBBIIIHHQQQIIIIIIIIIQQQIII")


def records(block: blockparser.Block) -> list[dict[str, int]]:
    """Return command records in the form of the traffic model."""
    return [vars(command) for command in encoder.unpacked(block.payload, block.first_tick)]


def scripted(folder: Path, variant: str, *pace: str) -> tuple[Path, Path]:
    """Return a script for the player, and the expected results; `pace`: ticks per beat on the link."""
    script, expected = folder / "script", folder / "expected.json"
    options = cplayer.VARIANTS[variant]
    sizes = (str(options.width), str(options.ticks_per_clock))
    command = [sys.executable, "-m", "tests.gateware.instrument.scripted", *sizes, "7", str(script), str(expected), *pace]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3])
    return script, expected


@pytest.fixture(scope="module", params=["instrument_x4_word", pytest.param("instrument_slow", marks=pytest.mark.long)])
def played(request, tmp_path_factory):
    """Return (variant, expectations, {mode: Run})."""
    variant = request.param
    folder = tmp_path_factory.mktemp(variant)
    script, expected = scripted(folder, variant, *cplayer.PACE.get(variant, ()))
    player = cplayer.build(variant)
    runs = {
        mode: cplayer.play(player, script, folder / "stream", *mode.split())
        for mode in ("", "skip", "gate", "skip gate")[: 1 if variant in cplayer.SLOW else 4]
    }
    return variant, json.loads(expected.read_text()), runs


def last_run(runs):
    """Return the run that skips the most."""
    return blockparser.blocks(list(runs.values())[-1].stream)


def test_skipping_changes_no_byte(played):
    variant, _, runs = played
    every = runs[""]
    assert len(every.stream) > 60_000
    if variant in cplayer.SLOW:
        return
    for mode, run in runs.items():
        assert run.stream == every.stream, f"{mode}: differs at byte {first_difference(run.stream, every.stream)}"
        assert run.ticks == every.ticks, f"{mode}: word {first_difference(run.ticks, every.ticks)} comes in another cycle"
    assert runs["gate"].clocks == every.clocks and runs["gate"].bus_clocks < every.clocks / 3
    assert runs["skip"].clocks < every.clocks / 3


@pytest.mark.long
def test_a_tracker_that_is_late_changes_no_byte(tmp_path):
    """The stream is a function of ticks: with another latency for almost every TLP, the same words come in the same cycles.

    The link runs at a quarter of its rate. At the full rate, the queues before a tracker that rests so often would overflow.
    """
    script, _ = scripted(tmp_path, "instrument_x4_word", "16")
    every = cplayer.play(cplayer.build("instrument_x4_word"), script, tmp_path / "stream")
    late = cplayer.play(cplayer.build("instrument_late"), script, tmp_path / "late")
    assert late.stream == every.stream, f"differs at byte {first_difference(late.stream, every.stream)}"
    assert late.ticks == every.ticks, f"word {first_difference(late.ticks, every.ticks)} comes in another cycle"
    found = blockparser.blocks(late.stream)
    assert len(found) > 30 and sum(len(records(b)) for b in found if b.kind == blockparser.COMMANDS) > 100
    assert all(b.dropped == 0 for b in found if b.kind == blockparser.COMMANDS), "an overload shows nothing"


def first_difference(a: Sequence[int], b: Sequence[int]) -> int:
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_records_are_the_traffic_models(played):
    _, expected, runs = played
    found = last_run(runs)
    got = [r for b in found if b.kind == blockparser.COMMANDS for r in records(b)]
    assert sum(b.dropped for b in found if b.kind == blockparser.COMMANDS) == 0
    loose = [r for r in expected["records"] if "loose" in r]
    for r in loose:
        got.remove(next(g for g in got if (g["cqe_tick"], g["qid"], g["cid"]) == (r["cqe_tick"], r["qid"], r["cid"])))
    strict = [r for r in expected["records"] if "loose" not in r]
    assert len(got) == len(strict) > 300
    allow_partial(strict, expected["perhaps_partial"], ((g["cqe_tick"], g["qid"], g["cid"], g["flags"]) for g in got))
    key = lambda r: sorted(r.items())  # noqa: E731
    assert sorted(map(key, got)) == sorted(map(key, strict))


def test_events(played):
    variant, expected, runs = played
    clock = cplayer.VARIANTS[variant].ticks_per_clock
    found = last_run(runs)
    got = [
        (e.tick, EVENT_NAMES[e.type], e.arg8, e.arg16, e.arg32)
        for b in found
        if b.kind == blockparser.EVENTS
        for e in blockparser.events(b)
    ]
    after_start = [tuple(e) for e in expected["events"] if e[0] >= expected["start"]]
    assert Counter(e for e in got if e[1] not in OURS) == Counter(after_start)
    start = next(e[0] for e in got if e[1] == "RUN" and e[2] == 1)
    stop = next(e[0] for e in got if e[1] == "RUN" and e[2] == 0)
    assert 0 <= start - expected["start"] <= 3 * clock and 0 <= stop - expected["stop"] <= 3 * clock
    # At the start the levels, then the edges, each in the first cycle that could see it.
    levels = {"PERST": 1, "CLKREQ": 0, "LINK": 1}
    want = [(start, name, level) for name, level in levels.items()]
    for tick, *new in expected["edges"]:
        seen = -(-tick // clock) * clock
        for name, level in zip(levels, new, strict=True):
            if levels[name] != level:
                levels[name] = level
                want.append((seen, name, level))
    assert sorted(e[:3] for e in got if e[1] in levels) == sorted(want)
    markers = [(e[0], e[4]) for e in got if e[1] == "MARKER"]
    assert [m[1] for m in markers] == [m[1] for m in expected["markers"]]
    assert all(0 <= got_tick - tick <= 3 * clock for (got_tick, _), (tick, _) in zip(markers, expected["markers"], strict=True))


def test_status_blocks(played):
    variant, expected, runs = played
    found = [b for b in last_run(runs) if b.kind == blockparser.STATUS]
    assert len(found) == 3 and found[1].first_tick == 1 << 27
    first, second, last = (STATUS.unpack(b.payload) for b in found)
    assert (first[7], second[7], last[7]) == (1, 1, 0)
    options = cplayer.VARIANTS[variant]
    assert last[1:7] == (1000, options.ticks_per_clock, options.width, 64, 1024, 18)
    assert last[9:12] == (20, 500, 2000) and last[14:16] == (expected["tlps_down"], expected["tlps_up"])
    assert last[26] == expected["bar0"] and last[27:31] == (0, 0, 0, 0)


def test_loss_of_rail_samples_is_exact(played):
    _, _, runs = played
    stream = last_run(runs)
    assert [b.sequence for b in stream] == list(range(len(stream)))
    rails = [(b, blockparser.rail(b)) for b in stream if b.kind == blockparser.RAIL]
    dropped = sum(b.dropped for b, _ in rails)
    # 2 us between samples, 6 ms of stall, two buffers of 336.
    assert 2000 < dropped < 3000
    for (a, ra), (b, rb) in zip(rails, rails[1:], strict=False):
        if not rb.flags & 0x10:
            missing = (b.first_tick - a.first_tick) // ra.interval - len(ra.samples)
            assert missing == b.dropped and (b.first_tick - a.first_tick) % ra.interval == 0
    loss = [e for b in stream if b.kind == blockparser.EVENTS for e in blockparser.events(b) if e.type == 8]
    assert sum(e.arg32 for e in loss if e.arg8 == 7) == dropped
    status = STATUS.unpack(stream[-1].payload)
    assert stream[-1].kind == blockparser.STATUS and status[24] == dropped
