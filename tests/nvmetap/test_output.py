"""Results of a simulation in files: bus traces that the virtual rig plays, traces for Perfetto, captures of Wattbell."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cocotbext.nvmetap import CallSource, Command, Direction, Doubt, LinkObserver, SupplyRail, TraceWriter, write_perfetto
from cocotbext.nvmetap.capture import FLAGS, write_capture
from wattbell.analysis import analyze
from wattbell.capture import open_capture
from wattbell.errors import CaptureError
from wattbell_spec.wire import CommandFlag

from tests.nvmetap.traffic import Traffic, traffic
from tests.nvmetap.wbt import records, watch

RIG = Path(__file__).parents[2] / "sim/target/release/wattbell-rig"


@pytest.fixture(scope="module")
def played() -> Traffic:
    return traffic(5, 100)


def observed(played: Traffic) -> list[Command]:
    observer = LinkObserver()
    for packet in played.packets:
        observer.feed(packet.time_ps, Direction.DOWN if packet.down else Direction.UP, bytes(packet.data))
    observer.close()
    return list(observer.commands())


def supplied(*changes: tuple[int, float, float]) -> SupplyRail:
    rail = SupplyRail()
    for change in changes:
        rail.set(*change)
    return rail


def test_energy_and_mean_power_are_exact_between_changes() -> None:
    rail = supplied((1000, 3.3, 1.0), (1_501_000, 3.3, 2.0), (3_001_000, 3.0, 0.0))
    assert rail.energy_j(1000, 3_001_000) == pytest.approx(3.3 * 1.5e-6 + 6.6 * 1.5e-6)
    assert rail.mean_w(1_001_000, 2_001_000) == pytest.approx((3.3 + 6.6) / 2)
    assert rail.mean_w(3_001_000, 9_000_000) == 0.0
    assert rail.energy_j(0, 2000) is None and rail.energy_j(3000, 2000) is None and rail.mean_w(2000, 2000) is None
    samples = list(rail.samples(1_000_000, 4_001_000))
    assert samples == [pytest.approx(pair) for pair in ((3.3, 1.0), (3.3, 1.5), (3.3, 2.0), (3.0, 0.0))]
    with pytest.raises(ValueError, match="earlier than its last change"):
        rail.set(3_000_000, 3.3, 1.0)
    rail.set(3_001_000, 3.0, 0.5)
    assert len(rail) == 3 and rail.mean_w(3_001_000, 4_001_000) == pytest.approx(1.5)


def test_a_bus_trace_has_every_tlp_and_the_virtual_rig_plays_it(played: Traffic, tmp_path: Path) -> None:
    path = tmp_path / "run.wbt"
    with TraceWriter(path, note="a test") as writer:
        writer.rail(0, 3.3, 0.25)
        writer.perst(0, asserted=False)
        for packet in played.packets:
            writer.tlp(packet.time_ps, Direction.DOWN if packet.down else Direction.UP, bytes(packet.data))
    written = list(records(path.read_bytes()))
    assert [(kind, time_ps, body) for kind, time_ps, body in written if kind < 3] == [
        (1 if packet.down else 2, packet.time_ps, bytes(packet.data)) for packet in played.packets
    ]
    assert len(watch(path.read_bytes(), LinkObserver())) == len(played.truth)
    stream = tmp_path / "run.wbs"
    words = [RIG, "play", path, "--fidelity", "fast", "--autostart", "--exit-on-done", "--output", stream]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and stream.stat().st_size > 10_000, done.stderr
    with TraceWriter(tmp_path / "late.wbt") as writer:
        writer.rail(5000, 3.3, 0.1)
        with pytest.raises(ValueError, match="in the order of time"):
            writer.rail(4999, 3.3, 0.1)


def test_tlps_behind_the_end_of_a_trace_are_left_out(played: Traffic, tmp_path: Path) -> None:
    """The source goes on, and the simulation with it. A TLP that the bench writes itself is refused."""
    source, path = CallSource(), tmp_path / "run.wbt"
    writer = TraceWriter(path, source)
    source.show(Direction.DOWN, bytes(played.packets[0].data), 1000)
    writer.close(2000)
    source.show(Direction.DOWN, bytes(played.packets[1].data), 3000)
    assert [(kind, time_ps) for kind, time_ps, _ in records(path.read_bytes())] == [(1, 1000), (6, 2000)]
    with pytest.raises(ValueError, match="closed"):
        writer.tlp(3000, Direction.DOWN, bytes(played.packets[1].data))


def test_a_trace_for_perfetto_has_each_command_from_its_first_instant_to_its_last(played: Traffic, tmp_path: Path) -> None:
    commands = observed(played)
    unseen = replace(commands[0], **dict.fromkeys([name for name in vars_of(commands[0]) if name.endswith("_ps")]))
    doubted = replace(commands[1], doubts=(Doubt.PREFETCHED,))
    count = write_perfetto(tmp_path / "t.json", [unseen, doubted, *commands[2:]], supplied((0, 3.3, 1.0), (2_000_000, 3.3, 0.5)))
    assert count == len(commands) - 1
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    begins = {event["id"]: event for event in events if event["ph"] == "b"}
    ends = {event["id"]: event for event in events if event["ph"] == "e"}
    assert begins.keys() == ends.keys() and len(begins) == count
    truth = sorted((t.doorbell_ps, t.head_ps or t.cqe_ps, t.sqid) for t in played.truth)
    shown = sorted((round(begins[k]["ts"] * 1e6), round(ends[k]["ts"] * 1e6), begins[k]["tid"]) for k in begins)
    gone = (commands[0].doorbell_ps, commands[0].head_ps or commands[0].cqe_ps, commands[0].sqid)
    assert shown == [one for one in truth if one != gone]
    assert [event["args"]["doubts"] for event in begins.values() if "doubts" in event["args"]] == [[Doubt.PREFETCHED.value]]
    assert [(e["ts"], e["args"]["W"]) for e in events if e["ph"] == "C"] == [(0.0, 3.3), (2.0, 1.65)]
    assert all(event["ts"] <= other["ts"] for event, other in zip(events, events[1:], strict=False) if "ts" in event and "ts" in other)


def vars_of(command: Command) -> list[str]:
    return list(Command.__dataclass_fields__)


def test_a_capture_has_the_commands_and_the_energy(played: Traffic, tmp_path: Path) -> None:
    commands = observed(played)
    end_ps = max(command.cqe_ps or 0 for command in commands)
    rail = supplied((0, 3.3, 0.5), (end_ps // 2, 3.3, 1.5))
    assert write_capture(tmp_path / "c", reversed(commands), rail) == len(commands)
    capture = open_capture(tmp_path / "c")
    rows = capture.commands.collect().to_dicts()
    truth = sorted((t.cqe_ps, t.sqid, t.cid, t.doorbell_ps, t.fetch_ps, t.first_data_ps, t.interrupt_ps, t.head_ps) for t in played.truth)
    names = ("cqe_tick", "qid", "cid", "doorbell_tick", "fetch_tick", "first_data_tick", "msix_tick", "cq_head_tick")
    assert [tuple(row[name] for name in names) for row in rows] == [
        tuple(value if k in (1, 2) or value is None else value // 1000 for k, value in enumerate(one)) for one in truth
    ]
    trims = sum((command.blocks or 0) >= 1 << 32 for command in commands)
    assert [row["flags"] for row in rows if row["flags"]] == [CommandFlag.NO_RANGES] * trims and trims > 0, "ranges of 32 bits each"
    found = analyze(capture)
    assert found["power"]["mean_w"]["value"] == pytest.approx(3.3, rel=0.01)
    reads = sum(t.opcode == 2 and t.sqid > 0 for t in played.truth)
    assert found["commands"]["by_opcode"]["read"]["count"] == reads > 20
    with pytest.raises(CaptureError):
        write_capture(tmp_path / "c", commands)
    with pytest.raises(ValueError, match="multiple of 1000"):
        write_capture(tmp_path / "d", commands, rail, interval_ps=1500)


def test_every_doubt_becomes_a_flag_and_none_a_right_command(played: Traffic, tmp_path: Path) -> None:
    assert FLAGS.keys() == set(Doubt)
    whole = observed(played)[10]
    silent = {Doubt.HEAD_UNSEEN}
    for number, doubt in enumerate(Doubt):
        command = replace(whole, doubts=(doubt,), cqe_ps=None if doubt is Doubt.NOT_COMPLETED else whole.cqe_ps)
        write_capture(tmp_path / str(number), [command])
        (row,) = open_capture(tmp_path / str(number)).commands.collect().to_dicts()
        assert bool(row["flags"]) == (doubt not in silent), doubt
        assert bool(row["flags"] & CommandFlag.ABORTED) == (doubt is Doubt.NOT_COMPLETED)
