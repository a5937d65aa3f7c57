"""Fast fidelity gives the RTL's stream, byte for byte with each block's last word in the same cycle; and command summaries."""

import json
import random
import struct
import subprocess
from pathlib import Path

import pytest
from wattbell_spec.wire import UNKNOWN24, UNKNOWN32, CommandFlag, EventType, ResetCause

from tests.patience import PATIENCE_S
from tests.sim.rig.rig_process import ROOT, Rig, column, decode, find, play, run, wait_until
from tests.sim.rig.rig_trace import BURST, TLP_DOWN, TLP_UP, Record, encode, end, rail, records, sideband, squeeze

SUMMARY = 7
ABSENT = (1 << 64) - 1


def compare(trace: Path, *options: object) -> dict[str, object]:
    """Play `trace` in both fidelities; fail with the first difference unless they are equal."""
    return json.loads(run([find("wattbell-rig"), "compare", trace, *options]).stdout)


@pytest.mark.parametrize(
    "sweep", [(), ("--decimation", 7, "--interval", 1.3e-6), ("--interval", 2.5e-5), ("--adc", "serial", "--no-skip")], ids=str
)
def test_a_busy_trace_is_equal(busy_trace: Path, sweep: tuple[object, ...]) -> None:
    result = compare(busy_trace, *sweep)
    assert result["caveat"] is None
    assert result["commands"] > 50 and result["blocks"] > 10


def disturbed(rows: list[Record], seed: int) -> list[Record]:
    """Return the records with some TLPs missing, duplicated, or with another tag, address or payload."""
    rng = random.Random(seed)
    out: list[Record] = []
    for kind, flags, time_ps, body in rows:
        chance = rng.random()
        if kind not in (TLP_DOWN, TLP_UP, BURST) or chance > 0.06 or len(out) < 200:
            out.append((kind, flags, time_ps, body))
            continue
        if chance < 0.02:
            continue
        if chance < 0.03 and kind != BURST:
            out.append((kind, flags, time_ps, body))
        changed = bytearray(body)
        if kind != BURST:
            # after format and length: the same size, another meaning
            changed[rng.randrange(4, len(changed))] ^= 1 << rng.randrange(8)
        out.append((kind, flags, time_ps, bytes(changed)))
    return out


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_disturbed_trace_is_equal(drive_trace: Path, tmp_path: Path, seed: int) -> None:
    """No drive does this: lost doorbells, completions for nobody, reused CIDs, malformed TLPs.

    Seed 0 fills the queue of records, where the twin makes no claim of equality.
    """
    trace = tmp_path / "disturbed.wbt"
    trace.write_bytes(encode(disturbed(list(squeeze(records(drive_trace))), seed)))
    compare(trace, "--interval", 1e-5)


@pytest.mark.parametrize(("seed", "paths"), [(0, 1), (1, 1), (2, 2)])
def test_a_random_rail_with_random_sidebands_is_equal(tmp_path: Path, seed: int, paths: int) -> None:
    """With two current paths the levels are below, in and above their common band, and beyond both scales. PERST# falls twice
    within four cycles.
    """
    rng = random.Random(seed)
    board = ("--afe", ROOT / "hw/afe/model.toml") if paths == 2 else ()
    rows, now_us = [rail(0, 3.3, 0.5)], 0.0
    for _ in range(300):
        now_us += rng.choice([0.0, 0.0011, 0.3, 40.0, 90.0]) * rng.random()
        rows.append(
            rng.choice(
                [
                    rail(now_us, 3.3 + rng.uniform(-4, 2), rng.uniform(-5, 5) * (rng.choice([0.004, 0.02, 1]) if board else 1)),
                    sideband(now_us, rng.randrange(1, 4), rng.randrange(2)),
                ]
            )
        )
    trace = tmp_path / "random.wbt"
    trace.write_bytes(encode([*rows, end(now_us + 11_000)]))
    compare(trace, "--interval", rng.choice([1e-6, 1.7e-6]), "--decimation", rng.choice([1, 2, 3, 100]), "--seed", seed, *board)


def test_sidebands_that_change_in_every_clock_are_equal(tmp_path: Path) -> None:
    """CLKREQ# and link state change for 1 to 14 cycles: as many changes as may wait. (Beyond that, the gateware keeps a change that
    fast loses.)
    """
    rows = [sideband(100 * n + 0.004 * k, signal, k & 1) for n in range(1, 15) for k in range(n) for signal in (2, 3)]
    trace = tmp_path / "sidebands.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 0.5), *rows, end(12_000)]))
    compare(trace)


def test_it_is_the_stream_of_every_clock_evaluated(busy_trace: Path, tmp_path: Path) -> None:
    assert play(busy_trace, tmp_path, "--fidelity", "fast") == play(busy_trace, tmp_path)


def test_the_control_port_does_the_same(busy_trace: Path, tmp_path: Path, rig: type[Rig]) -> None:
    streams = []
    for fidelity in ("rtl", "fast"):
        out = tmp_path / f"{fidelity}.wbs"
        one = rig(busy_trace, "--output", out, "--exit-on-done", "--fidelity", fidelity, ports=False)
        one.send("SENS:SWE:DEC 3;TINT 2 us;:NVME:BAR0 #HFEB00000;QUE CQ,1,#H100000,64;QUE SQ,1,#H200000,64;ATT;:INIT")
        assert one.process.wait() == 0
        streams.append(out.read_bytes())
    assert streams[0] == streams[1]
    assert EventType.GUESSING in column(decode(streams[0])[0], "events", "type")


def test_a_reset_of_the_tracker_is_the_same(busy_trace: Path, tmp_path: Path, rig: type[Rig]) -> None:
    """NVME:RESet comes in the middle of the traffic. Commands in flight go out as aborted, and later ones belong to nobody until
    queues are announced.
    """
    streams = []
    attach = "BAR0 #HFEB00000;QUE CQ,1,#H100000,64;QUE SQ,1,#H200000,64;ATT"
    for fidelity in ("rtl", "fast"):
        out = tmp_path / f"{fidelity}.wbs"
        one = rig(busy_trace, "--output", out, "--exit-on-done", "--fidelity", fidelity, ports=False)
        # Measuring takes as long as the queues take to fill, which is the same in both.
        one.send(f"SENS:APER 3E-4;:INIT;:MEAS:VOLT?;:NVME:RES;:MEAS:VOLT?;:NVME:{attach};:MEAS:VOLT?;:NVME:RES")
        assert one.process.wait(PATIENCE_S) == 0
        streams.append(out.read_bytes())
    batches, _ = decode(streams[0])
    rows = list(zip(*(column(batches, "events", name) for name in ("type", "arg8")), strict=True))
    assert rows.count((EventType.TRACKER_RESET, ResetCause.COMMAND)) == 2
    assert any(flags & CommandFlag.ABORTED for flags in column(batches, "commands", "flags"))
    assert streams[0] == streams[1]


def test_marks_and_stops_in_fast_fidelity(tmp_path: Path, rig: type[Rig]) -> None:
    trace = tmp_path / "long.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1.0), end(2_000_000)]))  # 2 s of real time: longer than the sent data takes on a busy machine
    one = rig(trace, "--fidelity", "fast", "--realtime")
    one.send("INIT")
    one.send("MARK 77")
    one.send("ABOR")
    wait_until(lambda: one.status()["bytes"] > 0 and one.status()["state"] == "READY", "the end of a capture that had begun")
    one.send("INIT")
    batches, _ = decode(one.read_all())
    assert 77 in column(batches, "events", "arg32")
    assert column(batches, "events", "type").count(EventType.RUN) == 4
    assert one.ask("SYST:ERR?") == '0,"No error"'


def summary(time_us: float, cid: int, *, opcode: int = 2, instants: list[int] | None = None) -> Record:
    """Return a command of 8 blocks: each instant is 1 us before or after its CQE, which is 2 us before `time_us`."""
    last = round(time_us * 1_000_000)
    ps = instants or [last - k * 1_000_000 for k in (6, 5, 4, 3, 2, 1, 0)]
    body = struct.pack("<BBHHHIIQ7Q", opcode, 0, 3, cid, 0, 1, 8, 1 << 33 | cid, *ps)
    return SUMMARY, 0, max(p for p in ps if p != ABSENT), body


def summaries_trace(path: Path, rows: list[Record]) -> Path:
    note = b'{"source":"test","profile":"","timing":"model","notes":[],"summaries":true}'
    head = encode([])[:8]
    out = [head, struct.pack("<I", len(note)), note]
    out += [struct.pack("<BBHQ", kind, flags, len(body), time_ps) + body for kind, flags, time_ps, body in rows]
    path.write_bytes(b"".join(out))
    return path


def test_summaries_become_records(tmp_path: Path) -> None:
    absent = [5_000_000_000, 5_001_000_000, ABSENT, ABSENT, 5_002_000_000, ABSENT, ABSENT]
    rows = [rail(0, 3.3, 0.1), *(summary(20 + 0.1 * k, k) for k in range(1000)), summary(0, 5, instants=absent), end(6000)]
    batches, decoder = decode(play(summaries_trace(tmp_path / "s.wbt", rows), tmp_path, "--fidelity", "fast"))
    assert column(batches, "commands", "cid") == [*range(1000), 5]
    assert set(column(batches, "commands", "doorbell_before")) == {4000, 2000}
    assert column(batches, "commands", "slba")[7] == 1 << 33 | 7
    names = ("first_data_before", "last_data_before", "msix_after", "cq_head_after")
    assert [column(batches, "commands", name)[-1] for name in names] == [UNKNOWN32, UNKNOWN32, UNKNOWN24, UNKNOWN24]
    assert column(batches, "commands", "msix_after")[0] == 1000
    assert not any(column(batches, "commands", "flags"))
    assert decoder.counters.missing_blocks == 0


def test_the_rtl_refuses_summaries(tmp_path: Path) -> None:
    trace = summaries_trace(tmp_path / "s.wbt", [summary(20, 1), end(30)])
    command = [find("wattbell-rig"), "play", trace, "--output", tmp_path / "o", "--autostart", "--exit-on-done"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "--fidelity fast" in done.stderr and "Traceback" not in done.stderr
