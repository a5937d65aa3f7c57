"""meta.json from any source: it is read if valid, or refused in one sentence that names the key."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wattbell.analysis import figures_of
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture.meta import NAME, save
from wattbell.capture.metamodel import json_schema
from wattbell.cli.info import info
from wattbell.errors import CaptureError, WattbellError
from wattbell.present.pages import write_report
from wattbell.results.from_capture import run_from_capture

from tests.e2e import stream_maker as maker
from tests.host.fuzzing import examples

STREAM = b"".join(maker.stream(60))

DRIVE = {
    "source": "identify",
    "model": "M",
    "serial": "S",
    "firmware": "F",
    "namespaces": [{"nsid": 1, "lba_size_bytes": 512}],
    "power_states": [
        {"state": 0, "max_power_w": 5.0, "non_operational": False},
        {"state": 3, "max_power_w": 0.05, "non_operational": True, "entry_latency_s": 0.001, "exit_latency_s": 0.002},
    ],
}


def make(path: Path, stream: bytes = STREAM) -> Path:
    """A small capture whose meta.json has every key, without hashes: the fuzzing reaches everything a reader depends on."""
    about = {
        "virtual": False,
        "profile": "p",
        "timing": "model",
        "trace_origin_tick": 0,
        "front_end_delay_s": 1e-6,
        "front_end_delay_u_s": 1e-8,
        "front_end_delay_calibrated": False,
    }
    rig = {"model": "R", "serial": "1", "error_model": {"gain": 0.001, "offset_a": 5e-6}}
    with CaptureWriter(path, rig=rig, conditions=about, keep_stream=True) as writer:
        writer.feed(stream)
        writer.meta["workload"] = {"phases": [{"phase": 1, "name": "a", "kind": "idle", "fio_group": 0, "jobs": ["a"]}]}
        writer.meta["drive"] = copy.deepcopy(DRIVE)
    return path


def older(path: Path) -> dict[str, Any]:
    """``meta.json`` as it was before there were hashes."""
    meta: dict[str, Any] = json.loads((path / NAME).read_text())
    for key in ("files", "self"):
        del meta[key]
    return meta


@pytest.fixture(scope="module")
def pattern() -> Iterator[tuple[Path, dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = make(Path(folder) / "c")
        yield path, older(path)


def test_the_published_schema_is_that_of_the_code() -> None:
    published = Path(__file__).parents[3] / "docs" / "meta.schema.json"
    assert json.loads(published.read_text()) == json_schema()


def at(meta: dict[str, Any], where: str) -> tuple[Any, str | int]:
    """Holder and last key of ``rail.samples``, ``drive.namespaces.0.nsid``."""
    *path, last = where.split(".")
    holder: Any = meta
    for key in path:
        holder = holder[int(key)] if isinstance(holder, list) else holder[key]
    return holder, int(last) if isinstance(holder, list) else last


REFUSED = [
    ("rail.samples", 1e18), ("rail.samples", -1), ("rail.samples", 10**18), ("rail.samples", True), ("rail.samples", 5999.5),
    ("rail.interval_ticks", 0), ("rail.interval_ticks", None), ("rail.first_tick", 1 << 63), ("rail.first_tick", "0"),
    ("clock.tick_ps", -5), ("clock.tick_ps", 0), ("clock.tick_ps", None), ("clock.tick_ps", 10**10), ("clock", []),
    ("clock.utc_anchor", {"tick": 5}), ("clock.utc_anchor", {"tick": 5, "utc_ns": -1, "utc": ""}),
    ("state", "finished"), ("state", None), ("rig", []), ("rig.serial", 7), ("rig.error_model", {"gain": -1}),
    ("rig.error_model", "none"), ("conditions.notes", "one"), ("conditions.notes", [1]), ("conditions.virtual", "yes"),
    ("conditions.front_end_delay_s", "1"), ("conditions.front_end_delay_s", None), ("conditions.trace_origin_tick", 0.5),
    ("drive", "Samsung"), ("drive.namespaces", {}), ("drive.namespaces.0.lba_size_bytes", 0), ("drive.namespaces.0.nsid", -1),
    ("drive.power_states", [{}]), ("drive.power_states.0.max_power_w", -1.0), ("drive.power_states.0.state", 99), ("drive.firmware", None),
    ("workload.phases", {}), ("workload.phases.0.phase", "1"), ("workload.phases.0.phase", 1 << 24), ("workload.phases.0.name", 5),
    ("workload.phases.0.jobs", [1]), ("workload.phases.0.settling", {"settled": True}), ("workload", 1),
    ("loss", None), ("loss.lossless", 1), ("loss.missing_blocks", -1),
    ("loss.gaps", {"RAIL": "many"}), ("counts.commands", -3), ("counts", None), ("journal", {}), ("journal.cuts", [-1]),
    ("journal.tick_offsets", []), ("software", []), ("files", {"../../etc/passwd": {"bytes": 0, "sha256": "0" * 64}}),
    ("files", {"/etc/passwd": {"bytes": 0, "sha256": "0" * 64}}), ("files", {"rail.jls": {"bytes": 5}}), ("self", "0"), ("self", 0),
]  # fmt: skip


@pytest.mark.parametrize(("where", "value"), REFUSED, ids=lambda x: str(x)[:40])
def test_what_no_capture_can_have_is_refused_by_its_key(
    pattern: tuple[Path, dict[str, Any]], tmp_path: Path, where: str, value: Any
) -> None:
    changed = copy.deepcopy(pattern[1])
    holder, key = at(changed, where)
    holder[key] = value
    (tmp_path / NAME).write_text(json.dumps(changed))
    with pytest.raises(CaptureError, match="has an invalid value") as caught:
        open_capture(tmp_path)
    assert where.split(".")[0] in str(caught.value) or "finished capture" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nonsense",
        "[]",
        "NaN",
        '{"format": 1, "a": NaN}',
        '{"format": 1e999}',
        "[" * 100_000,
        '{"format": [' * 50_000,
        '{"format": "1"}',
        '{"format": true}',
        '{"format": 1}',
        '"\\ud800"',
        "null",
        '{"format": ' + "9" * 5000 + "}",
    ],
    ids=lambda text: text[:24],
)
def test_what_is_no_json_or_no_meta_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(CaptureError) as caught:
        open_capture(tmp_path)
    assert len(str(caught.value)) < 1000


def test_bytes_that_are_no_text_and_a_file_without_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CaptureError, match="cannot be read"):
        open_capture(tmp_path)
    with open(tmp_path / NAME, "wb") as file:
        file.truncate(1 << 40)  # sparse: a reader that loaded it whole would need a terabyte
    with pytest.raises(CaptureError, match="1 TiB, and the meta.json of a capture has 64 MiB at most"):
        open_capture(tmp_path)


def test_what_a_newer_wattbell_adds_is_kept(pattern: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    shutil.copytree(pattern[0], tmp_path / "c")
    meta = {**pattern[1], "unheard_of": {"a": [1, None]}}
    meta["rail"] = {**meta["rail"], "colour": "red"}
    save(tmp_path / "c", meta)
    capture = open_capture(tmp_path / "c")
    assert (capture.meta["unheard_of"], capture.meta["rail"]["colour"]) == ({"a": [1, None]}, "red")


def read_all(path: Path) -> None:
    """Run `info`, `analyze`, `report` and `compare` on a capture."""
    info(path, None, False)
    info(path, None, True)
    capture = open_capture(path)
    write_report(capture, figures_of(capture), path / "report.html", plots=False)
    run_from_capture(path)


def holds(path: Path) -> bool:
    """True when everything gave a result, False for an error of the family; nothing else passes."""
    try:
        read_all(path)
    except WattbellError as error:
        assert str(error)
        return False
    return True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NUMBERS = [0, 1, -1, 2, 255, 1 << 16, 1 << 31, 1 << 32, 1 << 53, 1 << 61, -(1 << 61), 1 << 63, 0.0, 0.5, 1e-300, 1e18, 1e300]
ODD = st.sampled_from([*NUMBERS, "", {}, []])


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every key and index below a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, entry in inner for place in [(*path, key), *places(entry, (*path, key))]]


def changed(meta: dict[str, Any], place: tuple[str | int, ...], change: Callable[[Any, Any], None]) -> dict[str, Any]:
    copied = copy.deepcopy(meta)
    holder: Any = copied
    for key in place[:-1]:
        holder = holder[key]
    change(holder, place[-1])
    return copied


def drop(holder: Any, key: Any) -> None:
    del holder[key]


def test_a_whole_one_gives_everything(pattern: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    shutil.copytree(pattern[0], tmp_path / "c")
    save(tmp_path / "c", pattern[1])
    assert holds(tmp_path / "c")


def test_any_one_key_may_be_missing(pattern: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    shutil.copytree(pattern[0], tmp_path / "c")
    outcomes = set()
    for place in places(pattern[1]):
        (tmp_path / "c" / NAME).write_text(json.dumps(changed(pattern[1], place, drop)))
        outcomes.add(holds(tmp_path / "c"))
    assert outcomes == {True, False}


@examples(150)
@given(st.data())
def test_any_one_value_may_be_anything(pattern: tuple[Path, dict[str, Any]], data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(places(pattern[1])))
    value = data.draw(ODD | JSON)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c"
        shutil.copytree(pattern[0], path)
        (path / NAME).write_text(json.dumps(changed(pattern[1], place, lambda holder, key: holder.__setitem__(key, value))))
        holds(path)


@examples(200)
@given(JSON | st.dictionaries(st.sampled_from(["format", "state", "clock", "rail", "loss", "drive", "rig", "files", "self"]), ODD | JSON))
@example({"format": 1, "state": "recording"})
def test_any_json_may_be_the_meta(pattern: tuple[Path, dict[str, Any]], value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / NAME).write_text(json.dumps(value))
        assert not holds(Path(folder))


@examples(200)
@given(st.data())
def test_any_bytes_of_the_meta_may_be_others(pattern: tuple[Path, dict[str, Any]], data: st.DataObject) -> None:
    text = bytearray((pattern[0] / NAME).read_bytes())
    spot = data.draw(st.integers(0, len(text) - 1))
    text[spot : spot + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / NAME).write_bytes(text)
        if bytes(text) != (pattern[0] / NAME).read_bytes():
            with pytest.raises(CaptureError):
                open_capture(path)


def test_an_unfinished_one_with_odd_values_is_rebuilt_or_refused(pattern: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    meta = {**pattern[1], "state": "recording"}
    spots = [place for place in places(meta) if place[0] in ("rail", "clock", "journal", "drive", "conditions", "loss", "counts")]
    values = [0, -1, 1 << 31, 1 << 53, 1 << 61, -(1 << 61), None, 0.5, "x", [], {}]
    for number, place in enumerate(spots):
        path = tmp_path / str(number)
        shutil.copytree(pattern[0], path)
        value = values[int(random.integers(len(values)))]
        (path / NAME).write_text(json.dumps(changed(meta, place, lambda holder, key, value=value: holder.__setitem__(key, value))))
        holds(path)
        shutil.rmtree(path)
