"""One capture with everything in it: its figures computed by hand, and its terminal page as proofread by a person."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest
from wattbell.analysis import figures_of
from wattbell.analysis.result import Analysis
from wattbell.capture.meta import save
from wattbell.cli.output import PlainConsole
from wattbell.measure.encode import tree_json
from wattbell.measure.figure import Figure
from wattbell.present.capture.charts import energy_bars
from wattbell.present.capture.terminal import render
from wattbell.text import clip, concise, count, decimals, digits, duration, places_for, si, signed, size_bytes
from wattbell.wire.decode import Gap
from wattbell_spec.wire import BlockContent, CommandFlag, EventType, LinkState

from tests.host.conftest import Builder

US, MS, S = 1_000, 1_000_000, 1_000_000_000
WATT = 165_000 * 20e-6 * 500e-9


def drawn(watts: float) -> float:
    """Power of a level of the builder; its current is a whole number of units."""
    return round(watts / 3.3 / 500e-9) * WATT


def everything(builder: Any) -> Any:
    """A capture of 4 s: reads at QD 1; bursts of writes; a mixed load with errors; sleep, and two waking reads."""
    builder.levels += [(0, 0.5), (100 * MS, 2.0), (200 * MS, 0.5)]
    builder.phase(1, 90 * MS, 210 * MS, "reads", fio_group=0, jobs="reads")
    for k in range(1000):
        builder.command(
            100 * MS + k * 100 * US,
            80 * US,
            first_data_tick=100 * MS + k * 100 * US + 60 * US,
            last_data_tick=100 * MS + k * 100 * US + 70 * US,
            msix_tick=100 * MS + k * 100 * US + 81 * US,
            cq_head_tick=100 * MS + k * 100 * US + 84 * US,
            slba=8 * k,
        )
    builder.phase(2, 300 * MS, 700 * MS, "bursts")
    for k in range(4):
        start = (310 + 90 * k) * MS
        builder.levels += [(start, 3.0), (start + 10 * MS, 0.5)]
        for i in range(10 * (k + 1)):
            took = 10 * MS // (10 * (k + 1))
            builder.command(start + i * took, took, opcode=1, blocks=256)
    builder.phase(3, 800 * MS, 1000 * MS, "mixed")
    builder.levels += [(810 * MS, 1.5), (950 * MS, 0.5)]
    for k in range(70):
        builder.command(810 * MS + k * 2 * MS, MS, opcode=2 if k % 3 else 1, blocks=8, status=0x281 if k == 5 else 0)
        builder.command(811 * MS + k * 2 * MS, 500 * US, opcode=0, blocks=0)
    builder.gaps.append(Gap(BlockContent.COMMANDS, 900 * MS, 901 * MS, 2, "test"))
    builder.phase(4, 1100 * MS, 4000 * MS, "sleep", kind="wake")
    builder.events += [(10, EventType.LINK, int(LinkState.L0), 0), (10, EventType.CLKREQ, 0, 0)]
    for k in range(2):
        begin = (1100 + 1300 * k) * MS
        wake = begin + 1200 * MS
        builder.levels += [(begin + 200 * MS, 0.03), (wake - 100 * US, 0.8), (wake + 6 * MS, 0.5)]
        builder.events += [
            (begin + 200 * MS, EventType.LINK, int(LinkState.L1_2), 0),
            (begin + 200 * MS, EventType.CLKREQ, 1, 0),
            (wake - 100 * US, EventType.CLKREQ, 0, 0),
            (wake - 20 * US, EventType.LINK, int(LinkState.L0), 0),
        ]
        builder.command(wake, (5 + k) * MS)
    builder.command(4 * S + 10 * MS, 50 * US, qid=0, opcode=6, blocks=0)
    builder.command(4 * S + 11 * MS, 50 * US, flags=int(CommandFlag.ABORTED))
    builder.levels.sort()
    capture = builder.write(end=4100 * MS)
    capture.meta["drive"] |= {"model": "TESTDRIVE 1TB", "serial": "S1", "firmware": "F1"}
    capture.meta["conditions"] |= {"profile": "test-profile"}
    save(capture.path, capture.meta)
    work = capture.workload_dir
    work.mkdir()
    io_of = {"total_ios": 1000, "io_bytes": 4096000, "lat_ns": {"min": 80000, "mean": 81000.5, "max": 90000}}
    other = {"total_ios": 100, "io_bytes": 13107199, "lat_ns": {"min": 1, "mean": 2, "max": 3}}
    jobs = [{"jobname": "reads", "groupid": 0, "job options": {}, "read": io_of}, {"jobname": "bursts", "groupid": 1, "write": other}]
    (work / "fio.json").write_text(json.dumps({"jobs": jobs}))
    truth = [
        {
            "phase": 1,
            "start_tick": 90 * MS,
            "end_tick": 210 * MS,
            "energy_j": 0.1 * drawn(2.0) + 0.02 * drawn(0.5),
            "mean_w": (0.1 * drawn(2.0) + 0.02 * drawn(0.5)) / 0.12,
        },
        {"phase": 2, "start_tick": 300 * MS, "end_tick": 700 * MS, "energy_j": 0.31, "mean_w": 0.775},
    ]
    (work / "truth.json").write_text(json.dumps({"definition": "d", "phases": truth}))
    return capture


def page(result: Analysis, width: int = 220) -> str:
    out = io.StringIO()
    render(result, PlainConsole(file=out, width=width, color_system=None))
    return out.getvalue()


PAGE = """\
 TESTDRIVE 1TB  MODEL: computed on the virtual rig, not measured  firmware F1
 4.100 s recorded · rail every 10.00 µs · virtual rig · profile test-profile · timing: model
 LOST: 2 commands
 ! command records missing (counts and bytes are lower bounds): 2
 ! commands that never completed (queue deleted or controller reset): 1
 mean 0.37(51) W · energy 1.5037(15) J · max 3.000 W over 100 µs · max 2.000 W over 100 ms · 1 242 I/O commands, 1 admin

 Workloads  over the active span
 phase    load                         QD     MB/s     IOPS       mean        p50        p99   p99.9        max
 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────
 reads    read 4 KiB                 1.00    40.97   10 002   80.00 µs   80.00 µs   80.00 µs       –   80.00 µs
 bursts   write 128 KiB              1.00    327.7    2 500   400.0 µs   333.3 µs          –       –   1.000 ms
 mixed    flush + read/write 4 KiB   1.00   2.026!   996.4!   750.0 µs   500.0 µs          –       –   1.000 ms

 Power and efficiency  efficiency over the active span; (14) is k = 2 in the last digits
 phase         mean W      active W   100 µs max   100 ms max      energy J     MB/J   IOPS/W     J/GB       µJ/cmd
 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 reads       1.75(25)    2.0000(20)        2.000        2.000   0.21000(21)    20.48    5 001    48.82   149.99(22)
 bursts   0.75000(75)    2.9988(32)        3.000        1.000   0.30000(30)    109.3    833.7    9.151    999.5(25)
 mixed       1.20(70)   1.5000(15)!        1.500        1.500   0.24000(24)   1.351!   664.3!   740.4!            –
 sleep       0.18(11)             –       0.8000       0.5183   0.51375(52)        –        –        –            –

 Bursts  two readings of the rate of a duty-cycled load
 phase    bursts   duty   mean of bursts   bytes / active time   idle included
 ─────────────────────────────────────────────────────────────────────────────
 bursts        4    14%    328(169) MB/s            327.7 MB/s      46.81 MB/s

 Latency, whole capture  doorbell to CQE
 command     count       data   errors       mean        p50        p90        p99        max
 ────────────────────────────────────────────────────────────────────────────────────────────
 flush          70        0 B        0   500.0 µs   500.0 µs   500.0 µs          –   500.0 µs
 write         124   13.21 MB        0   516.1 µs   333.3 µs   1.000 ms          –   1.000 ms
   4 KiB        24   98.30 kB        0   1.000 ms   1.000 ms          –          –   1.000 ms
   128 KiB     100   13.11 MB        0   400.0 µs   333.3 µs   500.0 µs          –   1.000 ms
 read        1 048   4.293 MB        1   130.7 µs   80.00 µs   80.00 µs   1.000 ms   6.000 ms

 Idle power  steady levels in gaps of 20 ms and more
 state           power      for     after   link   state known by                                             phases
 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 PS0     0.50002(50) W   1.66 s   at once   L0     nothing requested; far above every non-operational state   bursts, mixed, sleep
 PS3     30.000(34) mW   2.00 s    200 ms   L1.2   inferred (87%): level, link                                sleep

 Power states  from change points of the rail, the link and the wire
 state       for    share   probability     level   times   known by
 ────────────────────────────────────────────────────────────────────────────────────────
 PS3      2.00 s   48.8 %           87%   30.0 mW       2   level, link
 PS0      1.67 s   40.7 %         > 99%    500 mW      12   level, link
 active   342 ms    8.3 %           96%         –      12   commands in flight and 1 more

 Power states, declared and measured  only what the specification's own windows allow
 state   quantity        declared        measured   verdict            why
 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 PS0     maximum power        4 W    2.9988(32) W   pass               by the loads of this capture; another may draw more
 PS3     maximum power      30 mW   30.000(34) mW   conditional fail   closer to the limit than the uncertainty
 PS4     maximum power       4 mW               –   not measured       PS4 was not seen (with a probability of 80%)

 Wake-up  first command after idle; extra: less the median of its class in a stream
 from   command         n   doorbell → CQE        max      extra   to fetch   to data       link   CLKREQ# → CQE
 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────
 PS0    write 128 KiB   3         333.3 µs   500.0 µs          –   500.0 ns         –          –               –
 PS3    read 4 KiB      2         5.000 ms   6.000 ms   5.420 ms   500.0 ns         –   80.00 µs        5.600 ms

 Energy per command in mixed loads  above idle; joined by +: not told apart
 phase   command                                   energy   depth
 ────────────────────────────────────────────────────────────────────
 mixed   flush + read 4 KiB + write 4 KiB   999.9(18)! µJ   1 + 1 + 1

 Where the energy went  of each phase
 phase          all, J         unexplained             idle             reads           writes           mixed   after   put off
 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 reads     0.21000(21)                   –   60.0 mJ (29 %)     150 mJ (71 %)                –               –       –         –
 bursts    0.30000(30)     49.8 µJ (0.0 %)    200 mJ (67 %)                 –   99.9 mJ (33 %)               –       –         –
 mixed    0.24000(24)!                   –    100 mJ (42 %)                 –                –   140 mJ (58 %)       –         –
 sleep     0.51375(51)   −2.18 mJ (−0.4 %)   512 mJ (100 %)   3.60 mJ (0.7 %)                –               –       –         –

 Energy owed after writes  drawn after the writes, until the drive is back at its baseline
 phase              owed    of all   back after          MB/J   MB/J with it          J/GB   J/GB with it   remark
 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 bursts     0.000(29) mJ       0 %          0 s    109.27(12)     109.27(14)    9.1515(97)      9.151(12)
 mixed    0.4950(88)! mJ   0.236 %       495 µs   1.3507(14)!    1.3475(14)!   740.38(74)!    742.13(77)!

 Energy of commands that stood alone  above the baseline, until the rail is back there
 command      measured   mean   median   10 % to 90 %   of one   back after   not given
 ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 read 4 KiB     0 of 2      –        –              –        –            –   0 commands that stood alone could be measured; 5 are needed

 Into sleep and out of it  energies above the state's level, and above idle
 state   woken by     n          entry      its energy           exit      its energy     break-even   remark
 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 PS3     read 4 KiB   2   0.005(64) ms   0.0000(38) mJ   6.120(20) ms   1.8323(33) mJ   3.899(11) ms   the command's own energy is in it

 Against the model's truth  limits 0.2 %, 0.1 % + 5 µA, 1 tick
 phase    energy, truth       error   mean power, error     limit
 ───────────────────────────────────────────────────────────────────────
 reads        210.00 mJ    0.0000 %           +0.579 nW   1.77 mW   pass
 bursts       310.00 mJ   −3.2259 %            −25.0 mW    791 µW   FAIL

 Against fio
 phase    opcode    wire     fio   wire bytes    fio bytes   equal     latency
 ─────────────────────────────────────────────────────────────────────────────
 reads    read     1 000   1 000    4 096 000    4 096 000   equal     ≤ fio
 bursts   write      100     100   13 107 200   13 107 199   DIFFERS   > fio
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The figures of the capture."""
    return figures_of(everything(Builder(tmp_path_factory.mktemp("page") / "capture")))


@pytest.fixture(scope="module")
def result(found: Analysis) -> dict[str, Any]:
    """Output of ``analyze`` for it."""
    return tree_json(found)


def test_the_page(found: Analysis) -> None:
    printed = "\n".join(line.rstrip() for line in page(found).strip("\n").splitlines()).rstrip() + "\n"
    assert printed == PAGE.rstrip() + "\n"


def close(figure: dict[str, Any], value: float, u: float | None = None, lost: int = 0, rel: float = 1e-6) -> bool:
    """Whether a figure has this value, uncertainty and loss."""
    return (figure["value"], figure["lost"]) == (pytest.approx(value, rel=rel), lost) and (
        u is None or figure["u"] == pytest.approx(u, rel=1e-3)
    )


def test_power_of_each_window(result: dict[str, Any]) -> None:
    two, half, three, some, asleep, waking = map(drawn, (2.0, 0.5, 3.0, 1.5, 0.03, 0.8))
    # sleep: 200 ms, asleep until 100 us before the doorbell, 6.1 ms awake, 294 ms, asleep again, 6.1 ms, 394 ms
    slept = (0.2 + 0.294 + 0.394) * half + 2 * 0.9999 * asleep + 2 * 6.1e-3 * waking
    joules = (0.1 * two + 0.02 * half, 0.04 * three + 0.36 * half, 0.14 * some + 0.06 * half, slept)
    seconds = (0.12, 0.4, 0.2, 2.9)
    # Quarters of the first: 10 ms at half and 20 ms at two, then 30 ms at two; of the second: one burst each; of the third: 40 of 50 ms at
    # one and a half, and 50 ms at half at the end; of the last, its last 725 ms: 325 ms asleep, 6 ms at 0.8 W, 394 ms awake, 0.292 W.
    apart = (0.25, 0.0, 1.2 - 0.5, 0.292 - slept / 2.9)
    for phase, energy, length, off in zip(result["phases"], joules, seconds, apart, strict=True):
        power, mean = phase["power"], energy / length
        u = math.hypot(1e-3 * mean, 5e-6 * 3.3)
        assert phase["duration_s"] == pytest.approx(length)
        # the samples of 10 us lie around the edges: half a sample of 0.5 W
        assert close(power["mean_w"], mean, None, rel=2e-5), phase["name"]
        assert power["mean_w"]["u"] == pytest.approx(math.hypot(u, off), rel=2e-2)
        assert ("unsteady" in power["mean_w"]["conditions"]) is (off > 0.05 * mean)
        assert close(power["energy_j"], energy, None, rel=2e-5) and power["energy_j"]["u"] == pytest.approx(u * length, rel=5e-3)
        current = power["mean_current_a"]
        assert current["value"] == pytest.approx(mean / 3.3, rel=1e-4)
        assert current["u"] == pytest.approx(math.hypot(1e-3 * mean / 3.3, 5e-6, off / 3.3), rel=2e-2)
        assert close(power["mean_voltage_v"], 3.3, 3.3e-3)
        assert power["mean_w"]["conditions"]["samples"] == round(length / 10e-6)
    peaks = [phase["power"]["max_sample_w"]["value"] for phase in result["phases"]]
    assert peaks == pytest.approx([two, three, some, waking], rel=1e-6)
    assert [phase["power"]["min_sample_w"]["value"] for phase in result["phases"]] == pytest.approx([half, half, half, asleep], rel=1e-6)
    moving = [phase["power"]["max_moving_w"] for phase in result["phases"]]
    assert [m["100us"]["value"] for m in moving] == pytest.approx([two, three, some, waking], rel=1e-6)
    assert [m["100us"]["conditions"]["at_tick"] for m in moving] == [100 * MS, 310 * MS, 810 * MS, 2300 * MS - 100 * US]
    # bursts are 90 ms apart: two of them lie in 100 ms
    hundred = [two, (20 * three + 80 * half) / 100, some, (6.1 * waking + 93.9 * half) / 100]
    assert [m["100ms"]["value"] for m in moving] == pytest.approx(hundred, rel=1e-4)


def test_rates_and_latencies_of_each_phase(result: dict[str, Any]) -> None:
    reads, bursts, mixed, sleep = result["phases"]
    assert close(reads["rates"]["iops"], 1000 / 99.98e-3) and close(reads["rates"]["mb_per_s"], 4.096 / 99.98e-3)
    assert reads["rates"]["span_s"] == reads["rates"]["active_s"] == pytest.approx(99.98e-3) and reads["rates"]["bursts"] is None
    assert reads["queue_depth"] == {
        "mean": pytest.approx(0.08 / 0.09998),
        "mean_busy": 1.0,
        "max": 1,
        "busy_fraction": pytest.approx(0.08 / 0.09998),
        "histogram": {"0": pytest.approx(1 - 0.08 / 0.09998), "1": pytest.approx(0.08 / 0.09998)},
    }
    latency = reads["commands"]["by_opcode"]["read"]["latency_s"]
    assert (latency["n"], latency["from"]) == (1000, "doorbell") and latency["interval"]["p99"] == pytest.approx([80e-6, 80e-6])
    splits = {name: split["mean"] for name, split in reads["commands"]["by_opcode"]["read"]["splits_s"].items()}
    assert splits == {
        "doorbell_to_fetch": pytest.approx(0.5e-6),
        "fetch_to_first_data": pytest.approx(59.5e-6),
        "data": pytest.approx(10e-6),
        "last_data_to_cqe": pytest.approx(10e-6),
        "fetch_to_cqe": pytest.approx(79.5e-6),
        "cqe_to_msix": pytest.approx(1e-6),
        "cqe_to_cq_head": pytest.approx(4e-6),
    }
    found = bursts["rates"]["bursts"]
    each = [10, 20, 30, 40]
    rates = [n * 0.131072 / 10e-3 for n in each]
    assert (found["count"], found["gap_s"], found["bytes_each"]) == (4, 0.010, 25 * 131072)
    assert found["duty"] == pytest.approx(40e-3 / 280e-3, rel=1e-5)
    spread = math.sqrt(sum((r - sum(rates) / 4) ** 2 for r in rates) / 3)
    assert close(found["mb_per_s_mean_of_bursts"], sum(rates) / 4, spread, rel=1e-5)  # 2 s / sqrt(4)
    assert close(found["iops_mean_of_bursts"], 2500, spread / 0.131072, rel=1e-5)
    assert (found["mb_per_s_min"], found["mb_per_s_max"]) == (pytest.approx(rates[0]), pytest.approx(rates[-1]))
    assert close(bursts["rates"]["iops_whole"], 100 / 280e-3) and close(bursts["rates"]["mb_per_s"], 100 * 0.131072 / 40e-3, rel=1e-5)
    assert (mixed["rates"]["count"], mixed["rates"]["bytes"]) == (139, 69 * 4096)  # one read of 70 I/Os with data failed
    assert close(mixed["rates"]["iops"], 139 / 139.5e-3, None, 2)
    commands = mixed["commands"]
    assert {name: (e["count"], e["bytes"], e["errors"]) for name, e in commands["by_opcode"].items()} == {
        "flush": (70, 0, 0),
        "write": (24, 24 * 4096, 0),
        "read": (46, 46 * 4096, 1),
    }
    assert commands["by_opcode"]["read"]["error_bytes"] == 4096 and commands["lost"] == 2
    assert {size: e["count"] for size, e in commands["by_size"].items()} == {"4096": 70}
    assert mixed["loss_here"]["commands"] == 2 and sleep["loss_here"]["commands"] == 0
    assert result["commands"]["all"]["aborted"] == 1 and result["commands"]["admin"]["by_opcode"]["identify"]["count"] == 1


def test_efficiency_and_energy_of_commands(result: dict[str, Any]) -> None:
    reads, bursts, mixed, sleep = result["phases"]
    idle_w = result["idle"]["levels"][0]["mean_w"]["value"]
    assert close(reads["efficiency"]["iops_per_w"], 1000 / 99.98e-3 / drawn(2.0), rel=1e-5)
    assert close(reads["efficiency"]["mb_per_j"], 4.096 / 99.98e-3 / drawn(2.0), rel=1e-5)
    assert close(reads["efficiency"]["j_per_gb"], drawn(2.0) * 99.98e-3 / 4.096e-3, rel=1e-5)
    assert close(reads["efficiency"]["j_per_gb_whole"], (0.1 * drawn(2.0) + 0.02 * drawn(0.5)) / 4.096e-3, rel=1e-5)
    one = reads["energy_per_command"]["classes"]["read 4 KiB"]
    # 2 W are drawn for 20 us behind the last of them
    assert close(one, (drawn(2.0) - idle_w) * 100e-3 / 1000, rel=1e-4) and one["conditions"]["commands"] == 1000
    burst = bursts["energy_per_command"]["classes"]["write 128 KiB"]
    assert close(burst, (drawn(3.0) - idle_w) * 40e-3 / 100, rel=2e-3)
    assert mixed["efficiency"]["iops_per_w"]["lost"] == 4  # of the rate and of the power, as each knows of them
    (together,) = mixed["energy_per_command"]["classes"]  # three phases tell nothing apart
    assert set(together.split(" + ")) == {"flush", "write 4 KiB", "read 4 KiB"}
    assert close(sleep["power"]["active"]["energy_j"], 11e-3 * drawn(0.8), rel=1e-3)


def test_idle_levels_by_hand(result: dict[str, Any]) -> None:
    idle = result["idle"]
    awake, asleep = idle["levels"]
    assert (idle["threshold_s"], idle["gaps"], idle["bin_s"]) == (0.02, 12, pytest.approx(1e-3))
    assert close(awake["mean_w"], drawn(0.5), None, rel=1e-4) and close(asleep["mean_w"], drawn(0.03), None, rel=1e-4)
    assert (awake["state"], awake["declared_max_w"], awake["segments"]) == (0, 4.0, 12)
    assert (asleep["state"], asleep["declared_max_w"], asleep["segments"], asleep["phases"]) == (3, 0.03, 2, ["sleep"])
    assert asleep["duration_s"] == pytest.approx(2 * 0.999) and asleep["first_reached_s"] == pytest.approx(0.2, abs=1e-4)
    assert asleep["link"] == {"L1_2": 1.0} and asleep["clkreq"] == {"released": 1.0}
    assert awake["first_reached_s"] == 0.0 and awake["duration_s"] == pytest.approx(
        sum(s["last_tick"] - s["first_tick"] for s in idle["segments"] if s["level"] == 0) * 1e-9
    )
    gaps = [89.995, 80.0, 80.0, 80.00001, 110.0, 99.995, 50.5, 99.995, 1199.995, 1295.0, 394.0, 89.99000]
    assert idle["idle_s"] == pytest.approx(sum(gaps) * 1e-3, abs=2e-2)
    assert idle["unsettled_s"] == pytest.approx(idle["idle_s"] - awake["duration_s"] - asleep["duration_s"])


def test_wake_ups_by_hand(result: dict[str, Any]) -> None:
    wakes = [event for event in result["wakeup"]["events"] if event["class"] == "read 4 KiB"]
    assert [wake["latency_s"] for wake in wakes] == pytest.approx([5e-3, 6e-3])
    assert [wake["extra_s"] for wake in wakes] == pytest.approx([5e-3 - 80e-6, 6e-3 - 80e-6])
    assert [wake["link_exit_s"] for wake in wakes] == pytest.approx([80e-6, 80e-6])
    assert [wake["from_clkreq_s"] for wake in wakes] == pytest.approx([5.1e-3, 6.1e-3])
    assert [wake["idle_s"] for wake in wakes] == pytest.approx([1.199995, 1.295])
    assert [wake["start_tick"] for wake in wakes] == [2300 * MS, 3600 * MS]
    assert {(wake["state"], wake["from"]) for wake in wakes} == {("PS3", "doorbell")}
    groups = {(group["state"], group["class"]): group for group in result["wakeup"]["by_state"]}
    read = groups["PS3", "read 4 KiB"]
    assert (read["count"], read["lost"]) == (2, 0) and "inferred" in read["how"]
    assert read["extra_s"] == {"median": pytest.approx(5.5e-3 - 80e-6), "max": pytest.approx(6e-3 - 80e-6), "n": 2}
    assert (read["idle_s_min"], read["idle_s_max"]) == (pytest.approx(1.199995), pytest.approx(1.295)) and read["to_first_data_s"] is None
    write = groups["PS0", "write 128 KiB"]
    assert write["to_fetch_s"] == {"median": pytest.approx(5e-7), "max": pytest.approx(5e-7), "n": 3} and write["link_exit_s"] is None


def test_comparisons_by_hand(result: dict[str, Any]) -> None:
    truth, fio = result["truth"], result["fio"]
    first, second = truth["phases"]
    assert abs(first["energy_error"]) < 1e-6 and first["pass"] and not second["pass"] and not truth["pass"]
    assert second["mean_error_w"] == pytest.approx((0.04 * drawn(3.0) + 0.36 * drawn(0.5)) / 0.4 - 0.775, rel=1e-3)
    assert second["mean_limit_w"] == pytest.approx(1e-3 * 0.775 + 5e-6 * 3.3) and second["energy_limit"] == 2e-3
    assert (first["start_ticks_off"], first["end_ticks_off"], truth["commands"], truth["missing_phases"]) == (0, 0, None, [])
    one, other = (section["rows"][0] for section in fio["sections"])
    assert one["fio_latency_s"] == {"min": pytest.approx(80e-6), "mean": pytest.approx(81.0005e-6), "max": pytest.approx(90e-6)}
    assert (one["equal"], one["latency_ok"], other["equal"], other["bytes_equal"], other["latency_ok"]) == (True, True, False, False, False)
    assert (fio["equal"], fio["latency_ok"], fio["commands_lost"]) == (False, False, 2)


def test_the_frame_of_the_result(result: dict[str, Any]) -> None:
    about = result["capture"]
    assert (about["first_tick"], about["last_tick"], about["duration_s"]) == (0, 4100 * MS - 9999, pytest.approx(4.099990001))
    assert about["rail"] == {
        "first_tick": 0,
        "interval_s": pytest.approx(10e-6),
        "samples": 410_000,
        "decimation": 1,
        "accumulator": True,
        "conversion_period_s": pytest.approx(10e-6),
        "flags": [],
    }
    assert result["schema"] == {"name": "wattbell-analysis", "version": 4, "k": 2} and result["link"] == []
    assert result["uncertainty"]["gain"] == 1e-3 and result["uncertainty"]["timebase"] == 0.0 and result["uncertainty"]["k"] == 2
    assert result["phases"][0]["described"] == {"fio_group": 0, "jobs": "reads"} and result["phases"][0]["phase"] == 1


# -- figures as text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "text"), [
    (0, "0 W"), (None, "–"), (999.4e9, "999.4 GW"), (1e9, "1.000 GW"), (0.99996e9, "1.000 GW"), (0.99994e9, "999.9 MW"),
    (1e6, "1.000 MW"), (999.96e3, "1.000 MW"), (999.6e3, "999.6 kW"), (1e3, "1.000 kW"), (999.96, "1.000 kW"), (999.6, "999.6 W"),
    (1, "1.000 W"), (0.99996, "1.000 W"), (0.9996, "999.6 mW"), (1e-3, "1.000 mW"), (999.4e-6, "999.4 µW"), (1e-6, "1.000 µW"),
    (999.4e-9, "999.4 nW"), (1e-9, "1.000 nW"), (0.5e-9, "0.5000 nW"), (-2.5, "−2.500 W"),
])  # fmt: skip
def test_si_prefixes(value: float | None, text: str) -> None:
    assert si(value, "W") == text


def test_numbers_as_text() -> None:
    assert (si(999.6, "B", 3), si(999.4, "B", 3), si(1e-12, "s", 2)) == ("1.00 kB", "999 B", "0.0010 ns")
    assert [digits(v, 3) for v in (0.9996, 9.996, 99.96, 999.6, -0.09999)] == ["1.00", "10.0", "100", "1\u202f000", "−0.100"]
    assert [digits(v, 4) for v in (0, math.inf, math.nan, 12345.6, 1.23456, 0.00123456, -7, 99999)] == [
        "0",
        "–",
        "–",
        "12\u202f346",
        "1.235",
        "0.001235",
        "−7.000",
        "99\u202f999",
    ]
    assert [count(v) for v in (None, 0, 999, 1000, 1234567)] == ["–", "0", "999", "1\u202f000", "1\u202f234\u202f567"]
    assert (decimals(-1234.5, 1), decimals(0.25, 0)) == ("−1\u202f234.5", "0")
    assert [signed(v, "s") for v in (0, 1.5e-3, -1.5e-3)] == ["0 s", "+1.50 ms", "−1.50 ms"]
    assert [size_bytes(v) for v in (None, 0, 512, 10**12)] == ["–", "0 B", "512.0 B", "1\u202f000 GB"]
    assert (duration(None), duration(2.5e-6), duration(2.5e-6, 2)) == ("–", "2.500 µs", "2.5 µs")
    assert [clip("abcdef", n) for n in (7, 6, 5, 1)] == ["abcdef", "abcdef", "abcd…", "…"]
    assert [places_for(u) for u in (0, -1, math.inf, 100, 10, 9.9, 1, 0.5, 0.01, 1e-12)] == [0, 0, 0, 0, 0, 1, 1, 2, 3, 9]


def test_values_with_their_uncertainties() -> None:
    assert concise(None) == concise(Figure(None, 1.0)) == "–"
    assert concise(Figure(1.44961, 0.0014)) == "1.4496(14)" and concise(Figure(1.44961, 0.0014), 1e3) == "1\u202f449.6(14)"
    assert concise(Figure(1234.2, 25.0)) == "1\u202f234(25)"
    assert concise(Figure(2.0, None)) == concise(Figure(2.0, 0.0)) == "2.0000" and concise(Figure(2.0, 1.9e-7)) == "2.0000"
    assert concise(Figure(2.0, 2.1e-7)) == "2.00000000(21)" and concise(Figure(0.0, 0.5)) == "0.00(50)"


def test_the_stack_of_a_phase_is_its_energy(found: Analysis) -> None:
    """The uses of the energy add up to it, the unexplained part with its sign. No small use is left out."""
    bars = energy_bars(found)["stack"].bars
    assert len(bars) == 4
    for bar, phase in zip(bars, found["phases"], strict=False):
        unexplained = phase["energy_per_command"]["shares"]["unexplained_j"].known
        share = f"{100 * unexplained / bar.value.value:+.1f} %".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")
        assert f"unexplained {share}" == bar.remark
        drawn = {part.name: part.value for part in bar.parts}
        explained = sum(drawn.values()) - drawn.get("unexplained (either way)", 0.0)
        assert explained + unexplained == pytest.approx(bar.value.value, rel=1e-6)
