"""fio's JSON and the phases that name it, however written: rows, or one clear error; nothing outside ``workload/`` is read."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.analysis import fio
from wattbell.errors import CaptureError

from tests.host.fuzzing import examples

CONTEXT: Any = SimpleNamespace(
    saw_commands=True, first_tick=0, last_tick=1, loss=SimpleNamespace(between=lambda _first, _last: SimpleNamespace(under_commands=0))
)
LATENCY = {"min": 1e-6, "mean": 2e-6, "max": 3e-6}
WIRE = {"by_opcode": {"read": {"count": 2, "bytes": 8192, "latency_s": LATENCY}}}
READ = {"total_ios": 2, "io_bytes": 8192, "lat_ns": {"min": 2000, "mean": 3000.0, "max": 4000}}
JOB = {"jobname": "a", "groupid": 0, "read": READ}


def result(**described: Any) -> dict[str, Any]:
    return {"commands": WIRE, "phases": [{"phase": 1, "name": "a", "commands": WIRE, "described": described}]}


def compared(workload: Path, content: str | bytes | None = None, **described: Any) -> dict[str, Any] | None:
    workload.mkdir(exist_ok=True)
    if content is not None:
        (workload / "fio.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    return fio.compare(CONTEXT, result(**described), workload)


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    folder = tmp_path / "capture/workload"
    folder.mkdir(parents=True)
    return folder


def test_a_file_that_a_phase_names_is_read(workload: Path) -> None:
    (workload / "sub").mkdir()
    for name in ("own.json", "sub/own.json", "./own.json"):
        (workload / name).write_text("note: a warning\n" + json.dumps({"jobs": [JOB]}))
        found = compared(workload, fio=name)
        assert found is not None and found["equal"] and found["latency_ok"]
        assert found["sections"][0]["rows"][0]["fio_count"] == 2
    assert compared(workload, fio="nothing-of-the-kind.json") is None


@pytest.mark.parametrize(
    "name", ["../secret.json", "/SECRET", "sub/../../secret.json", "link.json", "folder/secret.json", "..", "x" * 300, "a\0b"]
)
def test_nothing_outside_the_captures_workload_is_read(workload: Path, name: str) -> None:
    """Somebody else's capture must not get a file of this computer into a report."""
    secret = workload.parent / "secret.json"
    secret.write_text(json.dumps({"jobs": [JOB]}))
    (workload / "link.json").symlink_to(secret)
    (workload / "folder").symlink_to(workload.parent)
    (workload / "sub").mkdir()
    for key in ("fio", "fio_json"):
        with pytest.raises(CaptureError, match=r"meta\.json: phase 1, fio = .*only a file inside workload/") as told:
            compared(workload, **{key: name.replace("/SECRET", str(secret))})
        assert str(told.value).isprintable()
    (workload / "fio.json").symlink_to(secret)
    with pytest.raises(CaptureError, match="only a file inside workload/"):
        compared(workload)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not fio JSON"),
        ("fio: no output", "not fio JSON"),
        ("[]", "not fio JSON"),
        ('{"jobs": 3}', r"\$\.jobs"),
        ('{"jobs": [3]}', r"\$\.jobs\[0\]"),
        ('{"job": []}', "jobs"),
        ('{"jobs": [{"jobname": 3}]}', "jobname"),
        ('{"jobs": [{"read": []}]}', "read"),
        ('{"jobs": [{"read": {"total_ios": "many"}}]}', "total_ios"),
        ('{"jobs": [{"read": {"total_ios": -1}}]}', "total_ios"),
        ('{"jobs": [{"read": {"total_ios": 1e99}}]}', "total_ios"),
        ('{"jobs": [{"read": {"total_ios": ' + "9" * 30 + "}}]}", "total_ios"),
        ('{"jobs": [{"read": {"total_ios": 1, "io_bytes": NaN}}]}', "not fio JSON"),
        ('{"jobs": [{"read": {"total_ios": 1, "lat_ns": {"min": "x"}}}]}', "lat_ns.min"),
        ('{"jobs": [{"read": {"total_ios": 1, "lat_ns": {"max": 1e300}}}]}', "lat_ns.max"),
        ('{"jobs": [{"read": {"total_ios": 1, "lat_ns": {"max": Infinity}}}]}', "not fio JSON"),
        ('{"jobs": [{"job options": 3}]}', "job options"),
        ('{"jobs": [], "global options": []}', "global options"),
        ('{"jobs": [' + "[" * 100_000, "not fio JSON"),
        ('{"x": ' + "[" * 100_000, "not fio JSON"),
        (b'{"jobs": [{"jobname": "\xff"}', "not fio JSON"),
    ],
)
def test_what_is_no_fio_json_is_told_with_its_key(workload: Path, content: str | bytes, says: str) -> None:
    with pytest.raises(CaptureError, match=says) as told:
        compared(workload, content)
    assert str(workload / "fio.json") in str(told.value)
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("described", [{"fio": 3}, {"jobs": 3}, {"jobs": [3]}, {"job": []}, {"fio_group": "x"}, {"fio_json": ["a"]}])
def test_a_phase_with_wrong_types_is_told_with_its_key(workload: Path, described: dict[str, Any]) -> None:
    with pytest.raises(CaptureError, match=rf"meta\.json: workload\.phases, phase 1: .*{next(iter(described))}"):
        compared(workload, json.dumps({"jobs": [JOB]}), **described)


KEYS = [
    "jobs",
    "jobname",
    "groupid",
    "job options",
    "global options",
    "read",
    "write",
    "trim",
    "sync",
    "total_ios",
    "io_bytes",
    "lat_ns",
    "min",
    "mean",
    "max",
    "iodepth",
    "a",
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 9),
    st.floats(),
    st.floats(0, 1e6),
    st.sampled_from([10**30, 1 << 63, -1]),
    st.sampled_from(KEYS),
    st.text(max_size=4),
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4), max_leaves=12
)
DIRECTIONS = st.fixed_dictionaries(
    {"total_ios": st.integers(0, 1 << 40)},
    optional={
        "io_bytes": st.integers(0, 1 << 60),
        "lat_ns": st.fixed_dictionaries({}, optional=dict.fromkeys(LATENCY, st.floats(0, 1e18))),
    },
)
JOBS = st.fixed_dictionaries(
    {"jobname": st.sampled_from(["a", "b"])},
    optional={"read": DIRECTIONS | TREES, "write": DIRECTIONS, "sync": DIRECTIONS | TREES, "job options": TREES, "groupid": LEAVES},
)


@examples(400)
@given(
    tree=st.one_of(TREES, st.fixed_dictionaries({"jobs": st.lists(JOBS, max_size=3)}, optional={"global options": TREES})),
    before=st.sampled_from(["", "fio: warning\n", "{"]),
    described=st.dictionaries(st.sampled_from(["fio", "fio_json", "jobs", "job", "fio_group"]), TREES, max_size=2),
)
def test_any_tree_is_compared_or_an_error(tmp_path: Path, tree: Any, before: str, described: dict[str, Any]) -> None:
    try:
        found = compared(tmp_path / "workload", before + json.dumps(tree), **described)
    except CaptureError as error:
        assert str(tmp_path) in str(error)
        return
    json.dumps(found, allow_nan=False)


@examples(200)
@given(content=st.one_of(st.binary(max_size=80), st.text(alphabet='{}[]",:0123456789eE.-jobsread', max_size=60).map(str.encode)))
def test_any_bytes_are_compared_or_an_error(tmp_path: Path, content: bytes) -> None:
    try:
        compared(tmp_path / "workload", content)
    except CaptureError as error:
        assert "fio.json" in str(error)
