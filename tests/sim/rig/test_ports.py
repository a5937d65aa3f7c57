"""The two ports, as a host uses them: through pyserial."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from wattbell_spec.wire import EventType, MarkerSource

from tests.sim.rig.rig_process import Rig, column, decode, find, wait_until
from tests.sim.rig.rig_trace import encode, end, rail, records, sideband


def test_it_registers_while_it_runs(quiet_trace: Path, rig: type[Rig], tmp_path: Path) -> None:
    links = tmp_path / "links"
    one = rig(quiet_trace, "--serial", "T-1", "--link-dir", links)
    entry = tmp_path / "runtime/rigs/T-1.json"
    assert json.loads(entry.read_text()) == one.entry == {**one.entry, "serial": "T-1", "pid": one.process.pid}
    assert os.path.realpath(links / "data") == one.entry["data"]
    assert os.path.realpath(links / "control") == one.entry["control"]
    assert one.close() == 0
    assert not entry.exists()
    assert not list(links.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a devpts")
def test_only_its_user_may_open_its_terminals(quiet_trace: Path, tmp_path: Path) -> None:
    """devpts gives a terminal to its group, as on most distributions."""
    devpts = "mount -t devpts -o newinstance,mode=620,gid=5,ptmxmode=666 devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx"
    command = ["unshare", "--mount", "--", "sh", "-c", f'{devpts} && exec "$@"', "sh", find("wattbell-rig"), "play", quiet_trace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}) as process:
        assert process.stdout is not None
        entry = json.loads(process.stdout.readline())
        modes = {os.stat(f"/proc/{process.pid}/root{entry[port]}").st_mode & 0o777 for port in ("data", "control")}
        process.terminate()
    assert modes == {0o600}


def test_a_whole_capture(quiet_trace: Path, rig: type[Rig]) -> None:
    one = rig(quiet_trace)
    assert one.ask("*IDN?") == "Wattbell,virtual-rig,VR0001,0.3.0"
    assert one.status()["state"] == "READY"
    one.send("INIT")
    stream = one.read_all()
    assert one.ask("SYST:ERR?") == '0,"No error"'
    batches, decoder = decode(stream)
    assert decoder.counters.skipped_bytes == decoder.counters.missing_blocks == 0
    assert column(batches, "status", "run")[0] == 1
    assert column(batches, "status", "run")[-1] == 0
    runs = [a for t, a in zip(column(batches, "events", "type"), column(batches, "events", "arg8"), strict=True) if t == EventType.RUN]
    assert runs == [1, 0]
    assert sum(column(batches, "rail", "count")) == pytest.approx(40_000, abs=3)
    assert int(one.status()["bytes"]) == len(stream)
    tick = one.status()["tick"]
    one.send("INIT")
    assert one.ask("SYST:ERR?") == '0,"No error"'
    wait_until(lambda: one.status()["state"] == "DONE", "the end of a capture behind the end of the trace")
    assert one.status()["tick"] - tick < 1_000_000


def test_time_stands_still_before_and_after_a_capture(tmp_path: Path, rig: type[Rig]) -> None:
    trace = tmp_path / "longer.wbt"  # than a busy machine takes to answer
    trace.write_bytes(encode([rail(0, 3.3, 1.0), sideband(10, 1, 1), end(3_000_000)]))
    one = rig(trace, "--realtime")
    before = one.status()["trace_tick"]
    assert before < 0
    assert one.ask("*IDN?;SYST:ERR:COUN?").endswith(";0")
    assert one.status()["trace_tick"] == before
    one.send("INIT")
    wait_until(lambda: one.status()["trace_tick"] > 3_000_000, "3 ms of virtual time")
    one.send("ABOR")
    wait_until(lambda: one.status()["state"] == "READY", "the stop")
    stopped = one.status()["trace_tick"]
    assert one.ask("SENS:SWE:DEC 1;DEC?;:SYST:TICK?").startswith("1;") and one.status()["trace_tick"] - stopped < 1000
    assert stopped < 3_000_000_000
    one.send("INIT")
    batches, decoder = decode(one.read_all())
    assert decoder.counters.missing_blocks == 0
    assert [a for t, a in zip(column(batches, "events", "type"), column(batches, "events", "arg8"), strict=True) if t == EventType.RUN] == [
        1,
        0,
        1,
        0,
    ]


def test_nobody_reads_and_nothing_is_lost(tmp_path: Path, rig: type[Rig]) -> None:
    trace = tmp_path / "long.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1.0), end(400_000)]))
    one = rig(trace)
    one.send("INIT")
    last = -1

    def stalled() -> bool:
        nonlocal last
        tick, last = last, one.status()["trace_tick"]
        return last > 4_000 and tick == last

    wait_until(stalled, "the simulation to wait for a reader")
    assert one.ask("STAT:RIG?").startswith("state=RUN,")
    assert one.status()["trace_tick"] < 400_000_000
    batches, decoder = decode(one.read_all())
    assert decoder.counters.missing_blocks == 0
    assert sum(column(batches, "rail", "count")) == pytest.approx(400_000, abs=3)
    assert not any(column(batches, "rail", "dropped"))


def test_the_host_may_come_and_go(tmp_path: Path, rig: type[Rig]) -> None:
    trace = tmp_path / "long.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 1.0), end(200_000)]))
    one = rig(trace)
    one.send("INIT")
    assert one.data is not None
    head = one.data.read(10_000)
    one.data.close()
    one.control.close()
    one = reopened(one)
    tail = one.read_all()
    # opening a serial port flushes what is queued in it, at most what a terminal holds
    decoder = decode(head)[1], decode(tail)[1]
    missing = int(one.status()["bytes"]) - len(head) - len(tail)
    assert 0 <= missing <= 1 << 17
    assert decoder[1].counters.blocks > 100
    assert one.process.poll() is None


def reopened(one: Rig) -> Rig:
    """Reopen both ports of the same process."""
    one.open_data()
    one.control.open()
    return one


def test_markers_and_settings_while_it_runs(quiet_trace: Path, rig: type[Rig]) -> None:
    one = rig(quiet_trace, "--realtime")
    one.send("MARK 1")
    assert one.ask("SYST:ERR?").startswith("-221,")
    one.send("INIT")
    one.send("MARK 12345;MARK #HCAFE")
    one.send("SENS:SWE:DEC 10")
    assert one.ask("SENS:SWE:DEC?;TINT?;:SYST:ERR?") == '10;+1.000E-06;0,"No error"'
    batches, _ = decode(one.read_all())
    rows = zip(*(column(batches, "events", n) for n in ("type", "arg8", "arg32")), strict=True)
    assert [v for t, source, v in rows if (t, source) == (EventType.MARKER, MarkerSource.CONTROL)] == [12345, 0xCAFE]
    assert set(column(batches, "rail", "interval_ticks")) == {1000, 10_000}


def test_nonsense_on_the_control_port_is_an_error_and_no_hang(quiet_trace: Path, rig: type[Rig]) -> None:
    one = rig(quiet_trace)
    one.control.write(b"FOO\r\n\n;;;\n\xff\xfe\n" + b"x" * 10_000 + b"\nSENS:SWE:DEC 0;BAR\n")
    answers = [one.ask("SYST:ERR?") for _ in range(5)]
    assert [int(a.split(",")[0]) for a in answers] == [-113, -101, -363, -222, -113]
    one.send("FOO\n*CLS")
    assert one.ask("SYST:ERR?").startswith("0,")
    one.send("NVME:ATT")
    assert one.ask("SYST:ERR?").startswith("-221,")
    assert one.ask("*OPC?") == "1"


def test_what_a_host_writes_to_the_data_port_is_ignored(quiet_trace: Path, rig: type[Rig]) -> None:
    one = rig(quiet_trace)
    assert one.data is not None
    one.data.write(b"*IDN?\n" * 200)
    one.send("INIT")
    _, decoder = decode(one.read_all())
    assert decoder.counters.skipped_bytes == decoder.counters.missing_blocks == 0


def test_a_trace_is_played_as_it_arrives(rig: type[Rig]) -> None:
    one = rig("-", "--exit-on-done", stdin=subprocess.PIPE)
    pipe = one.process.stdin
    assert pipe is not None
    one.send("INIT")
    first = encode([rail(0, 3.3, 1.0), sideband(10, 1, 1), rail(20_000, 3.3, 0.5)])
    pipe.write(first)
    pipe.flush()
    assert one.data is not None
    got = bytearray()

    def played() -> bool:
        assert one.data is not None
        got.extend(one.data.read(1 << 16))
        return one.status()["trace_tick"] > 19_900_000

    wait_until(played, "what has arrived to be played")
    assert one.status()["state"] == "RUN"
    assert one.status()["trace_tick"] <= 20_000_000
    assert one.ask("STAT:RIG?").startswith("state=RUN,")  # while waiting for the trace
    pipe.write(encode([end(30_000)])[-12:])
    pipe.close()
    got += one.read_to_exit()
    assert one.process.returncode == 0
    batches, decoder = decode(bytes(got))
    assert decoder.counters.missing_blocks == 0
    assert sum(column(batches, "rail", "count")) == pytest.approx(30_000, abs=3)


def test_a_damaged_trace_is_played_up_to_the_damage(quiet_trace: Path, tmp_path: Path, rig: type[Rig]) -> None:
    broken = tmp_path / "broken.wbt"
    broken.write_bytes(quiet_trace.read_bytes()[:-12] + b"\x63" + bytes(40))
    one = rig(broken, "--exit-on-done")
    one.send("INIT")
    got = one.read_to_exit()
    assert one.process.returncode == 1
    assert one.process.stderr is not None
    assert b"damaged" in one.process.stderr.read()
    assert sum(column(decode(got)[0], "rail", "count")) == pytest.approx(25_000, abs=3)


def test_late_attach(drive_trace: Path, tmp_path: Path, rig: type[Rig]) -> None:
    """The rig learns BAR0 and the queues only from the host: everything before the I/O commands is removed."""
    from tests.sim.rig.rig_late import cut, queue_lines  # what a driver would know, read from the trace's own set-up

    late = tmp_path / "late.wbt"
    late.write_bytes(encode(cut(records(drive_trace))))
    blind, told = rig(late, "--serial", "BLIND"), rig(late, "--serial", "TOLD")
    for line in queue_lines(records(drive_trace)):
        told.send(line)
        assert told.ask("SYST:ERR?") == '0,"No error"'
    streams = []
    for one in (blind, told):
        one.send("INIT")
        streams.append(decode(one.read_all())[0])
    counts = [column(stream, "commands", "qid").count(1) for stream in streams]
    assert counts[0] == 0
    assert counts[1] > 40
    assert all(column(streams[1], "commands", "interrupt_guessed"))  # the host's messages were not seen


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["no-such.wbt"], "cannot read"),
        (["TRACE", "--usb-mbps", "0"], "--usb-mbps"),
        (["TRACE", "--fidelity", "fast", "--usb-mbps", "42"], "--usb-mbps needs --fidelity rtl"),
        (["TRACE", "--noise", "-1"], "--noise"),
        (["TRACE", "--serial", "a/b"], "--serial"),
        (["TRACE", "--lib", "no-such.so"], "make rtl"),
        (["TRACE", "--output", "/no/such/folder/x"], "cannot write"),
    ],
)
def test_bad_input_is_one_clear_error(quiet_trace: Path, tmp_path: Path, options: list[str], words: str) -> None:
    options = [str(quiet_trace) if o == "TRACE" else o for o in options]
    environment = {**os.environ, "WATTBELL_RUNTIME": str(tmp_path / "runtime")}
    command = [str(find("wattbell-rig")), "play", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode != 0
    assert words in done.stderr
    assert "panicked" not in done.stderr
    assert not list(tmp_path.glob("runtime/rigs/*"))


def test_kill_leaves_a_stale_entry_and_interrupt_does_not(quiet_trace: Path, rig: type[Rig], tmp_path: Path) -> None:
    entries = tmp_path / "runtime/rigs"
    one = rig(quiet_trace, "--serial", "A")
    one.process.send_signal(signal.SIGINT)
    assert one.process.wait() == 0
    assert not list(entries.iterdir())
    two = rig(quiet_trace, "--serial", "B")
    two.process.kill()
    two.process.wait()
    assert [p.name for p in entries.iterdir()] == ["B.json"]  # its pid tells that it is stale
    three = rig(quiet_trace, "--serial", "B")
    assert json.loads((entries / "B.json").read_text())["pid"] == three.process.pid


def test_the_folder_of_registrations_is_its_users_alone(quiet_trace: Path, rig: type[Rig], tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    rig(quiet_trace, "--serial", "A")
    modes = [path.stat().st_mode & 0o777 for path in (runtime, runtime / "rigs", runtime / "rigs" / "A.json")]
    assert modes == [0o700, 0o700, 0o600]
    (runtime / "rigs").chmod(0o777)
    command = [str(find("wattbell-rig")), "play", str(quiet_trace), "--serial", "B"]
    environment = {**os.environ, "WATTBELL_RUNTIME": str(runtime)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode != 0 and "can be written by others; set WATTBELL_RUNTIME" in done.stderr
