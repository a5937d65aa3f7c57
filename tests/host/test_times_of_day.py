"""Times of day over the end of daylight saving time and over a leap second. The numbers come from `date -u -d ... +%s`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from typer.testing import CliRunner
from wattbell.capture import CaptureWriter, open_capture
from wattbell.capture import writer as writer_module
from wattbell.cli.app import app
from wattbell.clocks.host import in_utc, instant_s
from wattbell.results import read_run

from tests.faults.faultstream import make
from tests.host.results import samples

IN_ORDER = (
    ("2016-12-31T23:59:59+00:00", 1483228799, "2016-12-31 23:59:59Z"),
    ("2016-12-31T23:59:60Z", 1483228800, "2016-12-31 23:59:60Z"),
    ("2017-01-01T00:59:60+01:00", 1483228800, "2017-01-01 00:00:00Z"),
    ("2017-01-01T00:00:01Z", 1483228801, "2017-01-01 00:00:01Z"),
    ("2026-04-05T01:45:00+11:00", 1775313900, "2026-04-04 14:45:00Z"),  # Lord Howe: half an hour comes twice
    ("2026-04-05T01:45:00+10:30", 1775315700, "2026-04-04 15:15:00Z"),
    ("2026-10-25T02:30:00+02:00", 1792888200, "2026-10-25 00:30:00Z"),  # Berlin: an hour comes twice
    ("2026-10-25T02:10:00+01:00", 1792890600, "2026-10-25 01:10:00Z"),
)
"""(as a document has it, s since 1970, as it is shown), oldest first."""


@pytest.mark.parametrize(("text", "seconds", "shown"), IN_ORDER)
def test_a_time_is_an_instant(text: str, seconds: int, shown: str) -> None:
    assert instant_s(text) == seconds and in_utc(text) == shown


def test_what_is_no_instant_says_so() -> None:
    assert in_utc("2026-10-25T02:30:00") == "2026-10-25 02:30:00 (no time zone)"
    assert in_utc("yesterday") == "yesterday" and instant_s("yesterday") is None and in_utc("") == ""


@pytest.fixture(params=["Europe/Berlin", "Australia/Lord_Howe", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_runs_are_listed_in_the_order_of_their_instants_in_any_zone(zone: str, tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    order = np.random.default_rng(7).permutation(len(IN_ORDER))
    for number in order:
        folder = samples.write_results(tmp_path / f"run{number}", started_utc=IN_ORDER[number][0])
        document = json.loads((folder / "results.json").read_text())
        document["drive"]["serial"] = f"S{number}"
        (folder / "results.json").write_text(json.dumps(document))
    command = ["results", "import", *(str(tmp_path / f"run{number}") for number in order), "--store", str(store)]
    assert CliRunner().invoke(app, command).exit_code == 0
    listed = json.loads(CliRunner().invoke(app, ["results", "list", "--json", "--store", str(store)]).output)
    found = [instant_s(entry["started_utc"]) for entry in listed]
    assert found == [seconds for _, seconds, _ in IN_ORDER]
    said = CliRunner().invoke(app, ["results", "list", "--wide", "--store", str(store)]).output
    assert sorted(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", said)) == sorted(shown for *_, shown in IN_ORDER)
    assert read_run(tmp_path / "run6").started == "2026-10-25 00:30:00Z"


def recorded(place: Path, now_ns: Any) -> list[str]:
    """Notes of a recording during which the host's clock was as given."""
    with patch.object(writer_module, "now_ns", now_ns), CaptureWriter(place, lba_size_bytes=512) as writer:
        writer.feed(make(np.random.default_rng(3)))
    return [note for note in open_capture(place).meta["conditions"]["notes"] if "clock" in note]


@pytest.mark.parametrize(("step_s", "says"), [(-1.0, "back by 1.0 s"), (3600.0, "forward by 3600.0 s"), (0.01, None)])
def test_a_step_of_the_hosts_clock_is_told(step_s: float, says: str | None, tmp_path: Path) -> None:
    began = time.time_ns()

    def stepped() -> int:
        """The first reading is before the step."""
        nonlocal calls
        calls += 1
        return time.time_ns() + (int(step_s * 1e9) if calls > 1 else 0)

    calls = 0
    notes = recorded(tmp_path / "capture", stepped)
    assert says in notes[0] if says else notes == [], notes
    anchor = open_capture(tmp_path / "capture").meta["clock"]["utc_anchor"]
    assert began <= anchor["utc_ns"] <= time.time_ns(), "times count on from the beginning"
    assert anchor["utc"].endswith("Z")


def test_a_leap_second_of_the_hosts_clock_is_told(tmp_path: Path) -> None:
    with patch.object(writer_module, "near_leap_second", lambda: True):
        (note,) = recorded(tmp_path / "capture", time.time_ns)
    assert "leap second" in note
