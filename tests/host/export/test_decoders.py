"""The decoders for libsigrokdecode, run by sigrok-cli."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner
from wattbell.cli.app import app
from wattbell.export import export_sigrok
from wattbell.export.sigrok import DECODERS
from wattbell_spec.wire import CommandFlag, EventType

from tests.host.wire import encoder

US, MS = 1_000, 1_000_000
pytestmark = pytest.mark.needs("sigrok-cli")

Annotation = tuple[int, int, str]


class Decoded:
    """Input and decoder arguments for sigrok-cli."""

    def __init__(self, *words: object) -> None:
        self.words = [str(word) for word in words]
        self.decoder = self.words[self.words.index("-P") + 1].split(":")[0]

    def of(self, kind: str) -> list[Annotation]:
        """(first sample, last sample, text) of the annotations of a class, in order of their ends."""
        command = ["sigrok-cli", *self.words, "-A", f"{self.decoder}={kind}", "--protocol-decoder-samplenum"]
        environment = {**os.environ, "SIGROKDECODE_DIR": str(DECODERS)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stderr) == (0, "")
        rows = re.findall(r"^(\d+)-(\d+) \w+-1: (.*)$", done.stdout, flags=re.MULTILINE)
        assert len(rows) == len(done.stdout.splitlines()), done.stdout
        return [(int(first), int(last), text) for first, last, text in rows]


def stream(path: Path, data: bytes) -> Decoded:
    """The output of `wattbell` for a stream in a file."""
    path.write_bytes(data)
    return Decoded("-i", path, "-I", "binary:numchannels=8", "-P", "wattbell:" + ":".join(f"d{k}={k}" for k in range(8)))


def test_the_program_says_where_they_are() -> None:
    done = CliRunner().invoke(app, ["sigrok-decoders"])
    assert done.output == f"{DECODERS}\n"


def test_blocks_of_every_kind(tmp_path: Path) -> None:
    read = encoder.Command(5 * MS, doorbell_before=80 * US, fetch_before=79 * US, cid=7, slba=1000, blocks=8)
    admin = encoder.Command(6 * MS, fetch_before=5 * US, qid=0, opcode=6, status=0x4002, flags=0x41)
    flush = encoder.Command(7 * MS, opcode=0, qid=3, blocks=0)
    blocks = [
        encoder.commands(10, 4 * MS, [read, admin, flush]),
        encoder.rail(11, 0, [(165_000, 200_000), (165_000, 400_000)], interval=10_000, flags=4),
        encoder.events(12, 9 * MS, [(9 * MS, 1, 5, 0, 0), (10 * MS, 2, 1, 0, 0), (11 * MS, 7, 1, 0, 0x102), (12 * MS, 8, 7, 0, 30)]),
    ]
    found = stream(tmp_path / "x.wbs", b"".join(blocks))
    sizes = [len(block) for block in blocks]
    assert found.of("block") == [
        (0, sizes[0], f"COMMANDS #10, 132 bytes, tick {4 * MS}"),
        (sizes[0], sum(sizes[:2]), "RAIL #11, 40 bytes, tick 0"),
        (sum(sizes[:2]), sum(sizes), f"EVENTS #12, 64 bytes, tick {9 * MS}"),
    ]
    assert found.of("command") == [
        (28, 72, "Read q1 cid 7 LBA 1000 +8 80.000 us"),
        (72, 116, "Identify q0 cid 0 status 4002h 5.000 us GUESS LOSS"),
        (116, 160, "Flush q3 cid 0"),
    ]
    # 3.3 V x 0.1 A and 0.2 A
    assert [text for *_, text in found.of("rail")] == ["2 samples each 10.000 us, mean 0.495000 W UNCALIBRATED"]
    assert [text for *_, text in found.of("event")] == [
        "LINK L1.2 at 9000.000 us",
        "CLKREQ released at 10000.000 us",
        "MARKER 00000102h at 11000.000 us",
        "LOSS RAIL 30 at 12000.000 us",
    ]
    assert found.of("warning") == []


def test_damage_is_told_and_what_follows_is_read(tmp_path: Path) -> None:
    blocks = [encoder.events(n, n, [(n, 15, 1, 0, 0)]) for n in range(6)]
    damaged = bytearray(blocks[1])
    damaged[30] ^= 1
    data = blocks[0] + bytes(damaged) + b"WBE" + blocks[2] + blocks[4] + encoder.block(9, 5, 0, b"")
    found = stream(tmp_path / "x.wbs", data)
    assert [text.split(",")[0] for *_, text in found.of("block")] == ["EVENTS #0", "EVENTS #2", "EVENTS #4", "kind 9 #5"]
    assert [text for *_, text in found.of("warning")] == [
        "CRC wrong",
        "51 bytes belong to no block",
        "expected #1: 1 blocks are missing",
        "expected #3: 1 blocks are missing",
        "unknown: version 2, kind 9",
    ]


def test_bytes_with_a_clock(tmp_path: Path) -> None:
    """A logic analyser on a parallel port: D0..D7 and a clock, several samples per byte."""
    block = encoder.events(0, 1, [(1, 15, 1, 0, 0)])
    samples = b"".join(word.to_bytes(2, "little") for byte in block for word in [byte, byte | 0x100, byte | 0x100, byte])
    path = tmp_path / "x.bin"
    path.write_bytes(samples)
    pins = ":".join([f"d{k}={k}" for k in range(8)] + ["clk=8"])
    found = Decoded("-i", path, "-I", "binary:numchannels=9", "-P", "wattbell:" + pins)
    assert found.of("block") == [(1, 1 + 4 * len(block), "EVENTS #0, 16 bytes, tick 1")]


NVME = "nvme:" + ":".join(
    [
        "doorbell=DOORBELL",
        "cqe=CQE",
        "fetch=FETCH",
        "data=DATA",
        "clkreq=CLKREQ#",
        "perst=PERST#",
        "link0=LINK0",
        "link1=LINK1",
        "link2=LINK2",
    ]
)
WITH_BUSY = NVME + ":busy=BUSY"
WHOLE = WITH_BUSY + "".join(f":origin{k}=ORIGIN{k}" for k in range(6))
IN_ORDER = WITH_BUSY.replace("nvme:", "nvme:in_flight=in-order:")


def test_phases_of_commands(builder, tmp_path: Path) -> None:
    builder.power(0, 0.66)
    builder.events += [(0, EventType.PERST, 0, 0), (0, EventType.LINK, 7, 0), (1 * MS, EventType.PERST, 1, 0)]
    builder.events += [(2 * MS, EventType.LINK, 1, 0), (9 * MS, EventType.LINK, 5, 0), (9 * MS, EventType.CLKREQ, 1, 0)]
    builder.events += [(10 * MS, EventType.CLKREQ, 0, 0), (10 * MS, EventType.LINK, 1, 0)]
    data = {"first_data_tick": 3 * MS + 60 * US, "last_data_tick": 3 * MS + 69 * US}
    builder.command(3 * MS, 80 * US, fetch_tick=3 * MS + 2 * US, **data)
    builder.command(4 * MS, 10 * US, opcode=0, fetch_tick=4 * MS + 3 * US)
    builder.command(5 * MS, 40 * US)  # two with one doorbell, fetched one after the other
    builder.command(5 * MS, 50 * US, fetch_tick=5 * MS + 4 * US)
    builder.command(6 * MS, 70 * US, fetch_tick=6 * MS + 1 * US)
    made = export_sigrok(builder.write(11 * MS), tmp_path / "x.sr")
    lone = [(3000, 3080, "latency 80 us"), (4000, 4010, "latency 10 us"), (6000, 6070, "latency 70 us")]
    found = Decoded("-i", made.path, "-P", WITH_BUSY)
    assert found.of("command") == lone
    assert found.of("assumed") == []
    assert [first for first, *_ in found.of("untimed")] == [5040, 5050]
    asked = Decoded("-i", made.path, "-P", IN_ORDER)
    assert asked.of("command") == lone
    assert asked.of("assumed") == [(5000, 5040, "40 us in order? 1 more in flight"), (5000, 5050, "50 us in order? 0 more in flight")]
    whole = Decoded("-i", made.path, "-P", WHOLE)
    assert whole.of("command") == [*lone[:2], (5000, 5040, "latency 40 us"), (5000, 5050, "latency 50 us"), lone[2]]
    assert whole.of("untimed") == []
    assert {first for first, *_ in whole.of("submit")} == {3000, 4000, 6000}, "parts only of commands that were alone"
    phases = sorted(found.of("submit") + found.of("access") + found.of("transfer") + found.of("complete"))
    assert phases == [
        (3000, 3002, "submit 2 us"),
        (3002, 3060, "access 58 us"),
        (3060, 3070, "data 10 us"),
        (3070, 3080, "complete 10 us"),
        (4000, 4003, "submit 3 us"),
        (4003, 4010, "access 7 us"),
        (6000, 6001, "submit 1 us"),
        (6001, 6070, "access 69 us"),
    ]
    assert found.of("link") == [(0, 2000, "Detect 2000 us"), (2000, 9000, "L0 7000 us"), (9000, 10_000, "L1.2 1000 us")]
    assert found.of("reset") == [(0, 1000, "reset 1000 us")]
    assert found.of("clkreq") == [(9000, 10_000, "CLKREQ# released 1000 us")]
    assert found.of("warning") == []


def test_a_window_in_the_midst_of_a_load_gives_no_latency_of_what_began_before(builder, tmp_path: Path) -> None:
    """Matched in order, the completions of the first two would go to the third and fourth, of 5 us."""
    for n in range(4):
        builder.command(1 * MS + 50 * n * US, 105 * US)
    builder.command(3 * MS, 60 * US)
    made = export_sigrok(builder.write(4 * MS), tmp_path / "x.sr", start_s=0.00009)
    found = Decoded("-i", made.path, "-P", WITH_BUSY)
    assert [text for *_, text in found.of("command")] == ["latency 60 us"]
    assert found.of("assumed") == []
    assert [text for *_, text in found.of("warning")] == ["commands are in flight at the first sample: no latency before BUSY has been low"]
    unaware = Decoded("-i", made.path, "-P", NVME)
    assert unaware.of("command") == unaware.of("assumed") == []
    assert len(unaware.of("untimed")) == 5
    whole = Decoded("-i", made.path, "-P", WHOLE)
    assert [text for *_, text in whole.of("command")] == ["latency 105 us"] * 2 + ["latency 60 us"]
    assert [text for *_, text in whole.of("untimed")] == ["completion: in flight at the first sample"] * 2
    assert [text for *_, text in whole.of("warning")] == ["commands are in flight at the first sample"]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])  # each starts sigrok-cli
@given(
    commands=st.lists(st.tuples(st.integers(0, 60), st.integers(30, 400), st.integers(0, 9)), min_size=5, max_size=150),
    start=st.integers(0, 2000),
    rate=st.sampled_from([1_000_000, 250_000]),
)
def test_at_any_depth_every_latency_is_that_of_a_command(
    builder, tmp_path_factory: pytest.TempPathFactory, commands: list[tuple[int, int, int]], start: int, rate: int
) -> None:
    """Commands that overtake each other, share doorbells and samples, or are in doubt; a window from anywhere. Each completion has the time
    of a command that ends in its sample, or says why it has none; it has one wherever one command ends there, known from its doorbell."""
    folder = tmp_path_factory.mktemp("any")
    builder = type(builder)(folder / "capture")
    bell, rows = 0, []
    for step, latency, doubt in commands:
        bell += step * 300
        rows.append((bell, builder.command(bell, latency * 1000 + 7, flags=int(CommandFlag.GUESS) if doubt == 9 else 0), doubt == 9))
    made = export_sigrok(builder.write(), folder / "x.sr", start_s=min(start * 1e-6, (bell - rows[0][0]) * 1e-9), samplerate_hz=rate)
    origin, sample_ns = rows[0][0] + round(made.start_s * 1e9), 10**9 // rate
    spans = [(-((origin - a) // sample_ns), -((origin - b) // sample_ns), doubt, a < origin) for a, b, doubt in rows if b >= origin]
    decoded = Decoded("-i", made.path, "-P", WHOLE)
    timed = [(first, last) for first, last, _ in decoded.of("command")]
    assert len(timed) == len(set(timed))
    assert set(timed) <= {(a, b) for a, b, doubt, before in spans if not doubt and not before}
    ends = sorted({b for _, b, *_ in spans})
    assert sorted([last for _, last in timed] + [first for first, *_ in decoded.of("untimed")]) == ends
    alone = {b for b in ends if len({(a, doubt, before) for a, e, doubt, before in spans if e == b}) == 1}
    bells = {a for a, _, _, before in spans if not before}
    near = {(a, b) for a, b, doubt, before in spans if not doubt and not before and sum(a < other <= b for other in bells) < 62}
    assert {(a, b) for a, b in near if b in alone} <= set(timed)


def test_the_drive_may_take_commands_in_another_order(builder, tmp_path: Path) -> None:
    """With two queues: the later doorbell's command is fetched and completed before the earlier one's is even fetched."""
    builder.power(0, 0.66)
    builder.command(1 * MS, 100 * US, fetch_tick=1 * MS + 51 * US, qid=1)
    builder.command(1 * MS + 1 * US, 49 * US, fetch_tick=1 * MS + 2 * US, qid=2)
    found = Decoded("-i", export_sigrok(builder.write(2 * MS), tmp_path / "x.sr").path, "-P", WITH_BUSY)
    assert found.of("command") == []
    assert len(found.of("untimed")) == 2
    whole = Decoded("-i", tmp_path / "x.sr", "-P", WHOLE)
    assert [text for *_, text in whole.of("command")] == ["latency 49 us", "latency 100 us"]


def test_two_that_share_a_sample_are_not_exact(builder, tmp_path: Path) -> None:
    """One ends within the sample in which the next begins; two of one doorbell end in one sample."""
    builder.power(0, 0.66)
    builder.command(1 * MS + 100, 300, fetch_tick=1 * MS + 200)
    builder.command(1 * MS + 500, 80 * US, fetch_tick=1 * MS + 600)
    builder.command(2 * MS, 80 * US, fetch_tick=2 * MS + 2 * US)
    builder.command(2 * MS, 80 * US - 300, fetch_tick=2 * MS + 4 * US)
    found = Decoded("-i", export_sigrok(builder.write(3 * MS), tmp_path / "x.sr").path, "-P", WITH_BUSY)
    assert found.of("command") == []


DOUBTS = [{"flags": int(CommandFlag.GUESS)}, {"flags": int(CommandFlag.LOSS)}, {"saturated": 1}, {"saturated": 3}]


@pytest.mark.parametrize("doubt", DOUBTS, ids=str)
def test_a_record_in_doubt_is_not_exact(builder, tmp_path: Path, doubt: dict[str, int]) -> None:
    builder.command(1 * MS, 80 * US, **doubt)
    builder.command(2 * MS, 80 * US)
    found = Decoded("-i", export_sigrok(builder.write(3 * MS), tmp_path / "x.sr").path, "-P", WITH_BUSY)
    assert [text for *_, text in found.of("command")] == ["latency 80 us"], "the second one's"
    assert len(found.of("submit")) == 1


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])  # each starts sigrok-cli
@given(
    commands=st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 3000), st.integers(1, 300), st.integers(1, 300), st.booleans()),
        min_size=5,
        max_size=80,
    ),
    start=st.integers(0, 3000),
)
def test_what_is_called_exact_is_the_time_of_a_command(
    builder, tmp_path_factory: pytest.TempPathFactory, commands: list[tuple[int, int, int, int, bool]], start: int
) -> None:
    """Any load, a window from anywhere, several strobes per sample: no time is off by more than its samples. At QD1 nothing is left out."""
    folder = tmp_path_factory.mktemp("any")
    builder = type(builder)(folder / "capture")
    bell = 0
    times = []
    for step, pause, fetch, rest, shares in commands:
        bell += 0 if shares else step * 100 + (pause * 1000 if pause > 2000 else 0)
        builder.command(bell, 100 * (fetch + rest), fetch_tick=bell + 100 * fetch)
        times.append((bell, bell + 100 * (fetch + rest)))
    made = export_sigrok(builder.write(), folder / "x.sr", start_s=min(start * 1e-7, (bell - times[0][0]) * 1e-9 / 2))
    origin = times[0][0] + round(made.start_s * 1e9)
    spans = [(-((origin - a) // 1000), -((origin - b) // 1000)) for a, b in times]
    found = Decoded("-i", made.path, "-P", WITH_BUSY).of("command")
    assert {(first, last) for first, last, _ in found} <= set(spans)
    lone = {s for s in spans if s[0] > 0 and s[1] > s[0] and not any(o is not s and o[0] <= s[1] and o[1] >= s[0] - 1 for o in spans)}
    assert lone <= {(first, last) for first, last, _ in found}


def test_strobes_in_a_row_and_missing_channels(builder, tmp_path: Path) -> None:
    """Three doorbells in three samples, then three completions in three; without FETCH a doorbell is a command. A user who says that they
    are in order is believed until the strobes contradict."""
    for n in range(3):
        builder.command(2 * MS + n * US, 20 * US, fetch_tick=None)
    capture = builder.write(4 * MS)
    made = export_sigrok(capture, tmp_path / "y.sr", start_s=10e-6)
    pins = "nvme:in_flight=in-order:doorbell=DOORBELL:cqe=CQE"
    found = Decoded("-i", made.path, "-P", pins)
    assert [text.split(":")[0] for *_, text in found.of("warning")] == ["a completion without a command"]
    assert len(found.of("untimed")) == 2
    made = export_sigrok(capture, tmp_path / "x.sr")
    found = Decoded("-i", made.path, "-P", pins)
    assert [last - first for first, last, _ in found.of("assumed")] == [20, 20, 20]
    assert found.of("warning") == found.of("command") == []


def test_with_the_users_word_that_there_is_one_command_at_a_time(builder, tmp_path: Path) -> None:
    """No BUSY, as from a logic analyser. A doorbell may coincide with the completion before it; two at once contradict the option."""
    end = 1 * MS
    for n in range(3):
        end = builder.command(end, (10 + n) * US, fetch_tick=end + 2 * US)
    builder.command(2 * MS, 70 * US, fetch_tick=2 * MS + 1 * US)
    builder.command(3 * MS, 40 * US, fetch_tick=3 * MS + 2 * US)
    builder.command(3 * MS + 10 * US, 40 * US, fetch_tick=3 * MS + 11 * US)
    builder.command(4 * MS, 70 * US, fetch_tick=4 * MS + 1 * US)
    made = export_sigrok(builder.write(5 * MS), tmp_path / "x.sr")
    pins = "nvme:in_flight=one:doorbell=DOORBELL:cqe=CQE:fetch=FETCH"
    found = Decoded("-i", made.path, "-P", pins)
    assert [text for *_, text in found.of("command")] == [f"latency {time} us" for time in (10, 11, 12, 70)]
    assert [text for *_, text in found.of("submit")] == ["submit 2 us"] * 3 + ["submit 1 us"]
    assert [text for *_, text in found.of("warning")] == ["more than one command is in flight: from here on there are no latencies"]
    assert found.of("assumed") == []
    assert len(found.of("untimed")) == 3
