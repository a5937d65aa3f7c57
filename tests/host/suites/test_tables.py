"""The tables of a suite run, from results written by hand; the text was proofread line by line."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from wattbell.present.suite.terminal import quantity, show, summary


def q(value: float | None, u: float | None = None, lost: int = 0) -> dict[str, Any]:
    """A quantity of results.json."""
    return {"value": value, "u": u, "n_lost": lost}


RESULTS: dict[str, Any] = {
    "format": 1,
    "suite": "s",
    "suite_hash": "sha256:0",
    "scale": 0.5,
    "virtual": True,
    "lost": {"commands": 1234, "rig_slots": 2},
    "drive": {
        "model": "DISK 1",
        "profile": "p",
        "capacity_bytes": 10**12,
        "power_states": [
            {"state": 0, "max_power_w": 4.0, "entry_latency_s": 0.0, "exit_latency_s": 0.0},
            {"state": 3, "max_power_w": 0.03, "entry_latency_s": 5e-3, "exit_latency_s": 10e-3},
        ],
    },
    "tests": [
        {
            "test": "bursts",
            "name": "Bursts",
            "kind": "burst",
            "condition": "full",
            "lost": {},
            "notes": ["a note"],
            "points": [
                {
                    "x": {"qd": 1},
                    "mb_per_s": q(123.456, 0.5),
                    "iops": q(30140.6, 12.0),
                    "mean_w": q(2.5, 0.0025),
                    "mb_per_j": q(49.38, 0.2),
                    "mean_latency_s": q(33.2e-6, 0.1e-6),
                    "p99_latency_s": q(None),
                    "energy_j": q(0.125, 1e-4),
                }
            ],
            "scores": [
                {"name": "mean of the bursts", "unit": "MB/s", "value": q(123.456, 0.5), "reading": "mean of ratios"},
                {"name": "power while busy", "unit": "W", "value": q(0.0123, 1e-5), "reading": None},
                {"name": "efficiency", "unit": "MB/s/W", "value": q(49.38, 0.2, 3), "reading": "ratio of means"},
                {"name": "rounds run", "unit": "1", "value": q(7.0), "reading": None},
            ],
        },
        {
            "test": "states",
            "name": "States",
            "kind": "non-operational-states",
            "condition": "empty",
            "lost": {"commands": 1234},
            "notes": [],
            "points": [
                {
                    "x": {"ps": 3},
                    "settled_w": q(0.03, 1e-4),
                    "entry_s": q(5.1e-3),
                    "exit_s": q(12e-3, 1e-3),
                    "longest_exit_s": q(12e-3, 1e-3),
                    "entry_j": q(0.5e-3),
                    "seq_read_mb_per_s": q(5.0),
                }
            ],
            "scores": [
                {"name": "PS3 exit, measured / declared", "unit": "1", "value": q(1.2), "reading": None},
                {"name": "idle in PS0", "unit": "W", "value": q(0.5, 0.0005), "reading": None},
            ],
        },
        {
            "test": "fill",
            "name": "Fill",
            "kind": "fill",
            "condition": "empty",
            "lost": {},
            "notes": [],
            "points": [{"x": {"gb": float(k)}, "mb_per_s": q(1000.0 - k), "mean_w": q(3.0)} for k in range(1, 35)],
            "scores": [
                {"name": "written before the rate falls (SLC cache)", "unit": "GB", "value": q(12.5, 0.25), "reading": None},
                {"name": "whole fill", "unit": "MB/s", "value": q(456.7), "reading": None},
                {"name": "energy of the fill", "unit": "J", "value": q(1234.5, 1.2), "reading": None},
            ],
        },
        {
            "test": "replay",
            "name": "Replay",
            "kind": "trace",
            "condition": "test-data",
            "lost": {},
            "notes": [],
            "points": [{"x": {"t_s": 0.0}, "mb_per_s": q(5.0, 0.1)}],
            "scores": [
                {"name": "data over busy time", "unit": "MB/s", "value": q(300.0, 1.0), "reading": None},
                {"name": "mean latency, all", "unit": "s", "value": q(1.5, 0.01), "reading": None},
                {"name": "99th percentile of latency, all", "unit": "s", "value": q(None), "reading": None},
                {"name": "energy", "unit": "J", "value": q(12.3, 0.1), "reading": None},
                {"name": "elapsed", "unit": "s", "value": q(100.0), "reading": None},
            ],
        },
        {
            "test": "rounds",
            "name": "Rounds",
            "kind": "rounds",
            "condition": "other",
            "lost": {},
            "notes": [],
            "points": [
                {"x": {"write_share": 0.35, "block_bytes": 4096, "qd": 32}, "iops": q(1e5, 100.0)},
                {"x": {"write_share": 1.0, "block_bytes": 131072, "qd": 4}, "iops": q(2e4, 0.01)},
            ],
            "scores": [
                {"name": "m", "unit": "IOPS", "value": q(1e5, 100.0), "reading": None},
                {"name": "n", "unit": "IOPS", "value": q(2e4), "reading": None},
                {"name": "rounds run", "unit": "1", "value": q(7.0), "reading": None},
            ],
        },
        {
            "test": "idle",
            "name": "Idle",
            "kind": "idle",
            "condition": "full",
            "lost": {},
            "notes": [],
            "points": [],
            "scores": [
                {"name": "settled", "unit": "W", "value": q(12.3e-6, 1e-7), "reading": None},
                {"name": "idle for", "unit": "s", "value": q(0.5, 0.0), "reading": None},
            ],
        },
    ],
}

SHOWN = """\
s  DISK 1  1 000 GB  MODEL: virtual drive and rig  SCALED x 0.5: not the published test

Bursts  full drive  scaled x 0.5
            MB/s         IOPS            W        MB/J   mean latency          energy
─────────────────────────────────────────────────────────────────────────────────────
QD1   123.46(50)   30 141(12)   2.5000(25)   49.38(20)   33.20(10) µs   125.00(10) mJ
score                                    reading
───────────────────────────────────────────────────────
mean of the bursts     123.46(50) MB/s   mean of ratios
power while busy         12.300(10) mW
efficiency           49.38(20)! MB/s/W   ratio of means
rounds run                      7.0000
  a note

States  empty drive  scaled x 0.5
        declared   declared   declared       measured    measured      measured    measured      measured
state        max      entry       exit          power       entry          exit   energy in      seq read
─────────────────────────────────────────────────────────────────────────────────────────────────────────
PS3      30.0 mW    5.00 ms    10.0 ms   30.00(10) mW   5.1000 ms   12.0(10) ms   500.00 µJ   5.0000 MB/s
score                                           reading
───────────────────────────────────────────────────────
PS3 exit, measured / declared          1.2000
idle in PS0                     500.00(50) mW
  lost under this test: commands 1 234; counts and rates are lower bounds

Fill  empty drive  scaled x 0.5
          MB/s        W
───────────────────────
1 GB    999.00   3.0000
4 GB    996.00   3.0000
7 GB    993.00   3.0000
10 GB   990.00   3.0000
13 GB   987.00   3.0000
16 GB   984.00   3.0000
19 GB   981.00   3.0000
22 GB   978.00   3.0000
25 GB   975.00   3.0000
28 GB   972.00   3.0000
31 GB   969.00   3.0000
34 GB   966.00   3.0000
score                                                       reading
───────────────────────────────────────────────────────────────────
written before the rate falls (SLC cache)    12.50(25) GB
whole fill                                    456.70 MB/s
energy of the fill                          1.2345(12) kJ

Replay  test's data only  scaled x 0.5
                 MB/s
─────────────────────
whole test   5.00(10)
score                                              reading
──────────────────────────────────────────────────────────
data over busy time               300.0(10) MB/s
mean latency, all                    1.500(10) s
99th percentile of latency, all                –
energy                               12.30(10) J
elapsed                                 100.00 s

Rounds  other  scaled x 0.5
                                     IOPS
─────────────────────────────────────────
35 % writes, 4 KiB, QD32     100 000(100)
100 % writes, 128 KiB, QD4         20 000
score                            reading
────────────────────────────────────────
m            100 000(100) IOPS
n                  20 000 IOPS
rounds run              7.0000

Idle  full drive  scaled x 0.5
score                     reading
─────────────────────────────────
settled    12.30(10) µW
idle for      500.00 ms
"""
NOTE = """\
(n): expanded uncertainty (k = 2) in the last digits. It is the instrument's, for this run. A rate's is that of a clock, and is
not printed below the fifth digit. How far off another run would be is not in it.
"""
SUMMARY = f"""\
s  DISK 1  1 000 GB  MODEL: virtual drive and rig  SCALED x 0.5: not the published test
test     drive                    rate           power     bytes per joule
──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
Bursts   full          123.46(50) MB/s   12.300(10) mW   49.38(20)! MB/s/W   rounds run 7.0000
States   empty                           500.00(50) mW                       PS3 exit, measured / declared 1.2000
Fill     empty             456.70 MB/s                                       written before the rate falls (SLC cache) 12.50(25)
                                                                             GB; energy of the fill 1.2345(12) kJ
Replay   test-data      300.0(10) MB/s                                       mean latency, all 1.500(10) s; 99th percentile of
                                                                             latency, all –; energy 12.30(10) J
Rounds   other       100 000(100) IOPS                                       n 20 000 IOPS; rounds run 7.0000
Idle     full                             12.30(10) µW

DISK 1 (model): power states, declared and measured
state           declared       measured   verdict
─────────────────────────────────────────────────────────────────────────────────────────────
PS 3    MP       30.0 mW   30.00(10) mW   conditional pass ×1.00
        ENLAT    5.00 ms      5.1000 ms   not measured ×1.02, measured without an uncertainty
        EXLAT    10.0 ms    12.0(10) ms   fail ×1.20
{NOTE}DATA LOST: commands 1 234, rig slots 2; figures marked ! are touched
"""


def text(print_it: Callable[[Console], None]) -> str:
    out = io.StringIO()
    print_it(Console(file=out, width=130, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").splitlines()) + "\n"


def test_every_table_of_a_run() -> None:
    assert text(lambda console: show(RESULTS, console)) == SHOWN


def test_the_last_table_of_a_run() -> None:
    assert text(lambda console: console.print(summary(RESULTS))) == SUMMARY


def test_a_real_unscaled_run_of_one_condition_says_neither() -> None:
    """And no column is empty."""
    drive = {"model": "", "profile": "p", "capacity_bytes": 512_110_190_592}
    test = {**RESULTS["tests"][5], "scores": [{"name": "settled", "unit": "W", "value": q(1.5), "reading": None}]}
    one = {**RESULTS, "scale": 1, "virtual": False, "lost": {}, "drive": drive, "tests": [test]}
    assert text(lambda console: console.print(summary(one))).splitlines() == [
        "s  p  512.1 GB",
        "test      power",
        "──────────────────",
        "Idle   1.5000 W",
        *NOTE.splitlines(),
    ]
    assert text(lambda console: show(one, console)).splitlines()[:3] == ["s  p  512.1 GB", "", "Idle  full drive"]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, "W", "–"),
        (q(None), "W", "–"),
        (q(0.0), "W", "0 W"),
        (q(1.5), "s", "1.5000 s"),
        (q(0.9), "s", "900.00 ms"),
        (q(2500.0, 1.0), "W", "2.5000(10) kW"),
        (q(-0.5), "W", "−500.00 mW"),
        (q(3e-9), "J", "3.0000 nJ"),
        (q(5.0, 0.0), "", "5.0000"),
        (q(1e5, 2.1), "IOPS", "100\u202f000.0(21) IOPS"),
        (q(1e5, 1.9), "IOPS", "100\u202f000 IOPS"),
        (q(7.0, 0.5, 1), "GB", "7.00(50)! GB"),
        (q(2e6), "J", "2.0000 MJ"),
    ],
)
def test_quantities(value: dict[str, Any] | None, unit: str, shown: str) -> None:
    assert quantity(value, unit).text == shown
