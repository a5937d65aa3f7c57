"""Doorbells, queue entries, functions and resets as hosts and drives may have them: right or counted, alike in both fidelities."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.sim.rig.test_fidelity import compare
from tests.traffic.cases import SHARED
from tests.traffic.generate import generate
from tests.traffic.judge import judge, read
from tests.traffic.kinds import draw
from tests.traffic.rig import Playing

KINDS = (
    "two_doorbells",
    "byte_enables",
    "second_function",
    "sqe128",
    "cmb_sq",
    "cqe_halves",
    "prefetch",
    "fetch_ur",
    "sqe_halves",
    "poisoned",
    "reset_shn",
    "reset_flr",
    "reset_d3hot",
    "reset_nssr",
    "reset_hot",
    "reset_link",
    "reset_perst",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_right_or_counted_and_alike_in_both_fidelities(kind: str, tmp_path: Path) -> None:
    traffic = generate(draw(5, (f"one_queue+{kind}" if kind != "cmb_sq" else kind,), 60))
    trace = tmp_path / "one.wbt"
    trace.write_bytes(traffic.trace())
    found = judge(traffic.deeds, read(Playing(trace, []).stream()[0]))
    assert found.silent == 0 and found.overcounted == 0, found
    assert compare(trace)["caveat"] is None


def test_every_command_beyond_the_slots_counts_once(tmp_path: Path) -> None:
    """More than 1024 commands are in flight: each has a record, is in flight at the end, or is counted as lost."""
    traffic = generate(draw(5, ("deep",)))
    trace = tmp_path / "deep.wbt"
    trace.write_bytes(traffic.trace())
    found = judge(traffic.deeds, read(Playing(trace, []).stream()[0]))
    assert found.lost_counted > 0 and found.silent == 0 and found.overcounted == 0, found


@pytest.mark.skipif(not SHARED.exists(), reason="no ../shared")
@pytest.mark.parametrize("name", ["prp4k_64", "prp512_256", "ext_lba", "lba8k", "ats"])
def test_data_of_unknown_length_is_flagged_alike_in_both_fidelities(name: str, tmp_path: Path) -> None:
    """Nothing in these traces of another author shows the format of the namespace."""
    with tarfile.open(SHARED) as archive:
        archive.extract(f"./{name}.wbt", tmp_path)
    assert compare(tmp_path / f"{name}.wbt")["caveat"] is None
