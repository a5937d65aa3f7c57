"""Texts of kernel traces as people have them: other kernels, other programs, other events among the drive's, lines of anybody.

Each input is written by hand, and so is the expected result: three reads of 4 KiB that take 100, 200 and 300 us.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner
from wattbell.capture import open_capture
from wattbell.capture.hostcommands import HostCommands
from wattbell.capture.schema import SeenBy
from wattbell.cli.app import app
from wattbell.errors import CaptureError, UsageError
from wattbell.hostlog.events import Pairing, WantedCommands, together
from wattbell.hostlog.files import detect, read_log
from wattbell.hostlog.tracecommand import said_of
from wattbell.hostlog.traceline import line_of

from tests.host.hostlog.recorded import page_reader, recorded, unpacked

SETUP = (
    "nvme0: disk=nvme0n1, qid=1, cmdid={cid}, nsid=1, flags=0x0, meta=0x0, "
    "cmd=(nvme_cmd_read slba={slba}, len=7, ctrl=0x0, dsmgmt=0, reftag=0)"
)
DONE = "nvme0: disk=nvme0n1, qid=1, cmdid={cid}, res=0x0, retries=0, flags=0x0, status=0x0"
TRACEFS = "             fio-789     [{cpu:03}] d.h1.  {s}: {event}: {text}"


def trace(
    frame: str = TRACEFS, setup: str = SETUP, done: str = DONE, system: str = "", cids: tuple[int, ...] = (100, 101, 102)
) -> list[str]:
    """Six lines: each read is set up on CPU 0 and completed on CPU 1."""
    lines = []
    for number, cid in enumerate(cids):
        for cpu, us, event, text in (
            (0, 1000 * number, "nvme_setup_cmd", setup),
            (1, 1000 * number + 100 * (number + 1), "nvme_complete_rq", done),
        ):
            said = text.format(cid=cid, slba=8 * number)
            lines.append(frame.format(cpu=cpu, s=f"9904.{us:06}", us=us, event=system + event, text=said))
    return lines


def read(folder: Path, *lines: str, end: str = "\n") -> HostCommands:
    path = folder / "trace.txt"
    path.write_bytes("".join(line + end for line in lines).encode("utf-8", "surrogateescape"))
    return read_log(path)


def rows(found: HostCommands) -> list[tuple[int, int, int, int]]:
    """(us taken, opcode, address, blocks), in order of address."""
    data = pl.from_arrow(found.table)
    assert isinstance(data, pl.DataFrame)
    us = ((pl.col("cqe_tick") - pl.col("doorbell_tick")) // 1000).alias("us")
    return data.select(us, "opcode", "slba", "blocks").sort("slba").rows()


THREE = [(100, 2, 0, 8), (200, 2, 8, 8), (300, 2, 16, 8)]
FIELDS = (
    "      [FAILED TO PARSE] disk=nvme0n1 ctrl_id=0 qid=1 opcode=2 flags=0 fctype=1 cid={cid} nsid=1 metadata=0 "
    "cdw10=ARRAY[SLBA, 00, 00, 00, 00, 00, 00, 00, 07, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00]"
)
FIELDS_DONE = "      disk=nvme0n1 ctrl_id=0 qid=1 cid={cid} result=0x0 retries=0 flags=0 status=0"


@pytest.mark.parametrize(
    ("frame", "system"),
    [
        (TRACEFS, ""),
        ("             fio-789     [{cpu:03}]  {s}: {event}: {text}", ""),  # trace-cmd
        ("             fio-789     [{cpu:03}] d.h. {s}: {event}: {text}", ""),  # marks before Linux 5.15
        ("             fio-789     (    789) [{cpu:03}] d..2. {s}: {event}: {text}", ""),  # option record-tgid
        ("       trace-cmd-789     [{cpu:03}] d.h1.  {s}: {event}: {text}", ""),
        ("  my job [0] 1.0-789     [{cpu:03}] d.h1.  {s}: {event}: {text}", ""),
        ("     fio-789       {cpu}d.h1. {s}: {event}: {text}", ""),  # trace-cmd report -l
        ("     fio-789       {cpu}d.h1. {us:4}us!: {event}: {text}", ""),  # option latency-format
        ("             fio   789 [{cpu:03}]  {s}: {event}: {text}", "nvme:"),  # perf script
        ("             fio   789/790   [{cpu:03}]  {s}000: {event}: {text}", "nvme:"),  # perf script --ns -F +tid
        (" :-1    -1  {s}:          1 {event}: {text}", "nvme:"),  # perf script of a record without CPUs
    ],
)
def test_every_program_has_its_own_frame(tmp_path: Path, frame: str, system: str) -> None:
    found = read(tmp_path, *trace(frame, system=system))
    assert rows(found) == THREE and found.notes == [] and found.lost == [] and found.source == SeenBy.TRACEPOINT


def test_time_stamps_are_as_good_as_the_program_prints_them(tmp_path: Path) -> None:
    def u_ns(frame: str, system: str = "") -> list[int]:
        return read(tmp_path, *trace(frame, system=system)).table["instant_u_ns"].unique().to_pylist()

    assert u_ns(TRACEFS) == [500]
    assert u_ns("fio-789 [{cpu:03}]  {s}000: {event}: {text}") == [1]
    # perf cuts off what is below a microsecond
    assert u_ns("fio 789 [{cpu:03}]  {s}: {event}: {text}", "nvme:") == [1000]


@pytest.mark.parametrize("status", [("res=0x0", "status=0x4281"), ("res=0", "status=17025"), ("res=18446612684158962624", "status=17025")])
def test_linux_5_2_prints_the_status_in_decimal(tmp_path: Path, status: tuple[str, str]) -> None:
    done = DONE.replace("res=0x0", status[0]).replace("status=0x0", status[1])
    assert read(tmp_path, *trace(done=done)).table["status"].to_pylist() == [0x4281] * 3


@pytest.mark.parametrize(
    ("setup", "done", "extra"),
    [
        (SETUP, DONE.replace(", res", ", opcode=2, res"), "opcode (3)"),
        (SETUP.replace(", cmd=", ", nlb=8, cmd="), DONE + ", vendor=abc", "nlb (3), vendor (3)"),
    ],
)
def test_fields_of_a_vendor_are_told_and_not_used(tmp_path: Path, setup: str, done: str, extra: str) -> None:
    found = read(tmp_path, *trace(setup=setup, done=done))
    assert rows(found) == THREE and found.notes == [f"events have fields that are not known here and are not used: {extra}"]


@pytest.mark.parametrize(("name", "opcode"), [("0x2", 2), ("2", 2), ("read", 2), ("nvme_cmd_write_uncor", 4), ("0xc1", 0xC1)])
def test_a_command_has_a_name_or_a_number(tmp_path: Path, name: str, opcode: int) -> None:
    found = read(tmp_path, *trace(setup=SETUP.replace("nvme_cmd_read", name)))
    assert found.table["opcode"].to_pylist() == [opcode] * 3 and found.notes == []


def test_bare_fields_of_trace_cmd(tmp_path: Path) -> None:
    lines = [
        line.replace("SLBA", f"{8 * (number // 2):02x}")
        for number, line in enumerate(trace(setup=FIELDS.replace("{slba}", ""), done=FIELDS_DONE))
    ]
    assert rows(read(tmp_path, *lines)) == THREE
    # an error with these must not advise a search for text that they do not have
    with pytest.raises(UsageError, match=r"grep 'ctrl_id=0 '"):
        read(tmp_path, *lines, *(line.replace("ctrl_id=0", "ctrl_id=3") for line in lines))


def test_linux_before_6_0_completes_by_the_tag_alone(tmp_path: Path) -> None:
    """The set-up's CID has the number of uses in bits 15:12, the completion's has not (mended in 6.0 and in stable 5.15)."""
    lines = trace(cids=(0x1005, 0x2005, 0x3006))
    by_tag = [line if "setup" in line else re.sub(r"cmdid=(\d+)", lambda m: f"cmdid={int(m[1]) & 0xFFF}", line) for line in lines]
    found = read(tmp_path, *by_tag)
    assert rows(found) == THREE and found.table["cid"].to_pylist() == [0x1005, 0x2005, 0x3006]
    assert found.notes == ["3 completions name the tag alone (Linux 5.10 to 5.19 may): each is taken for that of the tag's latest set-up."]
    # one completion with a number of uses: then a completion with another number is of another command
    mixed = read(tmp_path, *by_tag[:2], *lines[2:])
    assert mixed.table["doorbell_tick"].null_count == 1 and any("NO_SQE" in note for note in mixed.notes)


FIO = "             fio-789     [000] d.h1.  9904.000001:"
OTHERS = [
    ("stack", [f"{FIO} <stack trace>", " => nvme_setup_cmd", " => nvme_queue_rq"], "3 lines of stacks"),
    ("trace-cmd's stack", [f"{FIO} kernel_stack:  <stack trace >", "=> nvme_setup_cmd (ffffffffc0a1)"], "1 kernel_stack"),
    (
        "perf's stack",
        ["\tffffffffc09a1b2c nvme_setup_cmd+0x1b2 ([nvme_core])", "\t    7f3c1a2b3c4d io_submit+0x1d (libaio.so)"],
        "2 lines of stacks",
    ),
    ("functions", [f"{FIO} nvme_setup_cmd <-nvme_queue_rq"], "1 function calls"),
    ("graph", [" 0)   0.345 us    |  nvme_setup_cmd();", " 1)               |  nvme_queue_rq() {"], "2 lines of a function graph"),
    ("events", [f"{FIO} block_rq_issue: 259,0 R 4096 () 0 + 8 [fio]"], "1 block_rq_issue"),
    ("nvme_sq", [f"{FIO} nvme_sq: nvme0: disk=nvme0n1, qid=1, head=1, tail=2"], "1 nvme_sq"),
    ("a probe of that name", ["  fio 789 [000] 9904.000001: probe:nvme_complete_rq: (ffffffffc0a1)"], "1 probe:nvme_complete_rq"),
    ("a marking", [f"{FIO} tracing_mark_write: step 1 begins"], "1 tracing_mark_write"),
    ("a shell", ["$ cat trace", "[1]+  Done"], "2 lines that are no trace's; the first that no trace has is line 3: $ cat trace"),
    ("trace-cmd's warning", ["  [nvme:nvme_setup_cmd] function nvme_trace_disk_name not defined"], "1 lines that are no trace's"),
    ("bytes of anybody", [f"{FIO} tracing_mark_write: \udce9\udcff"], "1 tracing_mark_write"),
]


@pytest.mark.parametrize(("lines", "named"), [other[1:] for other in OTHERS], ids=[other[0] for other in OTHERS])
def test_other_lines_are_skipped_counted_and_named(tmp_path: Path, lines: list[str], named: str) -> None:
    whole = trace()
    found = read(tmp_path, *whole[:2], *lines, *whole[2:])
    (note,) = found.notes
    assert rows(found) == THREE and found.lost == []
    assert f"skipped: {named}" in note or f", {named}" in note
    assert note.startswith(f"{len(lines)} lines are no event")


def test_what_others_write_into_the_trace_is_no_command(tmp_path: Path) -> None:
    """A marking (trace_marker) with a text that looks like the driver's own event, on a line of its own time."""
    completion = f"fio-789 [001] d.h1.  9904.000050: nvme_complete_rq: {DONE.format(cid=100)}"
    for written in ("tracing_mark_write: ", "print: tracing_mark_write: ", "0xffffffff810f: ", "func+0x1/0x2: ", ""):
        line = f"            bash-12     [000] .....  9904.000040: {written}{completion}"
        found = read(tmp_path, *trace()[:1], line, *trace()[1:])
        assert rows(found) == THREE and len(found.notes) == 1


def test_headings_of_many_cpus(tmp_path: Path) -> None:
    empty = [f"CPU {number} is empty" for number in range(128)]
    found = read(tmp_path, "version = 6", *empty, "cpus=128", *trace())
    assert rows(found) == THREE and found.notes == []
    perf = ["# ========", "# captured on    : Fri Nov 27 2026", "# cmdline : /usr/bin/perf record -e nvme:* -a", "#"]
    assert rows(read(tmp_path, *perf, *trace("fio 789 [{cpu:03}] {s}: {event}: {text}", system="nvme:"))) == THREE


def test_line_ends_of_windows(tmp_path: Path) -> None:
    assert rows(read(tmp_path, "# tracer: nop", *trace(), end="\r\n")) == THREE


@pytest.mark.parametrize(
    ("said", "count"),
    [("CPU:1 [LOST 44 EVENTS]", 22), ("CPU:1 [LOST EVENTS]", -1), ("CPU:1 [44 EVENTS DROPPED]", 22), ("CPU:1 [EVENTS DROPPED]", -1)],
)
def test_lost_events_are_a_loss_between_the_cpus_neighbours(tmp_path: Path, said: str, count: int) -> None:
    """CPU 1 loses events behind the completion at 1200 us; the next on it is at 2300 us, one on CPU 0 at 2000 us."""
    lines = trace()
    found = read(tmp_path, *lines[:4], said, *lines[4:])
    (gap,) = found.lost
    base = 9_904_000_000_000
    assert (gap.first_tick - base, gap.last_tick - base, gap.count) == (1_200_000, 2_300_000, count)
    # LOSS (40h) for the commands that span it, not for the first
    assert [flags & 0x40 for flags in found.table["flags"].to_pylist()] == [0, 0x40, 0x40]


def test_how_many_of_a_mixed_buffers_lost_events_were_commands_is_not_known(tmp_path: Path) -> None:
    other = "             fio-789     [000] d.h1.  9904.000001: nvme_sq: nvme0: disk=nvme0n1, qid=1, head=1, tail=2"
    (gap,) = read(tmp_path, *trace()[:4], other, "CPU:1 [LOST 44 EVENTS]", *trace()[4:]).lost
    assert gap.count == -1 and gap.reason == "the trace buffer overran (44 events of any kind)"
    (gap,) = read(tmp_path, "# entries-in-buffer/entries-written: 7/107   #P:2", *trace(), other).lost
    assert gap.count == -1 and "100 events of any kind" in gap.reason


def test_losses_of_perf(tmp_path: Path) -> None:
    lines = trace("fio 789 [{cpu:03}] {s}: {event}: {text}", system="nvme:")
    (gap,) = read(tmp_path, *lines[:4], "fio 789 [001] 9904.001500: PERF_RECORD_LOST id:5: lost:44", *lines[4:]).lost
    assert gap.count == 22
    (gap,) = read(tmp_path, "Warning:", "Processed 6000 events and lost 3 chunks!", *lines).lost
    assert gap.count == -1


def test_an_event_that_cannot_be_read_is_a_loss_not_a_skipped_line(tmp_path: Path) -> None:
    lines = trace()
    lines[2] = lines[2].replace("cmdid=101", "cmdid=many")
    found = read(tmp_path, *lines)
    (gap,) = found.lost
    assert gap.count == 1 and gap.reason == "a line of the trace cannot be read"
    assert found.table["doorbell_tick"].null_count == 1
    assert any(
        note.startswith("1 lines with an event of a command cannot be read and count as lost; the first is line 3:") for note in found.notes
    )
    # half of a line, its time gone
    torn = read(tmp_path, *trace()[:2], trace()[2][40:], *trace()[3:])
    assert len(torn.lost) == 1 and any("cannot be read and count as lost" in note for note in torn.notes)


def test_several_traces_in_one_file_are_not_mixed(tmp_path: Path) -> None:
    later = [line.replace("9904.", "9907.") for line in trace(cids=(100, 101))]
    with pytest.raises(CaptureError, match=r"line 5: the time of CPU 0 goes back by 3\.001 s\. There seem to be several traces"):
        read(tmp_path, *later, *trace())
    # buffers of single CPUs behind each other are one trace
    cpus = [line for cpu in (0, 1) for line in trace() if f"[{cpu:03}]" in line]
    assert rows(read(tmp_path, *cpus)) == THREE


@pytest.mark.parametrize("number", ["qid=65536", "cmdid=65536", "nsid=4294967296", "qid=-1", "qid=1x"])
def test_a_number_that_no_command_has_is_not_read(tmp_path: Path, number: str) -> None:
    name, _, _ = number.partition("=")
    lines = trace()
    lines[2] = re.sub(rf"\b{name}=\d+", number, lines[2])
    found = read(tmp_path, *lines)
    assert len(found.lost) == 1 and found.table["doorbell_tick"].null_count == 1
    assert read(tmp_path, *trace(done=DONE.replace("status=0x0", "status=0xffff"))).lost == []
    lines = trace()
    lines[3] = lines[3].replace("status=0x0", "status=0x10000")
    assert len(read(tmp_path, *lines).lost) == 1


@pytest.mark.parametrize("places", [1000, 1001])
def test_very_many_places_are_one_gap(tmp_path: Path, places: int) -> None:
    line = f"             fio-789     [000] d.h1.  9904.000950: nvme_setup_cmd: {SETUP.format(cid='x', slba=0)}"
    found = read(tmp_path, *trace()[:2], *[line] * places, *trace()[2:])
    assert len(found.lost) == (1000 if places == 1000 else 1)
    assert f"{places} lines with an event of a command cannot be read and count as lost; the first is line 3" in found.notes[-1]
    if places > 1000:
        # half as many commands; between the event before the first and that behind the last
        assert (found.lost[0].first_tick, found.lost[0].last_tick, found.lost[0].count) == (9_904_000_950_000, 9_904_001_000_000, 501)


def test_a_name_without_the_kernels_prefix_is_of_its_queue() -> None:
    for qid, opcode in ((0, 0xFF), (1, 2)):
        said = said_of("nvme_setup_cmd", f"nvme0: qid={qid}, cmdid=8, nsid=1, flags=0x0, meta=0x0, cmd=(read slba=8, len=7)")
        assert said is not None and said.opcode == opcode
    admin = said_of("nvme_setup_cmd", "nvme0: qid=0, cmdid=8, nsid=1, flags=0x0, meta=0x0, cmd=(identify cns=1, ctrlid=0)")
    assert admin is not None and admin.opcode == 6


def test_the_instants_of_a_latency_format() -> None:
    stamp = line_of(f"     fio-789       0d.h1.   12us+: nvme_setup_cmd: {SETUP}").stamp
    assert stamp is not None and (stamp.cpu, stamp.ns, stamp.exact) == (0, 12_000, False)


def test_a_command_of_an_unknown_name_is_told(tmp_path: Path) -> None:
    found = read(tmp_path, *trace(setup=SETUP.replace("nvme_cmd_read", "nvme_cmd_brew")))
    assert found.table["opcode"].to_pylist() == [0xFF] * 3
    assert found.notes == ["commands of kinds that are not known here have opcode FFh: nvme_cmd_brew"]


def test_a_last_line_that_is_cut_is_told_and_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("\n".join(trace()) + "\n" + trace()[0][:60])
    found = read_log(path)
    assert rows(found) == THREE and found.lost == [] and len(found.notes) == 1
    assert found.notes[0].startswith("line 7, the last one, is cut: fio-789")
    path.write_text("# tracer: nop\n" + trace()[0][:90])
    with pytest.raises(CaptureError, match="line 2: no line of a trace, or no event as Linux 4.19 or newer writes it: fio-789"):
        read_log(path)


BLOCK = [
    "  fio-789   [000] .....  9904.000000: block_rq_issue: 259,0 R 4096 () 0 + 8 none,0,0 [fio]",
    "  fio-789   [000] .....  9904.000010: block_rq_issue: 259,0 W 8192 () 64 + 16 [fio]",
    "  <idle>-0  [000] d.h1.  9904.000100: block_rq_complete: 259,0 R () 0 + 8 none,0,0 [0]",
    "  fio-789   [000] .....  9904.000150: block_rq_issue: 259,0 FF 0 () 18446744073709551615 + 0 [fio]",
    "  <idle>-0  [000] d.h1.  9904.000200: block_rq_complete: 259,0 W () 64 + 8 [0]",
    "  <idle>-0  [000] d.h1.  9904.000310: block_rq_complete: 259,0 W () 72 + 8 [0]",
    "  <idle>-0  [000] d.h1.  9904.000350: block_rq_complete: 259,0 FF () 18446744073709551615 + 0 [0]",
    "  <idle>-0  [000] d.h1.  9904.000360: block_dirty_buffer: 259,0 sector=1 size=4096",
]


def test_a_trace_without_nvme_events_has_the_block_layers_requests(tmp_path: Path) -> None:
    found = read(tmp_path, *BLOCK)
    assert found.source == SeenBy.BLKTRACE
    assert sorted(rows(found)) == [(100, 2, 0, 8), (200, 0, 0, 0), (300, 1, 64, 16)]
    assert "There are no NVMe events in the trace" in found.notes[0] and "1 block_dirty_buffer" in found.notes[-1]
    with pytest.raises(CaptureError, match=r"no block_rq_complete in it: record the events nvme:nvme_setup_cmd"):
        read(tmp_path, *BLOCK[:2])
    with pytest.raises(UsageError, match=r"devices 259,0 and 8,0; filter it: grep ' 259,0 '"):
        read(tmp_path, *BLOCK, *(line.replace("259,0", "8,0") for line in BLOCK))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["# tracer: nop", f"{FIO} ext4_sync_file_enter: dev 259,1"], "it has 1 ext4_sync_file_enter. To import, record the events"),
        (["# tracer: nop", f"  fio-1 [000] ....     990400000100: nvme_setup_cmd: {SETUP}"], "line 2: an event without a time in seconds"),
        (["# tracer: function_graph", f" 0)               |  /* nvme_setup_cmd: {SETUP} */"], "echo nop > current_tracer"),
        (["# tracer: nop", f"{FIO} nvme_setup_nvm_cmd: qid=1, nsid=1"], "trace.txt: nvme_setup_nvm_cmd is of Linux before 4.19"),
        ([*trace()[::2], "CPU:1 [LOST 4 EVENTS]"], "no command is completed in it: record nvme_complete_rq, too"),
        (["# tracer: nop", "what is this", "and this"], "line 2: no line of a trace: what is this"),
    ],
)
def test_a_trace_without_a_command_says_why_and_what_to_record(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(says)) as error:
        read(tmp_path, *lines)
    assert "\n" not in str(error.value)


def test_a_line_far_in_the_file_still_tells_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"$ step {number}\n" for number in range(200)) + "\n".join(trace()) + "\n")
    assert detect(path).name == "trace"


def test_seconds_that_no_clock_has(tmp_path: Path) -> None:
    assert line_of(f"  fio-1 [000] .... 9999999999.000000: nvme_setup_cmd: {SETUP}").stamp is None
    epoch = line_of("  fio-1 [000] .... 1795561000.000001: x: y").stamp
    assert epoch is not None and epoch.ns == 1_795_561_000_000_001_000


def test_the_user_sees_what_was_skipped_and_lost(tmp_path: Path) -> None:
    """The command line tells of it: in the output of the import, in the capture's notes, and as a loss."""
    wave = tmp_path / "wave.csv"
    rows_ = [f"{ms / 1000:.3f},3.3,{0.5 if 1000 <= ms < 2000 else 0.1}" for ms in range(3000)]
    wave.write_text("time_s,voltage_v,current_a\n" + "\n".join(rows_) + "\n")
    lines = trace()
    (tmp_path / "trace.txt").write_text("\n".join([*lines[:4], " => nvme_queue_rq", "CPU:1 [LOST 44 EVENTS]", *lines[4:]]) + "\n")
    done = CliRunner().invoke(
        app, ["import", str(wave), "--trace", str(tmp_path / "trace.txt"), "--offset", "1.0,0.01", "--out", str(tmp_path / "c")]
    )
    assert done.exit_code == 0, done.output
    skipped = "trace.txt: 1 lines are no event of a command's start or end and were skipped: 1 lines of stacks."
    assert skipped in " ".join(done.output.split()) and "Some data is missing" in done.output
    capture = open_capture(tmp_path / "c")
    assert skipped in capture.meta["conditions"]["notes"] and not capture.meta["loss"]["lossless"]


def test_the_text_says_of_every_command_what_the_kernels_own_bytes_say(tmp_path: Path) -> None:
    """The pages of a buffer and the kernel's text of the same buffer, of Linux 6.12. The text rounds instants; all else is equal."""
    reader, pairing = page_reader(), Pairing(WantedCommands())
    binary = pairing.add(together([reader.read(cpu, recorded(f"whole-cpu{cpu}"))[0] for cpu in (0, 1)]))
    said = read_log(unpacked(tmp_path, "whole.txt"))
    columns = ["qid", "cid", "opcode", "status", "nsid", "slba", "blocks", "flags"]
    one, other = (pl.from_arrow(found.table) for found in (binary, said))
    assert isinstance(one, pl.DataFrame) and isinstance(other, pl.DataFrame)
    order = ["qid", "cid", "cqe_tick"]
    assert one.sort(order).select(columns).equals(other.sort(order).select(columns)) and len(one) == 645


@pytest.mark.parametrize(
    ("name", "fields", "lba"),
    [
        ("nvme_admin_identify", "cns=1, ctrlid=7", 0x0007_0001),
        ("nvme_admin_create_sq", "sqid=2, qsize=1023, sq_flags=0x1, cqid=2", 0x0002_0001_03FF_0002),
        ("nvme_admin_create_cq", "cqid=2, qsize=1023, cq_flags=0x3, irq_vector=5", 0x0005_0003_03FF_0002),
        ("nvme_admin_delete_sq", "sqid=3", 3),
        ("nvme_admin_set_features", "fid=0x2, sv=0x1, cdw11=0x4", 0x0000_0004_8000_0002),
        ("nvme_admin_format_nvm", "lbaf=1, mset=0, pi=0, pil=0, ses=1", 0x201),
        ("nvme_admin_get_log_page", "cdw10=02 00 7f 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00", 0x007F_0002),
        ("nvme_admin_something", "odd=5", 0),
    ],
)
def test_the_dwords_of_an_admin_command(name: str, fields: str, lba: int) -> None:
    said = said_of("nvme_setup_cmd", f"nvme0: qid=0, cmdid=8, nsid=0, flags=0x0, meta=0x0, cmd=({name} {fields})")
    assert said is not None and (said.lba, bool(said.unknown_name)) == (lba, name.endswith("something"))


PERF = " fio   789 [{cpu:03}]  {s}: {event}: {text}"


def test_times_that_are_differences_are_refused(tmp_path: Path) -> None:
    """perf script --deltatime: each time counts from the event before. A latency would be the difference of two differences."""
    differences = ("0.000000", "0.000100", "0.000900", "0.000200", "0.000800", "0.000300")
    lines = trace(PERF, system="nvme:")
    stamps = [re.sub(r"9904\.\d{6}", since, line) for line, since in zip(lines, differences, strict=True)]
    with pytest.raises(CaptureError, match=r"2 of 6 events of commands are earlier than the one before: .*--deltatime.*perf script --ns"):
        read(tmp_path, *stamps)
    assert len(read(tmp_path, *lines)) == 3


def test_the_time_since_the_event_before_is_passed_over(tmp_path: Path) -> None:
    """trace-cmd report --ts-diff prints both times."""
    frame = "             fio-789     [{cpu:03}]  {s}: (+100)     {event}:         {text}"
    found = pl.DataFrame(pl.from_arrow(read(tmp_path, "cpus=2", *trace(frame)).table))
    assert ((found["cqe_tick"] - found["doorbell_tick"]) // 1000).to_list() == [100, 200, 300]


def test_a_log_of_another_program_is_refused_with_a_way_to_record_one(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"begins with: TIME\(s\) +COMM.*trace-cmd record -e nvme:nvme_setup_cmd"):
        read(tmp_path, "TIME(s)     COMM    PID    DISK    T SECTOR     BYTES  LAT(ms)", "0.000000  fio   123  nvme0n1 R 8   4096   0.10")
