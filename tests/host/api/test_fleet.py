"""Many captures side by side: the same figures, whatever becomes of a worker or of one of the captures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import dask
import polars as pl
import psutil
import pytest
from distributed import LocalCluster, Security
from typer.testing import CliRunner
from wattbell.api.fleet import CaptureOutcome, analyse, analyse_all, captures_below, cluster, figures_table, outcome, processes, run
from wattbell.api.fleet.tables import short_names
from wattbell.cli.app import app
from wattbell.errors import CaptureError, UsageError

from tests import needs
from tests.patience import PATIENCE_S

MS, US = 1_000_000, 1_000


@pytest.fixture
def folder(builder, tmp_path: Path) -> Path:
    """Captures a, b and below/c, each another load; broken, which lacks a table; and a folder that is none."""
    place = tmp_path / "lab"
    for number, name in enumerate(("a", "b", "below/c", "broken")):
        one = type(builder)(place / name)
        one.power(0, 0.66)
        one.power(3 * MS, 1.1 + 0.1 * number)
        one.phase(1, 1 * MS, 9 * MS, "read")
        for n in range(40):
            one.command(2 * MS + n * 100 * US, (50 + 7 * number) * US + n, fetch_tick=2 * MS + n * 100 * US + 200)
        one.write(12 * MS)
    (place / "broken" / "events.parquet").unlink()
    (place / "notes").mkdir()
    (place / ".a.new").mkdir()
    (place / ".a.new" / "meta.json").write_text("{}")
    return place


def text(outcomes) -> str:
    return json.dumps([(one.path, one.error, one.figures) for one in outcomes])


def test_captures_are_found_below_folders_once_and_not_within_captures(folder: Path) -> None:
    (folder / "a" / "workload").mkdir(exist_ok=True)
    (folder / "a" / "workload" / "meta.json").write_text("{}")
    found = captures_below([folder, folder / "a"])
    assert [path.relative_to(folder.resolve()).as_posix() for path in found] == ["a", "b", "below/c", "broken"]
    with pytest.raises(CaptureError, match="none lies below it"):
        captures_below([folder / "notes"])
    with pytest.raises(CaptureError, match="is not a directory"):
        captures_below([folder / "gone"])


def test_a_worker_is_killed_and_every_figure_is_the_same_to_the_last_digit(folder: Path) -> None:
    paths = captures_below([folder])
    alone = analyse_all(paths, workers=0)
    assert [bool(one.error) for one in alone] == [False, False, False, True]
    killed: list[int] = []

    def kill_one(done: int, total: int) -> None:
        # the one that was killed has no command line any more, and is there until its parent has asked for it
        for worker in () if killed else psutil.Process().children(recursive=True):
            if worker.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(worker.cmdline()):
                killed.append(worker.pid)
                worker.kill()
                return

    together = analyse_all(paths, workers=1, progress=kill_one)
    assert killed, "with the only worker's death its other tasks are lost, and done again"
    assert text(together) == text(alone)


def deadly(path: str) -> CaptureOutcome:
    if path.endswith("/b"):
        os.kill(os.getpid(), signal.SIGKILL)
    return CaptureOutcome(path, {})


def test_a_capture_that_ends_its_workers_is_given_up_and_the_others_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "analyse", deadly)
    monkeypatch.setattr(processes, "TRIES", 2)
    found = analyse_all(captures_below([folder / "a", folder / "b", folder / "below"]), workers=2)
    assert [one.figures for one in found] == [{}, None, {}], "and not blamed on what was under way beside it"
    assert "ended 2 processes" in found[1].error


def test_the_workers_of_a_scheduler_do_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = captures_below([folder])
    options = {"processes": False, "protocol": "tcp", "dashboard_address": None, "threads_per_worker": 1}
    with LocalCluster(n_workers=1, **options) as local:
        assert text(analyse_all(paths, scheduler=local.scheduler_address, insecure=True)) == text(map(analyse, map(str, paths)))
    monkeypatch.setattr(cluster, "_WAIT_S", 0.3)
    with LocalCluster(n_workers=0, **options) as local, pytest.raises(UsageError, match="has no workers"):
        analyse_all(paths, scheduler=local.scheduler_address, insecure=True)
    with pytest.raises(UsageError, match="No dask scheduler answers at tcp://127.0.0.1:1 "):
        analyse_all(paths, scheduler="tcp://127.0.0.1:1", insecure=True)
    with pytest.raises(UsageError, match="not both"):
        analyse_all(paths, scheduler="tcp://127.0.0.1:1", workers=2)


def test_workers_with_other_software_are_refused() -> None:
    here = {"wattbell": "1", "numpy": "2", "polars": "3", "pyjls": "4"}
    assert cluster.different(here, {"tcp://a:1": here, "tcp://b:1": {**here, "pyjls": "5"}}) == ""
    assert cluster.different(here, {"tcp://a:1": here, "tcp://b:1": {**here, "numpy": "1"}}).startswith("The worker tcp://b:1 has numpy 1")


def test_without_dask_the_error_names_the_extra_and_the_way_without_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"cluster.*leave --scheduler out"):
        analyse_all(captures_below([folder]), scheduler="tls://127.0.0.1:1")
    assert len(analyse_all(captures_below([folder]), workers=1)) == 4


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "ws://127.0.0.1:1", "tlsx://127.0.0.1:1"])
def test_a_scheduler_without_tls_is_refused_unless_it_is_asked_for(address: str) -> None:
    with pytest.raises(UsageError, match=r"runs code .*tls://HOST:PORT.*--insecure"):
        analyse_all([], scheduler=address)
    with pytest.raises(UsageError, match="Leave --insecure out"):
        analyse_all([], scheduler="tls://127.0.0.1:1", insecure=True)
    with pytest.raises(UsageError, match="Leave --insecure out"):
        analyse_all([], insecure=True)


def test_insecure_says_what_it_means(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_WAIT_S", 0.3)
    done = CliRunner().invoke(app, ["analyze", str(folder), "--scheduler", "tcp://127.0.0.1:1", "--insecure"])
    assert "runs code on those machines, and on this one" in " ".join(done.stderr.split())


@pytest.mark.needs("openssl")
def test_a_scheduler_with_tls_takes_nobody_without_its_certificate(folder: Path, tmp_path: Path) -> None:
    """The certificate is made by openssl; who has none is turned away by the scheduler, and a scheduler without TLS by us."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=wattbell", "-keyout", key, "-out", certificate]
    subprocess.run([needs.program("openssl"), *words], check=True, capture_output=True)
    tls = {
        f"distributed.comm.tls.{end}.{what}": str(file)
        for end in ("client", "worker", "scheduler")
        for what, file in (("key", key), ("cert", certificate))
    }
    paths = captures_below([folder / "a"])
    options = {"processes": False, "dashboard_address": None, "threads_per_worker": 1}
    with dask.config.set({**tls, "distributed.comm.tls.ca-file": str(certificate)}):
        with LocalCluster(n_workers=1, protocol="tls", security=Security(), **options) as local:
            assert local.scheduler_address.startswith("tls://")
            assert text(analyse_all(paths, scheduler=local.scheduler_address)) == text(map(analyse, map(str, paths)))
            without = {"distributed.comm.tls.client.key": None, "distributed.comm.tls.client.cert": None}
            with dask.config.set(without), pytest.raises(UsageError, match="No dask scheduler answers"):
                analyse_all(paths, scheduler=local.scheduler_address)
        with (
            LocalCluster(n_workers=1, protocol="tcp", **options) as local,
            pytest.raises(UsageError, match="No dask scheduler answers"),
        ):
            analyse_all(paths, scheduler=local.scheduler_address.replace("tcp://", "tls://"))


def test_the_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """`kill -9` of the parent leaves no process behind, although both workers are at work: each opens a pipe that nobody writes to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = f"from wattbell.api.fleet import processes; list(processes.outcomes([{str(pipe)!r}] * 2, 2, open))"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        parent = psutil.Process(process.pid)
        children: list[psutil.Process] = []
        while sum("spawn_main" in " ".join(child.cmdline()) for child in children) < 2:
            assert process.poll() is None
            children = parent.children(recursive=True)
        process.kill()
    assert psutil.wait_procs(children, timeout=PATIENCE_S)[1] == []


def test_dask_is_imported_only_when_it_is_used() -> None:
    code = "import sys, wattbell.api.fleet, wattbell.cli.app; sys.exit(any(name in sys.modules for name in ('dask', 'distributed')))"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode == 0


def test_the_command_line_goes_on_behind_a_bad_capture_and_says_so(folder: Path, tmp_path: Path) -> None:
    words = ["analyze", str(folder), "--workers", "0", "--out", str(tmp_path / "f.parquet")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "4 captures  1 failed" in done.stdout
    assert "below/c" in done.stdout
    assert len([line for line in done.stderr.splitlines() if "events.parquet" in line]) == 1
    rows = pl.read_parquet(tmp_path / "f.parquet")
    assert rows.filter(pl.col("error").is_not_null())["capture"].to_list() == [str((folder / "broken").resolve())]
    known = {one.path: one.figures for one in map(analyse, map(str, captures_below([folder / "a", folder / "b"])))}
    for path, figures in known.items():
        mean = rows.filter((pl.col("capture") == path) & (pl.col("figure") == "power.mean_w") & (pl.col("phase") == ""))
        assert mean["value"].item() == figures["power"]["mean_w"]["value"]
    printed = json.loads(CliRunner().invoke(app, ["analyze", str(folder), "--workers", "0", "--json"]).stdout)
    assert [sorted(one) for one in printed["captures"]] == [["capture", "figures"]] * 3 + [["capture", "error"]]
    assert printed["captures"][0]["figures"] == json.loads(json.dumps(known[printed["captures"][0]["capture"]]))


def test_an_error_is_the_one_of_the_capture_alone_and_a_bug_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert analyse(str(folder / "broken")).error.startswith(f"{folder / 'broken' / 'events.parquet'} is missing")

    def bug(_: object) -> None:
        raise ValueError("no\nsuch thing")

    monkeypatch.setattr(outcome, "figures_of", bug)
    assert analyse(str(folder / "a")).error == "the analysis failed with ValueError: no such thing"


def test_one_capture_is_analysed_as_ever(folder: Path) -> None:
    one = CliRunner().invoke(app, ["analyze", str(folder / "a"), "--json"])
    assert one.exit_code == 0
    assert json.loads(one.stdout)["schema"]
    missing = CliRunner().invoke(app, ["analyze", str(folder / "gone")])
    assert "is not a directory" in str(missing.exception)


def test_all_whole_is_exit_code_0(folder: Path) -> None:
    done = CliRunner().invoke(app, ["analyze", str(folder / "a"), str(folder / "below"), "--workers", "0"])
    assert (done.exit_code, done.stderr) == (0, "")


def test_names_are_told_apart_by_what_they_do_not_share() -> None:
    assert short_names(["/x/y/a", "/x/y/b/c"]) == ["a", "b/c"]
    assert short_names(["/x/y/a"]) == ["a"]
    assert short_names(["/x/a", "/x/a/b"]) == ["a", "a/b"]


def test_a_figure_over_lost_data_says_so_in_the_table(folder: Path) -> None:
    one = analyse(str(folder / "a"))
    assert one.figures is not None
    one.figures["rates"]["iops"]["lost"] = 3
    (row,) = figures_table([one]).rows
    assert [cell.text for cell in row[4:6] if not isinstance(cell, str)][1].endswith("!")
