"""`wattbell run conformance` in a Linux guest, by a rig without a tap and the kernel's log; and the same run as a rig with a tap sees it.

One boot of the bench in a box. fio and nvme-cli do the work on the vfio-user drive. The connector's bus trace is then shown to a second
rig: another board, with another error of its front end and a tap. The same requirements judge both runs.

Where both can measure, the verdicts are the same. A clock that is known to 12 ms alone may leave a verdict of the first rig conditional;
then the figure is closer to the limit than its uncertainty. Where one rig cannot measure, it says why.

The run is shortened: two tests of the suite, and the shipped sets with shorter loads, on a drive of 128 MiB.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import pytest
from wattbell.campaign.ending import Ending
from wattbell.campaign.runner import SuiteOrder, run_suite
from wattbell.drive.restart import refuse_without_switch
from wattbell.errors import UsageError
from wattbell.requirements.files import load_all
from wattbell.requirements.work import RESTARTS, required_work

from tests.slow.again import Quiet, TappedAgain

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("box")]
SERIAL, RIG = "WATTBELL660P0001", "/dev/hvc0,/dev/hvc1"
INTERVAL_S, DECIMATION = 1e-5, 10
"""A rail sample each 100 us."""
SETS = ("declared", "nvme", "ocp")
SHORT_S = 6.0
"""Longest load: the sets ask for up to 15 minutes."""
TESTS = "depth-1,non-operational"
"""Two of the tests of ``conformance``: the others take minutes of rest or gigabytes of writes. WATTBELL_BOX_TESTS names others."""
PROFILE = {
    "lbas_512": 262144,
    "raw_gib": 4,
    "slc_cache_empty_gb": 0.3,
    "slc_cache_full_gb": 0.1,
}
STATES: dict[int, dict[str, float]] = {
    3: {"entry_us": 8000, "exit_us": 7000, "real_entry_us": 4000, "real_exit_us": 3000},
    4: {"entry_us": 10000, "exit_us": 80000, "real_entry_us": 60000, "real_exit_us": 20000},
}
"""Latencies clear of 12 ms, and a fault: PS4 is entered 50 ms late. It also draws more than it declares, as the real drive does."""
FAULTS = {("ENLAT", "PS4"): "fail", ("MP-idle", "PS4"): "conditional fail"}
"""The verdicts on the faults. The slot has no ASPM, so the power of the link's L0 is in each figure asleep."""
SAME = 6
"""Least number of rows with the same verdict."""
PROGRAM = """
import sys
from wattbell.cli import main
from wattbell.drive import bench, recording
bench._FOUND_S = 900.0
recording._STALLED_S = 300.0
main()
"""
"""`wattbell`, with time for a busy machine: the first marker may come minutes behind the boot, with which the recording begins, and the
rail of an idle drive is silent until its next command."""
SCRIPT = f"""
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
python run.py run conformance --drive /dev/nvme0n1 --serial {SERIAL} --yes --out seen --meter rig:{RIG} --commands trace \
    --interval {INTERVAL_S} --decimation {DECIMATION} --requirements {",".join(f"{name}.toml" for name in SETS)} \
    --tests {os.environ.get("WATTBELL_BOX_TESTS", TESTS)} --no-store --no-page --json > verdicts.json 2> run.txt
echo $? > code
"""


def profile(path: Path) -> Path:
    """Write the profile of a small drive with faults."""
    text = (ROOT / "sim/profiles/intel-660p-1tb.toml").read_text()

    def put(part: str, values: dict[str, float]) -> str:
        for key, value in values.items():
            part, n = re.subn(rf"^{key} = {{ value = [0-9.]+", f"{key} = {{ value = {value}", part, flags=re.MULTILINE)
            assert n == 1, key
        return part

    head, *tables = text.split("[[power_state]]")
    path.write_text("[[power_state]]".join([put(head, PROFILE), *(put(table, STATES.get(k, {})) for k, table in enumerate(tables))]))
    return path


def shortened(name: str) -> str:
    """Return a shipped set with loads of ``SHORT_S`` at most."""
    text = resources("wattbell.requirements").joinpath("data", f"{name}.toml").read_text("utf-8")
    head, *tables = text.split("[[requirement]]\n")
    out = []
    for table in tables:
        table = re.sub(r"^duration_s = .*\n", "", table, flags=re.MULTILINE)
        if re.search(r'^measurand = "(largest-mean-power|io-latency|admin-latency|slow-io-per-hour)"', table, flags=re.MULTILINE):
            table += f"duration_s = {SHORT_S}\n"
        out.append(table)
    return "[[requirement]]\n".join([head, *(table if table.endswith("\n") else table + "\n" for table in out)])


def rows(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    (drive,) = document["drives"]
    return {(row["id"], row["scope"]): row for row in drive["verdicts"]}


def wattbell(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wattbell", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """WATTBELL_BOX_CONFORMANCE: a folder to keep it in, or one that an earlier run left."""
    kept = os.environ.get("WATTBELL_BOX_CONFORMANCE")
    out = Path(kept) if kept else tmp_path_factory.mktemp("box")
    out.mkdir(parents=True, exist_ok=True)
    for name in SETS:
        (out / f"{name}.toml").write_text(shortened(name))
    (out / "run.py").write_text(PROGRAM)
    drive = profile(out / "small-660p.toml")
    (out / "common.toml").write_text((ROOT / "sim/profiles/common.toml").read_text())
    if not (out / "code").is_file():
        command = [sys.executable, str(ROOT / "sim/guest/box.py"), "--out", str(out), "--profile", str(drive), "--slot", "16x4"]
        command += ["--rail-only", "--virtio", "--rig-arg=--fidelity", "--rig-arg=fast", "--rig-arg=--seed", "--rig-arg=7"]
        done = subprocess.run([*command, "--script", SCRIPT], capture_output=True, text=True, check=False)
        assert (out / "code").is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    if not (out / "tapped/results.json").is_file():
        # the box asks a meter, which cannot switch the drive's supply
        with pytest.raises(UsageError) as refused:
            refuse_without_switch(None)
        suite = required_work(load_all(f"{out / name}.toml" for name in SETS), {RESTARTS: str(refused.value)}).suite
        tests = tuple(os.environ.get("WATTBELL_BOX_TESTS", TESTS).split(","))
        bench = TappedAgain(out / "seen", out / "trace.wbt", drive, INTERVAL_S, DECIMATION)
        order = SuiteOrder(suite, out / "tapped", tests=tests, force=True)
        run_suite(order, bench, Ending(None), Quiet())
    return out


Rows = dict[tuple[str, str], dict[str, Any]]
MEASURED = ("pass", "conditional pass", "conditional fail", "fail")
SLACK_S = 100e-6
"""Slack of the requirements on latencies of states."""
HOST_TIME = "the host's own time"


def judged(out: Path, run: str) -> Rows:
    done = wattbell(out, "judge", run, "--requirements", ",".join(f"{name}.toml" for name in SETS), "--json")
    assert done.returncode in (3, 4), done.stderr
    return rows(json.loads(done.stdout))


@pytest.fixture(scope="module")
def host(out: Path) -> Rows:
    """The rows that `wattbell run conformance` printed in the guest."""
    assert (out / "code").read_text().strip() == "3", (out / "run.txt").read_text()[-3000:]
    return rows(json.loads((out / "verdicts.json").read_text()))


@pytest.fixture(scope="module")
def tap(out: Path) -> Rows:
    return judged(out, "tapped")


def both_measured(host: Rows, tap: Rows) -> list[tuple[str, str]]:
    return [key for key in host.keys() & tap.keys() if host[key]["verdict"] in MEASURED and tap[key]["verdict"] in MEASURED]


def within_its_u(row: dict[str, Any]) -> bool:
    """Whether a figure is closer to its limit than its uncertainty can tell."""
    u = math.hypot(row["measured"]["u"], row["limit_u"] or 0.0)
    return abs(row["measured"]["value"] - row["limit"]) <= u + (SLACK_S if row["unit"] == "s" else 0.0)


def told(key: tuple[str, str], row: dict[str, Any] | None) -> str:
    if row is None:
        return f"{' '.join(key)}: no row"
    figure = row["measured"] or {}
    return f"{' '.join(key)}: {row['verdict']}, {figure.get('value')} +- {figure.get('u')}, limit {row['limit']}, {row['why']}"


def test_the_guests_own_verdicts_are_those_of_judge(out: Path, host: Rows) -> None:
    assert {key: row["verdict"] for key, row in judged(out, "seen").items()} == {key: row["verdict"] for key, row in host.items()}


def test_the_two_runs_have_the_same_rows(host: Rows, tap: Rows) -> None:
    assert host.keys() == tap.keys()


def test_where_both_can_measure_the_verdicts_are_the_same(host: Rows, tap: Rows) -> None:
    both = both_measured(host, tap)
    unlike = [key for key in both if host[key]["verdict"] != tap[key]["verdict"]]
    # a verdict of the first rig may be conditional, by its uncertainty or by the host's time in a latency; it never says the opposite
    wrong = [
        key for key in unlike if "conditional" not in host[key]["verdict"] or not (within_its_u(host[key]) or HOST_TIME in host[key]["why"])
    ]
    assert not wrong, "\n".join(told(key, found[key]) for key in wrong for found in (host, tap))
    assert len(both) - len(unlike) >= SAME, "\n".join(told(key, found[key]) for key in unlike for found in (host, tap))


def test_the_same_figures_within_what_both_state(host: Rows, tap: Rows) -> None:
    """A host's latency is longer than the drive's."""
    for key in both_measured(host, tap):
        one, other = host[key]["measured"], tap[key]["measured"]
        if host[key]["measurand"] in ("io-latency", "admin-latency"):
            assert one["value"] >= other["value"], key
        elif one["u"] is not None and other["u"] is not None:
            assert abs(one["value"] - other["value"]) <= math.hypot(one["u"], other["u"]) + 1e-9, told(key, host[key]) + told(key, tap[key])


def test_where_one_cannot_measure_it_says_why(host: Rows, tap: Rows) -> None:
    alone = [key for key in host.keys() & tap.keys() if (host[key]["verdict"] in MEASURED) != (tap[key]["verdict"] in MEASURED)]
    silent = [row for key in alone for row in (host[key], tap[key]) if row["verdict"] not in MEASURED and not row["why"]]
    assert not silent
    assert {key[0] for key in alone} == {"EXLAT"}, "\n".join(told(key, found[key]) for key in alone for found in (host, tap))
    assert all("when the drive takes a command up" in host[key]["why"] for key in alone)


def test_faults_fail_by_both_rigs(host: Rows, tap: Rows) -> None:
    for key, verdict in FAULTS.items():
        assert host[key]["verdict"] == tap[key]["verdict"] == verdict, "\n".join(told(key, found[key]) for found in (host, tap))


@pytest.mark.skipif(not os.environ.get("WATTBELL_BOX_SHOW"), reason="prints a table")
def test_show(host: Rows, tap: Rows) -> None:
    for key in sorted(host.keys() | tap.keys()):
        print(f"\n  host {told(key, host.get(key))}\n  tap  {told(key, tap.get(key))}")
