"""Edge cases: limits met exactly, tables to the last entry, and the rest where something is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from wattbell.analysis import analyze, figures_of, stretches
from wattbell.analysis.context import load
from wattbell.analysis.fio import totals
from wattbell.analysis.names import status_name
from wattbell.analysis.signals import track
from wattbell.analysis.wakeup import Sidebands
from wattbell.capture.meta import save
from wattbell.measure import rail
from wattbell.measure.fiojson import FioDirection, FioJob, Latency
from wattbell.present.capture.tables import splits
from wattbell_spec.wire import EventType, LinkState

US, MS, S = 1_000, 1_000_000, 1_000_000_000
GENERIC = """01 Invalid Command Opcode|02 Invalid Field in Command|04 Data Transfer Error|05 Aborted due to Power Loss|06 Internal Error
07 Command Abort Requested|08 Aborted due to SQ Deletion|0b Invalid Namespace or Format|0c Command Sequence Error
11 SGL Descriptor Type Invalid|13 PRP Offset Invalid|1d Sanitize In Progress|80 LBA Out of Range|81 Capacity Exceeded
82 Namespace Not Ready|84 Format In Progress"""
SPECIFIC = """00 Completion Queue Invalid|01 Invalid Queue Identifier|02 Invalid Queue Size
05 Asynchronous Event Request Limit Exceeded|08 Invalid Interrupt Vector|09 Invalid Log Page|0a Invalid Format
0c Invalid Queue Deletion|0d Feature Identifier Not Saveable|15 Namespace Insufficient Capacity|16 Namespace Identifier Unavailable
18 Namespace Already Attached|1a Namespace Not Attached|1b Thin Provisioning Not Supported|1c Controller List Invalid
1d Device Self-test In Progress|3e Invalid Power Limit|80 Conflicting Attributes|b8 Zoned Boundary Error
b9 Zone Is Full
ba Zone Is Read Only|bb Zone Is Offline|bc Zone Invalid Write|bd Too Many Active Zones|be Too Many Open Zones
bf Invalid Zone State Transition"""
MEDIA = "80 Write Fault|81 Unrecovered Read Error|85 Compare Failure|86 Access Denied|87 Deallocated or Unwritten Logical Block"


@pytest.mark.parametrize(("kind", "table"), [(0, GENERIC), (1, SPECIFIC), (2, MEDIA)])
def test_status_codes_have_the_names_of_the_specification(kind: int, table: str) -> None:
    """All 256 codes of a type; unlisted ones have only a number."""
    names = {int(entry[:2], 16): entry[3:] for line in table.splitlines() for entry in line.split("|")}
    for code in range(256):
        assert status_name(kind << 8 | code) == f"{kind}/{code:02x} {names.get(code, '')}".strip()


def test_long_idle_times_have_wider_bins(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "MAX_BINS", 100)
    builder.power(0, 0.5)
    builder.command(MS, MS)
    builder.command(1002 * MS, MS)
    builder.command(2003 * MS, MS)
    assert analyze(builder.write(end=2004 * MS))["idle"]["bin_s"] == pytest.approx(20e-3)  # 2 s in a hundred


def test_at_most_a_thousand_wake_ups_are_listed_and_all_are_counted(builder: Any) -> None:
    for k in range(1003):
        builder.command(MS + 25 * MS * k, MS)
    found = analyze(builder.write())["wakeup"]
    assert len(found["events"]) == 1000 and sum(group["count"] for group in found["by_state"]) == 1002


def events(*rows: tuple[int, EventType, int]) -> pl.DataFrame:
    kinds = {"tick": pl.Int64, "type": pl.UInt8, "arg8": pl.UInt8, "arg16": pl.UInt16, "arg32": pl.UInt32}
    columns = zip(*[(tick, int(kind), value, 0, 0) for tick, kind, value in rows])
    return pl.DataFrame(dict(zip(kinds, map(list, columns), strict=True)), schema=kinds)


@pytest.mark.parametrize(
    ("asserted", "exit_ticks", "from_clkreq"),
    [
        (99, 180, None),
        (100, 200, 500),
        (101, 199, 499),
        (600, None, 0),
        (601, 180, None),
    ],
)
def test_clkreq_belongs_to_a_wake_up_from_the_begin_of_the_idle_time_to_its_completion(
    asserted: int, exit_ticks: int | None, from_clkreq: int | None
) -> None:
    """Idle from tick 100, completed at 600; recovery at 120 and L0 at 300."""
    found = Sidebands(
        events((120, EventType.LINK, int(LinkState.RECOVERY)), (300, EventType.LINK, int(LinkState.L0)), (asserted, EventType.CLKREQ, 0))
    ).link_part(100, 600, 1.0)
    assert found == {"link_exit_s": exit_ticks, "from_clkreq_s": from_clkreq}


def test_the_links_exit_is_the_first_within_the_wake_up() -> None:
    links = [
        (50, LinkState.L0),
        (100, LinkState.L1_2),
        (150, LinkState.RECOVERY),
        (160, LinkState.RECOVERY),
        (170, LinkState.L0),
        (180, LinkState.L0),
        (600, LinkState.L0),
    ]
    rows = [(tick, EventType.LINK, int(state)) for tick, state in links]
    assert Sidebands(events(*rows)).link_part(100, 600, 1.0) == {"link_exit_s": 20, "from_clkreq_s": None}
    assert Sidebands(events(*rows)).link_part(165, 600, 1.0)["link_exit_s"] is None  # nothing says when it began
    assert Sidebands(events(*rows[:-3], *rows[-1:])).link_part(100, 600, 1.0)["link_exit_s"] is None  # not before the completion


def test_a_track_of_a_signal_by_pieces() -> None:
    signal = track(events((10, EventType.CLKREQ, 1), (30, EventType.CLKREQ, 0), (40, EventType.LINK, 7)), EventType.CLKREQ, 5)
    assert signal is not None and track(events((1, EventType.LINK, 1)), EventType.CLKREQ, 0) is None
    assert [signal.at(tick) for tick in (0, 10, 11, 30, 31)] == [5, 5, 1, 1, 0]
    assert list(signal.pieces(0, 50)) == [(5, 10), (1, 20), (0, 20)] and list(signal.pieces(10, 30)) == [(1, 20)]
    assert list(signal.pieces(12, 13)) == [(1, 1)] and list(signal.pieces(0, 10)) == [(5, 10)]


@pytest.mark.parametrize(
    ("bit", "spoiled"),
    [
        (0, {"doorbell_to_fetch"}),
        (1, {"doorbell_to_fetch", "fetch_to_first_data", "fetch_to_cqe"}),
        (2, {"fetch_to_first_data", "data"}),
        (3, {"data", "last_data_to_cqe"}),
        (4, {"cqe_to_msix"}),
        (5, {"cqe_to_cq_head"}),
    ],
)
def test_a_saturated_age_is_in_no_split_that_begins_or_ends_with_it(builder: Any, bit: int, spoiled: set[str]) -> None:
    for k in range(3):
        start = MS * (k + 1)
        builder.command(
            start,
            100 * US,
            first_data_tick=start + 50 * US,
            last_data_tick=start + 60 * US,
            msix_tick=start + 101 * US,
            cq_head_tick=start + 102 * US,
            saturated=1 << bit if k == 1 else 0,
        )
    splits = analyze(builder.write())["commands"]["by_opcode"]["read"]["splits_s"]
    names = ("doorbell_to_fetch", "fetch_to_first_data", "data", "last_data_to_cqe", "fetch_to_cqe", "cqe_to_msix", "cqe_to_cq_head")
    assert {name: split["n"] for name, split in splits.items()} == {name: 2 if name in spoiled else 3 for name in names}


def test_a_guessed_interrupt_marks_its_split_and_warns(builder: Any) -> None:
    """Reads are guessed in one case of three, writes in none."""
    for k in range(3):
        for at, opcode in ((0, 2), (500 * US, 1)):
            start = MS * (k + 1) + at
            guess = int(k == 1 and opcode == 2)
            builder.command(
                start, 100 * US, opcode=opcode, msix_tick=start + 101 * US, cq_head_tick=start + 102 * US, interrupt_guessed=guess
            )
    capture = builder.write()
    found = figures_of(capture)
    reads, writes = (found["commands"]["by_opcode"][name]["splits_s"] for name in ("read", "write"))
    assert reads["cqe_to_msix"]["guessed"] == 1 and "guessed" not in reads["cqe_to_cq_head"]
    assert "guessed" not in writes["cqe_to_msix"]
    assert any("interrupt in doubt" in text and text.endswith(": 1") for text in found["warnings"])
    shown = {str(row[0]): row for row in splits(found["commands"]).rows}
    assert "~1.000 µs" in shown["read"] and "1.000 µs" in shown["write"] and "1 in all" in splits(found["commands"]).note


@pytest.mark.parametrize(("length", "exact"), [(1, False), (10, True)])
def test_a_window_inside_one_block_is_summed_from_its_samples(builder: Any, length: int, exact: bool) -> None:
    """Blocks of 3 ms: a window of 1 ms contains no end of a block, one of 10 ms does."""
    builder.power(0, 1.0)
    builder.phase(1, 300_500 * US, 300_500 * US + length * MS, "w")
    mean = analyze(builder.write(end=400 * MS))["phases"][0]["power"]["mean_w"]
    assert mean["value"] == pytest.approx(1.0, rel=1e-6)
    assert mean["conditions"]["source"] == ("96-bit accumulator" if exact else "samples") and ("edge_u_j" in mean["conditions"]) is exact


def test_what_fio_does_not_say_is_nothing() -> None:
    assert (FioDirection().total_ios, FioDirection().io_bytes, FioDirection().iops, FioDirection().bw_bytes) == (0, 0, 0.0, 0.0)
    assert (Latency().min, Latency().mean, Latency().max, FioJob().groupid) == (0.0, 0.0, 0.0, 0)
    jobs = [
        FioJob(read=FioDirection(3, 300, lat_ns=Latency(5, 10.0, 20))),
        FioJob(read=FioDirection(1, 100, lat_ns=Latency(2, 30.0, 40))),
        FioJob(read=FioDirection(4, 400, lat_ns=Latency()), trim=FioDirection(2, 9), write=FioDirection(0, 5)),
    ]
    assert totals(jobs) == {
        "read": {"count": 8, "bytes": 800, "lat_ns": {"min": 2, "mean": (3 * 10 + 30) / 8, "max": 40}},
        "dsm": {"count": 2, "bytes": 9, "lat_ns": {"min": None, "mean": None, "max": None}},
    }


@pytest.mark.parametrize(
    ("off_us", "state", "passes"),
    [(0, 3, True), (9, 3, True), (11, 3, False), (-9, 3, True), (-11, 3, False), (0, 4, True), (0, None, True)],
)
def test_a_wake_up_against_the_truth(builder: Any, off_us: int, state: int | None, passes: bool) -> None:
    """The limit is a sample of the rail, 10 us; the state is reported and is no reason to fail."""
    builder.phase(1, 100 * MS, 900 * MS, "w", kind="wake")
    builder.levels += [(0, 0.5), (200 * MS, 0.03), (800 * MS, 0.5)]
    builder.command(800 * MS, 6 * MS)
    capture = builder.write(end=1000 * MS)
    origin = 7 * MS
    capture.meta["conditions"]["trace_origin_tick"] = origin
    save(capture.path, capture.meta)
    capture.workload_dir.mkdir()
    phase = {
        "phase": 1,
        "start_tick": 100 * MS - origin,
        "end_tick": 900 * MS - origin,
        "energy_j": 1.0,
        "mean_w": 1.0,
        "doorbell_ps": (800 * MS - origin) * 1000 + 400,
        "before": {"power_state": state},
    }
    (capture.workload_dir / "truth.json").write_text(json.dumps({"phases": [phase, {**phase, "phase": 2}]}))
    cqe = (806 * MS + off_us * US - origin) * 1000 + 400
    lines = [
        "qid,cid,opcode,nsid,slba,blocks,status,doorbell_ps,fetch_ps,first_data_ps,last_data_ps,cqe_ps,msix_ps,cq_head_ps",
        f"1,2,2,1,0,8,0,{phase['doorbell_ps']},{phase['doorbell_ps'] + 500_000},,,{cqe},,",
    ]
    (capture.workload_dir / "truth-commands.csv").write_text("\n".join(lines) + "\n")
    found = analyze(capture)["truth"]
    (wake,) = found["wakeups"]
    assert (wake["name"], wake["phase"], wake["true_state"], wake["state"]) == ("w", 1, state, "PS3")
    assert wake["limit_s"] == pytest.approx(10e-6) and wake["truth_s"] == pytest.approx(6e-3 + off_us * 1e-6)
    assert wake["error_s"] == pytest.approx(-off_us * 1e-6, abs=1e-12) and wake["measured_s"] == pytest.approx(6e-3)
    assert (wake["pass"], wake["state_right"]) == (passes, state in (3, None))
    assert found["missing_phases"] == [2] and not found["pass"]
    assert (found["phases"][0]["start_ticks_off"], found["phases"][0]["end_ticks_off"]) == (0, 0)


def test_a_capture_with_a_context_of_its_own(builder: Any) -> None:
    """Its first and last tick belong to whatever came first and last; anything without an end lasts until then."""
    builder.events.append((5, EventType.CLKREQ, 0, 0))
    builder.command(1000, 500)
    builder.command(2000, 9000)
    builder.command(3000, 100)
    context = load(builder.write())
    assert (context.first_tick, context.last_tick, len(context.commands)) == (5, 11_001, 3)
    assert context.steps.ticks.tolist() == [1000, 1500, 2000, 3000, 3100, 11_000] and context.steps.depth.tolist() == [1, 0, 1, 2, 1, 0]


def test_an_empty_capture_has_no_ticks(tmp_path: Path, builder: Any) -> None:
    context = load(builder.write())
    assert (context.first_tick, context.last_tick, len(context.gaps), context.phases) == (0, 0, 0, [])


def test_a_window_that_begins_before_a_piece_of_the_waveform_has_all_of_that_piece(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 W for 10 ms, 2 W for 10 ms, 5 W for 10 ms; the window is 5 to 25 ms, read in pieces of 10 ms."""
    monkeypatch.setattr(rail, "CHUNK", 1000)
    for tick, watt in ((0, 1.0), (10 * MS, 2.0), (20 * MS, 5.0)):
        builder.power(tick, watt)
    builder.command(MS, US)
    wave = load(builder.write(30 * MS)).rail
    assert wave is not None
    (whole,) = wave.scan([(5 * MS, 25 * MS)]).stats
    assert (whole.samples, whole.missing) == (2000, 0)
    assert whole.mean_power_w == pytest.approx((5 * 1 + 10 * 2 + 5 * 5) / 20, rel=1e-4)
    assert (whole.lowest, whole.peak) == (pytest.approx(1, rel=1e-4), pytest.approx(5, rel=1e-4))
