"""The recorder with a rig that is plugged in again, was already capturing, or does not start."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattbell.capture import open_capture

from tests.e2e import stream_maker as maker
from tests.e2e.test_record import Bench, finished, wait_for

STREAM = b"".join(maker.stream(1000))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


def test_a_rig_that_lost_its_supply_is_set_up_again_as_it_was(bench: Bench, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    (tmp_path / "queues").write_text("# late attach\nNVME:BAR0 4096\n\nNVME:QUE CQ,0,8192,32\n")
    bench.feeder(STREAM, "--cut-at", str(len(STREAM) // 2), "--heard", str(heard))
    options = ["--decimation", "8", "--attach", str(tmp_path / "queues")]
    finished(bench.wattbell("record", "--out", str(tmp_path / "cap"), *options))
    lines = [line for line in heard.read_text().splitlines() if "?" not in line and "SENS:RUN" not in line]
    set_up = ["SENS:SWE:DEC 8", "NVME:BAR0 4096", "NVME:QUE CQ,0,8192,32", "INIT"]
    assert lines[: 2 * len(set_up)] == 2 * set_up


def test_each_start_has_an_identifier_of_its_own(bench: Bench, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    bench.feeder(STREAM, "--cut-at", str(len(STREAM) // 2), "--heard", str(heard))
    finished(bench.wattbell("record", "--out", str(tmp_path / "cap")))
    found = [int(line.split()[1]) for line in heard.read_text().splitlines() if line.startswith("SENS:RUN ")]
    assert len(found) == len(set(found)) == 2
    assert all(0 < number < 1 << 32 for number in found)


def test_a_rig_that_knows_no_identifiers_is_recorded(bench: Bench, tmp_path: Path) -> None:
    bench.feeder(STREAM, "--old")
    finished(bench.wattbell("record", "--out", str(tmp_path / "cap")))
    assert open_capture(tmp_path / "cap").state == "complete"


def test_a_rig_that_was_capturing_already(bench: Bench, tmp_path: Path) -> None:
    """The data sent before is missing, which is reported but is not a failure."""
    blocks = maker.stream(1000)
    bench.feeder(b"".join(blocks[200:]), "--running")
    out, _ = finished(bench.wattbell("record", "--out", str(tmp_path / "cap"), "--json"))
    told = json.loads(out)
    assert (told["state"], told["lossless"]) == ("incomplete", False)
    assert open_capture(tmp_path / "cap").gaps.collect()["reason"].to_list() == ["the rig was capturing before the recording began"]


def test_a_stream_that_ends_without_the_rigs_last_word(bench: Bench, tmp_path: Path) -> None:
    blocks = maker.stream(1000)
    bench.feeder(b"".join(blocks[:-2]))
    record = bench.wattbell("record", "--out", str(tmp_path / "cap"), "--json")
    journal = tmp_path / "cap" / "stream.wbs"
    wait_for(lambda: journal.exists() and journal.stat().st_size >= sum(map(len, blocks[:-2])), "all of the stream")
    record.send_signal(signal.SIGINT)
    out, _ = finished(record)
    told = json.loads(out)
    assert (told["state"], told["lossless"], told["commands"]) == ("incomplete", False, 1000 * maker.COMMANDS_A_BLOCK)
    assert open_capture(tmp_path / "cap").gaps.collect()["reason"].to_list() == ["the end was not received"]


def test_what_is_to_be_replaced_stays_when_the_rig_does_not_start(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "cap"
    bench.feeder(STREAM)
    finished(bench.wattbell("record", "--out", str(path)))
    bench.end()
    bench.feeder(STREAM, "--refuse", serial="NOSTART")
    again = bench.wattbell("record", "--out", str(path), "--rig", "NOSTART", "--force")
    _, err = again.communicate()
    assert again.returncode == 1
    assert "-200" in err
    capture = open_capture(path)
    assert capture.state == "complete"
    assert capture.commands.collect().height == 1000 * maker.COMMANDS_A_BLOCK
    assert not [found.name for found in tmp_path.iterdir() if found.name.startswith(".")]


def test_a_capture_that_is_being_recorded_is_not_replaced(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "cap"
    feeder = bench.feeder(STREAM, "--rate", "30000", serial="ONE")
    bench.feeder(STREAM, serial="TWO")
    first = bench.wattbell("record", "--out", str(path), "--rig", "ONE", "--json")
    wait_for(lambda: (path / "stream.wbs").exists() and (path / "stream.wbs").stat().st_size > 50_000, "the first recorder")
    second = bench.wattbell("record", "--out", str(path), "--rig", "TWO", "--force")
    _, err = second.communicate()
    assert second.returncode == 1
    assert "being recorded" in err
    feeder.send_signal(signal.SIGUSR1)  # the rest at once: until here the first must not have ended, however slow the second was
    told = json.loads(finished(first)[0])
    assert (told["state"], told["lossless"], told["commands"]) == ("complete", True, 1000 * maker.COMMANDS_A_BLOCK)
