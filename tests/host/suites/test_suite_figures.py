"""Which commands count in the figures of a phase, counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from wattbell.measure.phase import measure
from wattbell.measure.source import Source
from wattbell.suites.drive import Drive
from wattbell.suites.manifest import load_suite
from wattbell.suites.outcome import Outcome
from wattbell.suites.results import Results
from wattbell_spec.wire import CommandFlag

US = 1_000
MS = 1_000_000


def test_failed_and_aborted_commands_are_in_no_figure_of_a_phase(builder: Any) -> None:
    """60 reads of 100 us, 20 failed ones and 10 aborted ones of 50 us, 5 Flushes of 100 us: 95 x 100 us with nothing between them."""
    builder.phase(1, MS, 50 * MS, "t")
    kinds: list[tuple[int, dict[str, int]]] = [(100, {})] * 60 + [(50, {"status": 0x281})] * 20
    kinds += [(50, {"flags": int(CommandFlag.ABORTED)})] * 10 + [(100, {"opcode": 0, "blocks": 0})] * 5
    for k, (took, more) in enumerate(kinds):
        builder.command(2 * MS + k * 100 * US, took * US, **more)
    builder.command(2 * MS - 100 * US, 100 * US, flags=int(CommandFlag.NO_SQE), opcode=0, blocks=0)
    builder.power(0, 1.0)
    source = Source(builder.write(60 * MS))
    measured = measure(source, source.phases["t"])
    point = measured.point({})
    assert (measured.count, measured.bytes) == (65, 60 * 4096)
    assert point.active_s == pytest.approx(9.5e-3)
    assert point["iops"].value == pytest.approx(65 / 9.5e-3)
    assert point["mb_per_s"].value == pytest.approx(60 * 4096 / 1e6 / 9.5e-3)
    assert point["mean_latency_s"].value == pytest.approx(100e-6)
    assert sorted(measured.latency_ticks(0).tolist()) == [100 * US] * 5
    counts, sums = measured.per_bin(3 * MS)
    # one that ends with a bin belongs to the next: of the reads, those at 0.1 .. 2.9 ms, 3.0 .. 5.9 ms, and 6.0 ms
    assert (counts.tolist(), sums.tolist()) == ([29, 30, 1], [29 * 4096, 30 * 4096, 4096])


@pytest.mark.parametrize(
    ("conditions", "said"),
    [(["empty"], "empty"), (["full", "full"], "full"), (["empty", "full"], "both"), (["empty", "written"], "test-data")],
)
def test_results_say_what_the_drive_held_and_add_up_what_was_lost(tmp_path: Path, conditions: list[str], said: str) -> None:
    made = load_suite("power-states")
    results = Results(tmp_path, made, Drive("p", 10**12, (0,), ()), 1.0, {"fidelity": "rtl"})
    for k, condition in enumerate(conditions, 1):
        outcome = Outcome()
        outcome.lost = {"commands": k}
        results.add(made.tests[0], condition, outcome, tmp_path / "captures", 1.0)
    assert results.data["condition"] == said
    assert results.data["lost"] == {"commands": sum(range(1, len(conditions) + 1))}
