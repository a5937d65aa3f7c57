"""Somebody else's suite is refused with file, line and key; a path outside its folder is never touched."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from wattbell.campaign.real import refuse_jobs_without_drive
from wattbell.errors import UsageError, WattbellError
from wattbell.suites.drive import from_profile
from wattbell.suites.jobs import OPTIONS, of_a_suite, scaled, sections
from wattbell.suites.listing import DATA
from wattbell.suites.manifest import load_suite, parse_manifest
from wattbell.suites.plan import choose_tests

from tests import needs

GOOD = "[global]\nfilename=${WATTBELL_DRIVE}\nioengine=libaio\ndirect=1\n[a]\nrw=randread\nbs=4k\n"
IDLE = {"id": "a", "name": "A", "kind": "idle", "conditions": ["empty"], "idle_s": 1.0}
BURST = {"id": "a", "name": "A", "kind": "burst", "conditions": ["empty"], "jobs": "j.fio"}


def folder(tmp_path: Path, job: str = GOOD) -> Path:
    found = tmp_path / "suite"
    found.mkdir(exist_ok=True)
    (found / "manifest.toml").write_text("")
    (found / "j.fio").write_text(job)
    return found


@pytest.mark.parametrize(
    "option",
    [
        "filename=/etc/passwd", "filename=/dev/sda", "filename=${HOME}/x", "filename=${WATTBELL_DRIVE}:/dev/sdb", "filename=$DRIVE",
        "filename_format=/tmp/x", "directory=/tmp", "opendir=/", "file_service_type=random", "exec_prerun=touch /tmp/x",
        "exec_postrun=touch /tmp/x", "include /etc/passwd", "include=/etc/passwd", "ioengine=external:/tmp/x.so", "ioengine=exec",
        "ioengine=net", "program=/bin/sh", "write_bw_log=/tmp/x", "write_lat_log", "write_iolog=/tmp/x", "write_iops_log=x",
        "write_hist_log=x", "read_iolog=/etc/passwd", "replay_redirect=/dev/sda", "aux-path=/tmp", "verify=crc32c", "verify_state_load=1",
        "log_store_compressed=1", "mem=mmaphuge:/etc/x", "buffer_pattern='/etc/passwd'", "nrfiles=9", "openfiles=9", "unlink=1",
        "trigger-file=/tmp/x", "cgroup=x", "uid=0", "profile=act", "size=$(touch /tmp/x)", "size=(1+1)", "bs=4k`id`", "iodepth=$ncpus",
        "rate=1m;x=$jobname\x00", "description=`id`", "name=../x", "\x0bexec_prerun=x", "FILENAME=/etc/passwd", "filename =/etc/passwd",
        "bs=4k\x0cexec_prerun=x", "# a comment\u2028exec_prerun=x", ";" + "x" * 4095 + "exec_prerun=touch /tmp/x", "[global",
        "[globals]", "[a/../b]", "[]", "[a]x", "[a]", "=", "=x",
    ],
)  # fmt: skip
def test_a_job_file_sets_nothing_but_what_is_on_the_list(tmp_path: Path, option: str) -> None:
    text = GOOD + option + "\n"
    where = folder(tmp_path, text)
    with pytest.raises(UsageError, match=r"/j\.fio:\d+: ") as told:
        parse_manifest({"name": "x", "test": [BURST]}, where)
    assert "/j.fio:8: " in str(told.value)
    assert str(told.value).isprintable()
    with pytest.raises(UsageError):
        of_a_suite(text, "j.fio")
    with pytest.raises(UsageError):
        scaled(text, 0.5, 1 << 40)


def test_an_option_that_is_refused_is_named() -> None:
    for option, says in (
        ("exec_prerun=x", "j.fio:8: option `exec_prerun` is not one a suite may set. It may set "),
        ("filename=/etc/passwd", r"j.fio:8: option `filename`: `/etc/passwd` is none of \$\{WATTBELL_DRIVE\}"),
        ("iodepth=many", "j.fio:8: option `iodepth`: `many` is not a whole number from 1 to 65535"),
        ("rwmixread=101", "option `rwmixread`: `101` is not a whole number from 0 to 100"),
        ("size=1.5g", "option `size`: `1.5g` is not a size"),
        ("size=9999999p", "option `size`: `9999999p` is more than 8 EiB"),
        ("size=" + "9" * 900, "is not a size"),
        ("runtime=soon", "option `runtime`: `soon` is not a time"),
        ("bs=0", "option `bs`: `0` must be at least 1 byte"),
        ("bs=4k,4k,4k,4k", "more than three"),
        ("direct=yes", "option `direct`: `yes` is neither 0 nor 1"),
    ):
        with pytest.raises(UsageError, match=says):
            sections(GOOD + option + "\n", "j.fio")


def test_what_fio_understands_is_understood() -> None:
    text = GOOD.replace("bs=4k", "bs = 4k,,8k ; a comment") + "size=75% # another\r\ndescription=reads, QD1\nstonewall\n"
    (job,) = of_a_suite(text, "j.fio")
    assert (job.options["bs"], job.options["size"], job.options["stonewall"]) == ("4k,,8k", "75%", "1")
    assert sections(scaled(text, 0.5, 1 << 30))[0].options["size"] == str((1 << 30) * 75 // 100 // 2)


def test_a_job_that_names_no_drive_is_refused_on_a_real_one(tmp_path: Path) -> None:
    """fio would create a file of the job's name and size on this computer."""
    where = folder(tmp_path, GOOD.replace("filename=${WATTBELL_DRIVE}\n", ""))
    suite = parse_manifest({"name": "x", "test": [BURST]}, where)
    with pytest.raises(UsageError, match=r"j\.fio: job a names no drive: it needs filename=\$\{WATTBELL_DRIVE\}"):
        refuse_jobs_without_drive(suite, choose_tests(suite, (), None))
    for shipped in DATA.glob("*/*.fio"):
        of_a_suite(shipped.read_text(), str(shipped))


def test_fio_itself_knows_every_option_on_the_list() -> None:
    fio = needs.program("fio")
    for option in OPTIONS:
        told = [
            subprocess.run([fio, f"--{how}{option}"], capture_output=True, text=True, check=False).stdout
            for how in ("cmdhelp=", "enghelp=io_uring,")
        ]
        assert any(re.search(rf"^ *({option}:|alias: {option}$)", text, re.MULTILINE) for text in told), option


@pytest.mark.parametrize("name", ["../x", "a/b", "/tmp/x", "..", ".", ".x", "", "a b", "a\nb", "a\0b", "a\\b", "x" * 101, "\u202ea", "~"])
@pytest.mark.parametrize("key", ["id", "session"])
def test_names_that_become_files_stay_in_their_folder(tmp_path: Path, key: str, name: str) -> None:
    with pytest.raises(UsageError, match="a name has up to 100 letters, digits") as told:
        parse_manifest({"name": "x", "test": [{**IDLE, key: name}]}, folder(tmp_path))
    assert str(told.value).isprintable()
    with pytest.raises(UsageError):
        parse_manifest({"name": "x", "session": name or "../", "test": [IDLE]}, folder(tmp_path))
    with pytest.raises(UsageError, match="conditions must be"):
        parse_manifest({"name": "x", "test": [{**IDLE, "conditions": [name]}]}, folder(tmp_path))


@pytest.mark.parametrize(
    "jobs", ["../j.fio", "/etc/passwd", "sub/j.fio", "j.txt", ".j.fio", "link.fio", "nothing.fio", "d.fio", "x" * 300 + ".fio", "b.fio"]
)
def test_a_job_file_lies_beside_its_manifest(tmp_path: Path, jobs: str) -> None:
    where = folder(tmp_path)
    for name in ("../j.fio", "sub/j.fio", "j.txt", ".j.fio"):
        (where / name).parent.mkdir(exist_ok=True)
        (where / name).write_text(GOOD)
    (where / "link.fio").symlink_to(where.parent / "j.fio")
    (where / "d.fio").mkdir()
    (where / "b.fio").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="beside the manifest|outside the suite's folder|not a text"):
        parse_manifest({"name": "x", "test": [{**BURST, "jobs": jobs}]}, where)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id": 3}, "id: Expected `str`"),
    ({"name": ["A"]}, "name: Expected `str`"),
    ({"name": "\x1b[31m"}, "printable"),
    ({"conditions": "empty"}, "conditions: Expected `array`"),
    ({"conditions": [1]}, "conditions"),
    ({"idle_s": "long"}, "idle_s: Expected `float`"),
    ({"idle_s": float("nan")}, "idle_s"),
    ({"idle_s": float("inf")}, "idle_s"),
    ({"idle_s": -1.0}, "idle_s"),
    ({"idle_s": 10**400}, "idle_s"),
    ({"duty": float("nan")}, "duty"),
    ({"repeat": 0}, "repeat"),
    ({"repeat": 2.5}, "repeat"),
    ({"repeat": 10**30}, "repeat"),
    ({"repeat": True}, "repeat"),
    ({"apst": "yes"}, "apst"),
    ({"score_over": [0]}, "score_over"),
    ({"score_over": 4}, "score_over"),
    ({"series_s": 0.0}, "series_s"),
    ({"series_gb": 0}, "series_gb"),
    ({"rail_interval_s": 0.0}, "rail_interval_s"),
    ({"rounds_max": -1}, "rounds_max"),
    ({"test_data": -1}, "test_data"),
    ({"test_data": 1 << 63}, "test_data"),
    ({"test_data": [1]}, "test_data"),
    ({"fill": True}, "fill"),
    ({"fill": {"span": 0.5, "bs": "0"}}, "fill.bs"),
    ({"fill": {"bs": "many"}}, "many"),
    ({"fill": {"times": 0}}, "fill.times"),
    ({"fill": {"colour": 1}}, "colour"),
    ({"kind": "trace", "trace": "../x"}, "trace"),
    ({"kind": "rounds", "jobs": "j.fio"}, "rounds_max"),
    ({"kind": "rounds", "jobs": "j.fio", "rounds_max": 5, "track": ["b"], "quantity": "iops"}, "track names b, which are not in j.fio"),
    ({"kind": "rounds", "jobs": "j.fio", "rounds_max": 5, "track": ["a"], "quantity": "colour"}, "quantity"),
]


@pytest.mark.parametrize(("change", "says"), WRONG)
def test_wrong_types_and_numbers_are_told_by_key(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    where = folder(tmp_path)
    parse_manifest({"name": "x", "test": [IDLE]}, where)
    with pytest.raises(UsageError, match=says) as told:
        parse_manifest({"name": "x", "test": [{**IDLE, **change}]}, where)
    assert str(where / "manifest.toml") in str(told.value)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"test": 3},
        {"test": []},
        {"test": [3]},
        {"test": [{}]},
        {"test": [IDLE], "name": 3},
        {"test": [IDLE], "name": " "},
        {"test": [IDLE], "title": "\n"},
        {"test": [IDLE], "session": 1},
        {"test": [IDLE], "colour": 1},
    ],
)
def test_a_manifest_of_the_wrong_shape_is_told(tmp_path: Path, raw: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"manifest\.toml: "):
        parse_manifest(raw, folder(tmp_path))


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"a = [" * 3000, b"a = 1979-99-99", b"name = 'x'\ntest = nan", b"\0", b"a = 1\na = 2", b"test = [{idle_s = 1e999}]", b""],
)
def test_a_manifest_that_is_no_toml_is_told(tmp_path: Path, content: bytes) -> None:
    where = folder(tmp_path)
    (where / "manifest.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"manifest\.toml: "):
        load_suite(where)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "../../etc", ""])
def test_a_suite_that_is_nowhere_is_told(name: str) -> None:
    with pytest.raises(WattbellError, match="There is no suite"):
        load_suite(name)


def test_the_command_line_says_one_line_and_runs_nothing(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    where = folder(tmp_path, GOOD + f"filename={victim}\n")
    (where / "manifest.toml").write_text('[[test]]\nid = "a"\nname = "A"\nkind = "burst"\nconditions = ["empty"]\njobs = "j.fio"\n')
    for arguments in (
        ("suites", str(where)),
        ("run", str(where), "--drive", "/dev/null", "--serial", "1", "--out", str(tmp_path / "out")),
    ):
        told = subprocess.run([sys.executable, "-m", "wattbell", *arguments], capture_output=True, text=True, check=False)
        assert told.returncode == 2, told.stderr
        assert told.stderr.startswith("error:") and "filename" in told.stderr
        assert "Traceback" not in told.stderr
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"",
        b"[namespace]\nlbas_512 = 9999",
        b"power_state = 3\n[namespace]\nlbas_512 = 9999",
        b"power_state = [3]\n[namespace]\nlbas_512 = 9999",
        b"power_state = [{operational = 3}]\n[namespace]\nlbas_512 = 9999",
        b"power_state = [{}]\n[namespace]\nlbas_512 = inf",
        b"power_state = [{}]\n[namespace]\nlbas_512 = 0",
        b"power_state = [{}]\n[namespace]\nlbas_512 = {value = 'x'}",
        b"a = " + b"[" * 5000,
        b"power_state = [{}]\nidentity = 3\n[namespace]\nlbas_512 = 9999",
    ],
)
def test_what_is_no_profile_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"p\.toml is not a profile of a drive"):
        from_profile(path)
