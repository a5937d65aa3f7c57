"""`wattbell check`: any change of any file is detected, the journal's data are rebuilt, and figures report the losses."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.analysis import analyze, figures_of
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture.check import Health, check
from wattbell.capture.hashes import names
from wattbell.capture.meta import NAME, save, seal
from wattbell.capture.repair import repair
from wattbell.cli.info import info
from wattbell.errors import CaptureError, WattbellError
from wattbell.present.pages import write_report

from tests.e2e import stream_maker as maker
from tests.host.fuzzing import examples, multiplier, seeds

STREAM = b"".join(maker.stream(60))
TABLES = ("commands", "rail_blocks", "events", "gaps", "tlps", "status", "link")


def make(path: Path, keep_stream: bool) -> Path:
    with CaptureWriter(path, conditions={"virtual": True}, keep_stream=keep_stream) as writer:
        writer.feed(STREAM)
        (path / "workload").mkdir()
        (path / "workload" / "fio.json").write_text('{"jobs": []}')
    return path


@pytest.fixture(scope="module")
def patterns() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "kept", True)
        make(Path(folder) / "bare", False)
        yield Path(folder)


@pytest.fixture
def kept(patterns: Path, tmp_path: Path) -> Path:
    """A capture with its journal."""
    shutil.copytree(patterns / "kept", tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def bare(patterns: Path, tmp_path: Path) -> Path:
    """A capture without its journal."""
    shutil.copytree(patterns / "bare", tmp_path / "bare")
    return tmp_path / "bare"


def flip(path: Path, bit: int) -> None:
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def bad(path: Path) -> list[str]:
    return [file.name for file in check(path).damaged]


def older(path: Path) -> Path:
    """The capture as it was before there were hashes."""
    meta = json.loads((path / NAME).read_text())
    (path / NAME).write_text(json.dumps({key: value for key, value in meta.items() if key not in ("files", "self")}))
    return path


def test_every_file_has_its_hash_and_an_untouched_capture_is_whole(kept: Path, bare: Path) -> None:
    for path in (kept, bare):
        found = check(path)
        assert found.whole and found.sealed
        assert {file.health for file in found.files} == {Health.whole}
        present = {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}
        assert {file.name for file in found.files} == present
    assert (kept / "stream.wbs").exists() and not (bare / "stream.wbs").exists()


def test_one_bit_anywhere_in_any_file_is_seen(kept: Path) -> None:
    generator = random.Random(19)
    for name in (NAME, *names(kept)):
        size = (kept / name).stat().st_size
        for _ in seeds(25):
            bit = generator.randrange(8 * size)
            flip(kept / name, bit)
            try:
                found = bad(kept)
                assert found == [name] or (name == NAME and found[0] == NAME), (name, bit)  # a hash it states may be the damaged one
            except CaptureError as error:  # the format itself
                assert name == NAME and "format" in str(error), (name, bit)
            flip(kept / name, bit)
    assert check(kept).whole


def test_every_bit_of_meta_json_is_seen_when_the_capture_is_opened(patterns: Path, tmp_path: Path) -> None:
    text = (patterns / "bare" / NAME).read_bytes()
    for position in range(0, 8 * len(text), 1 if multiplier() > 1 else 7):
        changed = bytearray(text)
        changed[position // 8] ^= 1 << position % 8
        (tmp_path / NAME).write_bytes(changed)
        with pytest.raises(CaptureError, match=r"meta\.json|format"):
            open_capture(tmp_path)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_with_one_bit_flipped_is_not_read(kept: Path, table: str) -> None:
    flip(kept / f"{table}.parquet", 8 * 60)
    capture = open_capture(kept)
    for _ in range(2):
        with pytest.raises(CaptureError, match=rf"{table}\.parquet is damaged.*wattbell check"):
            capture.table(table)
    assert open_capture(kept, verify=False).meta["state"] == "complete"


def test_a_waveform_with_one_bit_flipped_or_cut_is_not_read(kept: Path) -> None:
    flip(kept / "rail.jls", 8 * 40_000)
    with pytest.raises(CaptureError, match=r"rail\.jls is damaged"):
        _ = open_capture(kept).rail
    os.truncate(kept / "rail.jls", (kept / "rail.jls").stat().st_size // 2)
    with pytest.raises(CaptureError, match=r"rail\.jls is missing or damaged.*wattbell check"):
        open_capture(kept)


def test_a_waveform_of_other_length_than_recorded_is_not_read_without_hashes_either(bare: Path, tmp_path: Path) -> None:
    short = tmp_path / "short"
    with CaptureWriter(short) as writer:
        writer.feed(b"".join(maker.stream(20)))
    shutil.copy(short / "rail.jls", older(bare) / "rail.jls")
    with pytest.raises(CaptureError, match="2000 samples where 6000"):
        analyze(open_capture(bare))
    assert bad(bare) == ["rail.jls"]


@pytest.mark.parametrize("damage", [lambda p: flip(p, 800), lambda p: p.unlink(), lambda p: os.truncate(p, 5)], ids=["flip", "gone", "cut"])
@pytest.mark.parametrize("name", [*(f"{table}.parquet" for table in TABLES), "rail.jls"])
def test_what_the_journal_has_is_rebuilt(kept: Path, patterns: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(kept / name)
    found = check(kept)
    assert [(file.name, found.remedy(file).name) for file in found.damaged] == [(name, "rebuild")]
    repair(found)
    assert check(kept).whole
    again, before = open_capture(kept), open_capture(patterns / "kept")
    assert again.state == before.state
    for table in TABLES:
        assert again.table(table).collect().equals(before.table(table).collect()), table
    assert again.rail is not None and before.rail is not None
    assert again.rail.power().tobytes() == before.rail.power().tobytes()
    assert again.meta["loss"] == before.meta["loss"]
    assert any(name in note for note in again.meta["conditions"]["notes"])


@pytest.mark.parametrize("name", [*(f"{table}.parquet" for table in TABLES), "rail.jls", "workload/fio.json"])
def test_without_a_journal_the_rest_is_usable_and_says_what_is_lost(bare: Path, name: str) -> None:
    before = (bare / name).read_bytes()
    flip(bare / name, 50)
    found = check(bare)
    assert [(file.name, found.remedy(file).name) for file in found.damaged] == [(name, "set_aside")]
    repair(found)
    again = check(bare)
    assert again.whole and again.aside == (f"{name}.damaged",)
    assert len((bare / f"{name}.damaged").read_bytes()) == len(before)
    result = analyze(open_capture(bare))
    assert any(name in warning for warning in result["warnings"])
    if name == "workload/fio.json":
        return
    capture = open_capture(bare)
    assert capture.meta["loss"]["lossless"] is False
    (gap,) = capture.gaps.collect().filter(pl.col("reason").str.contains(name, literal=True)).rows(named=True)
    left = [pl.read_parquet(path) for path in bare.glob("*.parquet") if path.name != "gaps.parquet"]
    ticks = [frame[column] for frame in left for column in ("cqe_tick", "first_tick", "tick") if column in frame.columns and len(frame)]
    # it is unknown from what time of the capture they were
    assert gap["first_tick"] <= min(column.min() for column in ticks) < max(column.max() for column in ticks) <= gap["last_tick"]
    if name == "commands.parquet":
        assert result["loss"]["commands"] == 600
    if name == "rail.jls":
        assert "absent" in result["power"] and result["loss"]["rail_samples"] == 6000
    if name == "gaps.parquet":
        assert result["rates"]["iops"]["lost"] and result["power"]["mean_w"]["lost"]


def test_a_damaged_journal_is_not_rebuilt_from(kept: Path) -> None:
    flip(kept / "stream.wbs", 8 * 30_000)
    flip(kept / "commands.parquet", 800)
    found = check(kept)
    assert {file.name: found.remedy(file).name for file in found.damaged} == {"commands.parquet": "set_aside", "stream.wbs": "set_aside"}
    repair(found)
    assert check(kept).whole
    assert analyze(open_capture(kept))["loss"]["commands"] == 600


def test_a_changed_meta_is_taken_with_a_note_or_sealed_by_who_changed_it(bare: Path, patterns: Path) -> None:
    text = (bare / NAME).read_text().replace('"virtual": true', '"virtual": null')
    (bare / NAME).write_text(text)
    with pytest.raises(CaptureError, match="not as it was written"):
        open_capture(bare)
    assert bad(bare) == [NAME]
    repair(check(bare))
    assert check(bare).whole
    assert any("meta.json was changed" in warning for warning in analyze(open_capture(bare))["warnings"])


def test_a_lost_meta_is_made_anew_from_the_journal_only(kept: Path, bare: Path) -> None:
    for path in (kept, bare):
        (path / NAME).write_text('{"form')
    repair(check(kept))
    capture = open_capture(kept)
    assert capture.commands.select(pl.len()).collect().item() == 600
    assert capture.meta["conditions"]["virtual"] is None
    assert any("meta.json was lost" in warning for warning in analyze(capture)["warnings"])
    with pytest.raises(CaptureError, match="restore meta.json from a copy"):
        repair(check(bare))


def test_a_dead_recorders_capture_is_unfinished_and_a_living_ones_left_alone(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c")
    writer.feed(STREAM)
    with pytest.raises(CaptureError, match="still being recorded"):
        check(tmp_path / "c")
    writer.abandon()
    found = check(tmp_path / "c")
    assert found.unfinished and not found.whole
    repair(found)
    assert check(tmp_path / "c").whole
    assert open_capture(tmp_path / "c").state == "recovered"


def test_an_older_capture_opens_and_says_that_it_has_no_hashes(bare: Path) -> None:
    found = check(older(bare))
    assert found.whole and not found.sealed
    assert {file.health for file in found.files} == {Health.no_hash}
    assert analyze(open_capture(bare))["commands"]["all"]["count"] == 600
    os.truncate(bare / "events.parquet", 700)
    assert bad(bare) == ["events.parquet"]


def test_a_file_put_there_later_is_no_damage_and_sealed_when_told(bare: Path) -> None:
    (bare / "workload" / "notes.txt").write_text("a")
    (bare / "thesis.tex").write_text("not the capture's")
    later = {file.name: file.health for file in check(bare).files}
    assert later["workload/notes.txt"] is Health.no_hash and "thesis.tex" not in later
    seal(bare)
    (bare / "workload" / "notes.txt").write_text("b")
    assert bad(bare) == ["workload/notes.txt"]


def test_nothing_outside_the_capture_is_read(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x" * 12)
    meta = json.loads((bare / NAME).read_text())
    (bare / "workload" / "fio.json").unlink()
    (bare / "workload" / "fio.json").symlink_to(tmp_path / "secret")
    save(bare, meta)
    with pytest.raises(CaptureError, match=r"fio\.json is missing or damaged"):
        open_capture(bare)
    assert bad(bare) == ["workload/fio.json"]
    repair(check(bare))
    assert (tmp_path / "secret").read_text() == "x" * 12


def read_all(path: Path) -> None:
    info(path, None, False)
    capture = open_capture(path)
    write_report(capture, figures_of(capture), path / "report.html", plots=False)


def table_of_nonsense(path: Path) -> None:
    kinds = {name: pa.array(["x"]) for name in pq.read_schema(path).names}
    pq.write_table(pa.table(kinds), path)


@examples(60)
@given(st.data())
def test_damaged_files_of_an_older_capture_give_a_result_or_one_error(patterns: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c"
        shutil.copytree(patterns / "bare", path)
        older(path)
        name = data.draw(st.sampled_from([f"{table}.parquet" for table in TABLES] + ["rail.jls", "workload/fio.json"]))
        size = (path / name).stat().st_size
        kind = data.draw(st.sampled_from(["flip", "cut", "empty", "bytes", "other", "nonsense"]))
        if kind == "flip":
            for _ in range(data.draw(st.integers(1, 4))):
                flip(path / name, data.draw(st.integers(0, 8 * size - 1)))
        elif kind == "cut":
            os.truncate(path / name, data.draw(st.integers(0, size - 1)))
        elif kind == "empty":
            (path / name).write_bytes(b"")
        elif kind == "bytes":
            (path / name).write_bytes(data.draw(st.binary(max_size=200)))
        elif kind == "other":
            shutil.copy(path / data.draw(st.sampled_from([f"{table}.parquet" for table in TABLES])), path / "swap")
            os.replace(path / "swap", path / name)
        elif name.endswith(".parquet"):
            table_of_nonsense(path / name)
        try:
            read_all(path)
        except WattbellError as error:
            assert str(error)
        check(path)


@pytest.fixture
def wattbell(tmp_path: Path) -> Any:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "COLUMNS": "160"}
        env.pop("WATTBELL_DEBUG", None)
        command = [sys.executable, "-m", "wattbell", "check", *map(str, arguments)]
        return subprocess.run(command, env=env, text=True, capture_output=True, check=False)

    return run


def test_the_command(wattbell: Any, kept: Path, bare: Path) -> None:
    done = wattbell(kept)
    assert (done.returncode, "Whole" in done.stderr) == (0, True)
    for path in (kept, bare):
        flip(path / "commands.parquet", 800)
    done = wattbell(kept, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["whole"]) == (1, False)
    assert [(f["file"], f["remedy"]) for f in found["files"] if f["health"] == "damaged"] == [("commands.parquet", "rebuild")]
    assert "--repair rebuilds commands.parquet" in wattbell(kept).stderr
    done = wattbell(kept, "--repair")
    assert (done.returncode, "rebuilt from the journal" in done.stderr) == (0, True)
    done = wattbell(bare)
    assert done.returncode == 1
    assert "Nothing to rebuild commands.parquet from; usable: meta.json, " in done.stderr
    done = wattbell(bare, "--repair", "--json")
    assert (done.returncode, json.loads(done.stdout)["set_aside"]) == (0, ["commands.parquet.damaged"])
    assert "set aside: commands.parquet.damaged" in wattbell(bare).stderr
    assert "no hashes" in wattbell(older(bare)).stderr.lower()


def test_the_command_seals_what_was_edited_and_refuses_both(wattbell: Any, bare: Path, tmp_path: Path) -> None:
    (bare / NAME).write_text((bare / NAME).read_text().replace('"virtual": true', '"virtual": false'))
    done = wattbell(bare)
    assert done.returncode == 1 and "--seal accepts it as it is" in done.stderr
    assert wattbell(bare, "--seal").returncode == 0
    assert open_capture(bare).meta["conditions"]["virtual"] is False
    assert wattbell(bare, "--seal", "--repair").returncode == 2
    done = wattbell(tmp_path / "nothing")
    assert done.returncode == 1 and done.stderr.startswith("error:") and len(done.stderr.splitlines()) == 1
