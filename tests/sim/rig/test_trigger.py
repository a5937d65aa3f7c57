"""The trigger by SCPI through the real firmware: its events, the marker in the stream, and its actions.

Where both fidelities have an event, the tests run in both, with identical streams, byte for byte.
"""

from pathlib import Path

import pytest
from wattbell.wire.decode import Batch
from wattbell_spec.wire import EventType, LinkState

from tests.sim.rig.rig_process import ORIGIN_TICK, ROOT, Rig, column, decode, wait_until
from tests.sim.rig.rig_trace import encode, end, rail, sideband

MARK = 0xFFFFFFFF
ACT_CLOCKS = 20
"""Greatest number of ticks from the firing event to the marker, without delay and for an event known at once.

The trigger, the bus and the instrument take a few cycles each.
"""


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """Write a trace of a drive that draws 1 A for 1 ms, then 0.1 A."""
    trace = tmp_path / "step.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1.0), sideband(10, 1, 1), rail(1000, 3.3, 0.1), end(2500)]))
    return trace


def record(rig: type[Rig], trace: Path, lines: str, fidelity: str, out: Path, *board: object) -> tuple[list[Batch], int]:
    """Send `lines` and the start of a capture in one message; return the stream up to the end of the trace, and TRIG:TICK?."""
    one = rig(trace, "--output", out, "--fidelity", fidelity, *board, ports=False)
    one.send(f"{lines};:INIT")
    wait_until(lambda: one.status()["state"] == "DONE", "the end of the trace")
    assert one.ask("ARM:STAT?;:SYST:ERR?") == 'FIR;0,"No error"', lines
    tick = int(one.ask("TRIG:TICK?"))
    assert one.close() == 0
    return decode(out.read_bytes())[0], tick


def marks(batches: list[Batch]) -> list[int]:
    rows = zip(*(column(batches, "events", name) for name in ("type", "arg32", "tick")), strict=True)
    return [tick for kind, value, tick in rows if kind == EventType.MARKER and value == MARK]


def events(batches: list[Batch], kind: EventType) -> list[tuple[int, int]]:
    rows = zip(*(column(batches, "events", name) for name in ("type", "arg8", "tick")), strict=True)
    return [(tick, value) for found, value, tick in rows if found == kind]


def commands(batches: list[Batch]) -> list[dict[str, int]]:
    names = ("opcode", "qid", "slba", "blocks", "cqe_tick", "doorbell_before", "status")
    rows = zip(*(column(batches, "commands", name) for name in names), strict=True)
    return sorted((dict(zip(names, row, strict=True)) for row in rows), key=lambda row: row["cqe_tick"])


def test_commands(busy_trace: Path, tmp_path: Path, rig: type[Rig]) -> None:
    """The first command in the records that meets a condition fires. Trigger and delay set the marker's place."""
    batches, _ = record(rig, busy_trace, "TRIG:SOUR IMM;:ARM", "fast", tmp_path / "plain.wbs")
    plain = commands(batches)
    io = [row for row in plain if row["qid"]]
    writes = [row for row in io if row["opcode"] == 1]
    target = io[len(io) // 2]
    slow = sorted(row["doorbell_before"] for row in io)[-5]
    cases = {
        "OPC 1;QUE IO": lambda row: row["qid"] and row["opcode"] == 1,
        "QUE ADM;OPC 0,0": lambda row: row["qid"] == 0,
        f"LBA {target['slba']}": lambda row: row["qid"] and row["slba"] <= target["slba"] < row["slba"] + row["blocks"],
        f"LAT {slow}E-9;LAT:STAT ON": lambda row: row["doorbell_before"] > slow,
        f"OPC 2;LAT {slow - 5000}E-9;LAT:STAT ON": lambda row: row["opcode"] == 2 and row["doorbell_before"] > slow - 5000,
    }
    assert writes and slow > 5000
    for fidelity in ("rtl", "fast"):
        for k, (condition, holds) in enumerate(cases.items()):
            if fidelity == "rtl" and k not in (2, 4):  # the RTL is slow, and these two cases lie on either side of the other's end
                continue
            delay = 0 if k % 2 else 1500
            lines = f"TRIG:SOUR COMM;COMM:{condition.replace(';', ';:TRIG:COMM:')};:TRIG:DEL {delay}E-9;ACT MARK;:ARM"
            batches, tick = record(rig, busy_trace, lines, fidelity, tmp_path / f"{fidelity}{k}.wbs")
            (mark,) = marks(batches)
            first = next(row for row in plain if holds(row))
            assert tick == first["cqe_tick"], condition
            late = mark - first["cqe_tick"] - delay
            # Without a delay the marker comes when the tracker reaches it: TLPs may queue before it.
            assert 0 <= late <= (4 * ACT_CLOCKS if delay else 5000), condition
    for k in (2, 4):
        assert (tmp_path / f"rtl{k}.wbs").read_bytes() == (tmp_path / f"fast{k}.wbs").read_bytes()


@pytest.mark.parametrize("fidelity", ["rtl", "fast"])
def test_edges_and_link_states(tmp_path: Path, rig: type[Rig], fidelity: str) -> None:
    """The tick is the event's in the stream, even for a pulse of 8 ns; a marker comes 10 us later."""
    trace = tmp_path / "pins.wbt"
    rows = [
        rail(0, 3.3, 0.1),
        sideband(10, 1, 1),
        sideband(20, 2, 0),
        sideband(30.004, 3, 5),
        sideband(40.1, 2, 1),
        sideband(40.108, 2, 0),
        sideband(50, 3, 4),
        sideband(60, 3, LinkState.L1_2),
        sideband(70, 1, 0),
        end(100),
    ]
    trace.write_bytes(encode(rows))
    cases = {
        "PERS;SLOP POS": (EventType.PERST, 1),
        "PERS;SLOP NEG": (EventType.PERST, 0),
        "CLKR;SLOP NEG": (EventType.CLKREQ, 0),
        "CLKR;SLOP POS": (EventType.CLKREQ, 1),
        "LINK;LINK #H20": (EventType.LINK, 5),
        "LINK": (EventType.LINK, LinkState.L1_2),
    }
    for k, (source, (kind, value)) in enumerate(cases.items()):
        batches, fired = record(rig, trace, f"TRIG:SOUR {source};DEL 10E-6;ACT MARK;:ARM", fidelity, tmp_path / f"{k}.wbs")
        began, _ = events(batches, EventType.RUN)[0]
        tick = next(tick for tick, found in events(batches, kind) if found == value and tick > began)
        assert fired == tick, source
        (mark,) = marks(batches)
        assert 0 <= mark - tick - 10_000 <= 4 * ACT_CLOCKS


@pytest.mark.parametrize("paths", [1, 2])
def test_levels_fire_in_the_same_tick_in_both(tmp_path: Path, rig: type[Rig], paths: int) -> None:
    """The test covers both slopes, voltage, current and power, and hysteresis that suppresses the first crossing.

    The trigger is armed before the capture. The capture's conversions continue at the instants of those before it, so the whole
    streams are equal, the trigger's marker included.
    """
    trace = tmp_path / "levels.wbt"
    values = [(3.3, 0.05), (3.2, 1.0), (3.25, 0.9), (3.1, 1.1), (3.3, 0.02), (3.3, 0.09), (3.0, 2.0), (3.3, 0.01)]
    first, *rows = (rail(120.0 * k, *value) for k, value in enumerate(values))
    trace.write_bytes(encode([first, sideband(10, 1, 1), *rows, end(1200)]))
    board = ("--afe", ROOT / "hw/afe/model.toml") if paths == 2 else ()
    cases = {
        "CURR;SLOP POS;LEV 0.95;HYST 0.5": 1,
        "CURR;SLOP NEG;LEV 0.95;HYST 0.1": 4,
        "CURR;SLOP POS;LEV 1.05;HYST 0.01": 3,
        "VOLT;SLOP NEG;LEV 3.15;HYST 0.02": 3,
        "VOLT;SLOP NEG;LEV 3.05;HYST 0.1": 6,
        "POW;SLOP POS;LEV 5;HYST 1": 6,
    }
    for k, (source, piece) in enumerate(cases.items()):
        found = []
        for fidelity in ("rtl", "fast"):
            out = tmp_path / f"{fidelity}{k}.wbs"
            batches, tick = record(rig, trace, f"TRIG:SOUR {source};DEL 3E-6;ACT MARK;:ARM", fidelity, out, *board)
            (mark,) = marks(batches)
            found.append((tick, mark))
            assert 120_000 * piece <= tick - ORIGIN_TICK < 120_000 * piece + 15_000, (source, tick)
            assert 0 <= mark - tick - 3000 <= 4 * ACT_CLOCKS
        assert found[0] == found[1], source
        assert (tmp_path / f"rtl{k}.wbs").read_bytes() == (tmp_path / f"fast{k}.wbs").read_bytes()


@pytest.mark.parametrize("fidelity", ["rtl", "fast"])
def test_a_level_starts_and_stops_a_capture_and_a_measurement(step: Path, rig: type[Rig], fidelity: str) -> None:
    """1 A, and 0.1 A from 1 ms on; conversions are a microsecond apart, and the front end's filter takes a few"""
    one = rig(step, "--fidelity", fidelity)
    one.send("SENS:APER 1E-4;:TRIG:SOUR CURR;SLOP NEG;LEV 0.5;HYST 0.1;ACT MET;:ARM")
    wait_until(lambda: one.ask("ARM:STAT?") == "FIR", "the level")
    tick = int(one.ask("TRIG:TICK?"))
    assert 1_000_000 < tick - one.entry["origin_tick"] < 1_010_000
    wait_until(lambda: int(one.ask("SYST:TICK?")) > tick + 10_000, "the measurement's begin")
    assert float(one.ask("FETC:CURR?")) == pytest.approx(0.1, rel=5e-2)  # the front end's filter is in its first conversions
    assert one.status()["bytes"] == 0 and one.ask("SYST:ERR?") == '0,"No error"'


@pytest.mark.parametrize("fidelity", ["rtl", "fast"])
@pytest.mark.parametrize(("action", "capturing"), [("STOP", True), ("STAR", False)])
def test_the_capture(step: Path, tmp_path: Path, rig: type[Rig], action: str, capturing: bool, fidelity: str) -> None:
    out = tmp_path / "stream.wbs"
    one = rig(step, "--output", out, "--fidelity", fidelity, ports=False)
    one.send(f"TRIG:SOUR POW;SLOP NEG;LEV 1;ACT {action};:ARM{';:INIT' if capturing else ''}")
    wait_until(lambda: one.ask("ARM:STAT?") == "FIR" and one.status()["state"] in ("DONE", "READY"), "the level")
    tick = int(one.ask("TRIG:TICK?"))
    assert one.close() == 0
    batches, _ = decode(out.read_bytes())
    (began, on), (ended, off) = events(batches, EventType.RUN)
    assert (on, off) == (1, 0)
    assert 0 < (ended if capturing else began) - tick < 3000  # of the conversion, which is known when the next has begun
    assert 1_000_000 < tick - one.entry["origin_tick"] < 1_010_000


def test_by_hand_and_not_at_all(step: Path, rig: type[Rig]) -> None:
    one = rig(step)
    one.send("*TRG")
    assert one.ask("SYST:ERR?").startswith("-211,")
    one.send("TRIG:SOUR BUS;:ARM")
    assert one.ask("ARM:STAT?;:STAT:OPER:COND?") == "ARM;544"
    one.send("ARM")
    assert one.ask("SYST:ERR?").startswith("-213,")
    before = int(one.ask("SYST:TICK?"))
    one.send("*TRG")
    assert one.ask("ARM:STAT?") == "FIR"
    assert before <= int(one.ask("TRIG:TICK?")) <= int(one.ask("SYST:TICK?"))
    one.send("ARM;:ARM:ABOR")
    assert one.ask("ARM:STAT?") == "IDLE"
    one.send("TRIG:TICK?")
    assert one.ask("SYST:ERR?").startswith("-230,")
