"""Wrong input of a test bench is one clear error, or a count; it never gives figures in silence."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from cocotbext.nvmetap import CallSource, Checker, Direction, LinkObserver, Monitor, Rule, SupplyRail, TraceWriter, play_trace

from tests.nvmetap.traffic import Traffic, traffic
from tests.nvmetap.wbt import watch

UP, DOWN = Direction.UP, Direction.DOWN


def play(played: Traffic, observer: LinkObserver, *, swapped: bool = False, kind: Any = bytes) -> None:
    for packet in played.packets:
        observer.feed(packet.time_ps, UP if packet.down is swapped else DOWN, kind(packet.data))
    observer.close()


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_time_must_not_go_backwards_in_a_direction(direction: Direction) -> None:
    """The other direction may be late: its TLP began earlier and ends now."""
    observer = LinkObserver()
    observer.feed(5000, direction, bytes(12))
    observer.feed(4000, Direction(3 - direction), bytes(12))
    with pytest.raises(ValueError, match="4999 ps behind one of the (host|drive) at 5000 ps"):
        observer.feed(4999, direction, bytes(12))
    assert observer.tlps == 2
    with pytest.raises(ValueError, match="behind"):
        LinkObserver().feed(-1, direction, bytes(12))


def test_a_time_must_be_a_whole_number() -> None:
    for time_ps in (1.5, math.nan, "1"):
        with pytest.raises(TypeError):
            LinkObserver().feed(time_ps, UP, bytes(12))  # type: ignore[arg-type]


@pytest.mark.parametrize("direction", [0, 3, "up", None])
def test_a_direction_must_be_one(direction: Any, tmp_path: Path) -> None:
    source = CallSource()
    LinkObserver()
    source.subscribe(LinkObserver().feed)
    with pytest.raises(ValueError, match="is not a valid Direction"):
        source.show(direction, bytes(12), 1)
    with TraceWriter(tmp_path / "t.wbt") as writer, pytest.raises(ValueError, match="is not a valid Direction"):
        writer.tlp(1, direction, bytes(12))


def test_a_direction_may_be_its_number_and_bytes_may_be_changeable() -> None:
    played = traffic(3, 10)
    observer = LinkObserver()
    for packet in played.packets:
        observer.feed(packet.time_ps, 1 if packet.down else 2, bytearray(packet.data))  # type: ignore[arg-type]
    observer.close()
    assert len(list(observer.commands())) == len(played.truth) and not observer.unmatched


def test_exchanged_directions_are_counted_by_name_and_give_no_command() -> None:
    observer = LinkObserver()
    play(traffic(3, 10), observer, swapped=True)
    assert list(observer.commands()) == []
    assert observer.unmatched["configuration request of the drive: are the directions exchanged?"] > 10
    assert sum(observer.unmatched.values()) > 0.8 * observer.tlps


def test_a_tlp_cut_short_breaks_a_rule_at_any_length() -> None:
    packets = {packet.label: bytes(packet.data) for packet in traffic(3, 10).packets}
    assert len(packets) > 10
    for data in packets.values():
        for size in range(len(data)):
            if size in (len(data) - 4, len(data) - 8) and data[2] & 0x80:
                continue
            observer = LinkObserver()
            checker = Checker(observer)
            observer.feed(1, UP, data[:size])
            observer.feed(1, DOWN, data[:size])
            assert checker.counts == {Rule.TLP_MALFORMED: 2} and observer.unmatched == {"malformed TLP": 2}


@pytest.mark.parametrize(("volts", "amps"), [(math.nan, 1.0), (3.3, math.nan), (math.inf, 0.0), (3.3, -math.inf)])
def test_a_rail_has_finite_values(volts: float, amps: float, tmp_path: Path) -> None:
    rail = SupplyRail()
    with pytest.raises(ValueError, match="both must be finite"):
        rail.set(7, volts, amps)
    assert len(rail) == 0
    with TraceWriter(tmp_path / "t.wbt") as writer, pytest.raises(ValueError, match="no place for such values"):
        writer.rail(7, volts, amps)


def test_samples_need_an_interval() -> None:
    rail = SupplyRail()
    rail.set(0, 3.3, 1.0)
    with pytest.raises(ValueError, match="above 0"):
        next(rail.samples(0, 1000))


@pytest.mark.parametrize("bar0", [{"01:00.0": 0xF000_0000}, {0x10000: 0xF000_0000}, {0x100: 0}, {0x100: "f0000000"}])
def test_an_address_of_bar0_must_be_one(bar0: Any) -> None:
    with pytest.raises(ValueError, match="numbers of functions"):
        LinkObserver(bar0=bar0)


def test_options_that_would_do_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="'TIMEOUT'; name rules as Rule.TIMEOUT"):
        Checker(LinkObserver(), disabled=["TIMEOUT"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="above 0"):
        LinkObserver(timeout_ps=0)
    monitor = Monitor(CallSource())
    with pytest.raises(ValueError, match=r"monitor\.checker"):
        Checker(monitor.observer)


def trace(path: Path, *records: tuple[int, int, int, bytes]) -> Path:
    """Write a bus trace of records: type, flags, time in ps, body."""
    body = b"".join(struct.pack("<BBHQ", kind, flags, len(data), time) + data for kind, flags, time, data in records)
    path.write_bytes(b"WBBT" + struct.pack("<LL", 1, 2) + b"{}" + body)
    return path


def test_a_trace_plays_as_it_was_written(tmp_path: Path) -> None:
    played = traffic(5, 40)
    with TraceWriter(str(tmp_path / "t.wbt")) as writer:
        writer.rail(0, 3.3, 0.1)
        for packet in played.packets:
            writer.tlp(packet.time_ps, DOWN if packet.down else UP, bytes(packet.data))
    observer, other, direct = LinkObserver(), LinkObserver(), LinkObserver()
    play_trace(str(tmp_path / "t.wbt"), observer)
    play(played, direct)
    commands = list(observer.commands())
    assert commands == list(direct.commands()) == watch((tmp_path / "t.wbt").read_bytes(), other)
    assert len(commands) == len(played.truth)


def test_bursts_are_spread_among_later_records(tmp_path: Path) -> None:
    """A burst of 3 writes of 8 bytes, the last two behind a TLP of the host; then a burst of 2 completions."""
    write = bytes.fromhex("60000002 010000ff 0000000100002000")
    completion = bytes.fromhex("4a000002 00000010 01000700")
    seen: list[tuple[int, Direction, bytes]] = []
    observer = LinkObserver()
    observer.feed = lambda *one: seen.append(one)  # type: ignore[method-assign, misc]
    first = struct.pack("<BBHII", 2, 16, 3, 1000, 8) + write
    second = struct.pack("<BBHII", 1, 12, 2, 100, 8) + completion
    play_trace(trace(tmp_path / "t.wbt", (3, 0, 5000, first), (1, 0, 5500, b"x"), (3, 0, 9000, second), (6, 0, 9900, b"")), observer)
    writes = [(time, data[8:16].hex(), len(data)) for time, way, data in seen if way is UP]
    assert writes == [(5000, "0000000100002000", 24), (6000, "0000000100002008", 24), (7000, "0000000100002010", 24)]
    assert [(time, data[6:8].hex(), data[11], len(data)) for time, way, data in seen if way is DOWN and time > 6000] == [
        (9000, "0010", 0, 20),
        (9100, "0008", 8, 20),
    ]
    assert [time for time, _, _ in seen] == sorted(time for time, _, _ in seen)


def test_a_reset_on_the_sidebands_of_a_trace_ends_commands(tmp_path: Path) -> None:
    for body in (bytes((1, 0)), bytes((3, 7))):
        observer = LinkObserver()
        read_of_4 = bytes.fromhex("00000001 0100050f 00001000")
        checker = Checker(observer)
        play_trace(trace(tmp_path / "t.wbt", (2, 0, 1, read_of_4), (5, 0, 2, body), (2, 0, 3, read_of_4)), observer)
        assert checker.passed, "the tag is free after a reset"


DAMAGED = {
    "not": (b"PK\x03\x04 and so on", "no bus trace"),
    "empty": (b"", "no bus trace"),
    "cut": (struct.pack("<BBHQ", 1, 0, 40, 5) + bytes(10), "the file ends within it"),
    "head": (struct.pack("<BBH", 1, 0, 40), "byte 14"),
    "kind": (struct.pack("<BBHQ", 99, 0, 0, 5), "its type is 99"),
    "summary": (struct.pack("<BBHQ", 7, 0, 80, 5) + bytes(80), "summary without TLPs"),
    "backwards": (struct.pack("<BBHQ", 1, 0, 4, 5) + bytes(4) + struct.pack("<BBHQ", 1, 0, 4, 4) + bytes(4), "order of time"),
    "prefix": (struct.pack("<BBHQ", 1, 1, 4, 5) + b"\x80\0\0\0", "byte 14"),
    "burst": (struct.pack("<BBHQ", 3, 0, 14, 5) + bytes(14), "byte 14"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_trace_is_one_error_with_file_and_place(name: str, tmp_path: Path) -> None:
    content, word = DAMAGED[name]
    path = tmp_path / "bad.wbt"
    path.write_bytes(content if "no bus" in word else b"WBBT" + struct.pack("<LL", 1, 2) + b"{}" + content)
    with pytest.raises(ValueError, match=word) as raised:
        play_trace(path, LinkObserver())
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_results_take_paths_as_text(tmp_path: Path) -> None:
    from cocotbext.nvmetap import write_perfetto
    from cocotbext.nvmetap.coverage import Coverage

    write_perfetto(str(tmp_path / "t.json"), [])
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"] == []
    Coverage().save(str(tmp_path / "c.json"))
    merged = Coverage.merged([str(tmp_path / "c.json")])
    merged.write_page(str(tmp_path / "c.html"))
    assert (tmp_path / "c.html").is_file()
