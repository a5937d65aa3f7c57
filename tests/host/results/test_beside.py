"""Energies of two sides: differences and their intervals by hand, and refusals with their reasons."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from wattbell.results.beside import PairedEnergies, beside
from wattbell.results.compared import LOST, NO_U, Compared, compared, number_judged
from wattbell.results.energies import Energies


def energies(document: dict[str, Any]) -> Energies:
    return msgspec.convert(document, Energies)


def one(name: str, value: float | None, u: float | None = None, lost: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "energy_j": {"value": value, "u": u, "n_lost": lost}, **more}


REPEATS = 3
"""Runs of each side here, all alike: the judged difference is then larger than the instrument's uncertainty or not."""


def side(document: dict[str, Any]) -> list[Energies]:
    return [energies(document)] * REPEATS


def judged(pair: PairedEnergies) -> list[Compared]:
    """All rows but those that stood alone."""
    rows = (*pair.commands, *pair.states)
    return [compared(row, number_judged(rows)) for row in rows]


def commands(a: list[dict[str, Any]], b: list[dict[str, Any]], **absent: str) -> dict[str, Compared]:
    """The classes of one phase, side by side."""
    pair = beside(*(side({"phases": [{"name": "load", "classes": classes, **absent}]}) for classes in (a, b)))
    assert all(row.group == "load" for row in pair.commands)
    return {row.name: row for row in judged(pair)}


@pytest.mark.parametrize(
    ("b", "verdict"),
    [(3.4999, "unseen"), (3.5001, "higher"), (2.5001, "unseen"), (2.4999, "lower"), (3.0, "unseen")],
)
def test_what_differs_by_more_than_both_uncertainties_together_differs(b: float, verdict: str) -> None:
    row = commands([one("read 4 KiB", 3.0, 0.3)], [one("read 4 KiB", b, 0.4)])["read 4 KiB"]
    assert row.difference.value == pytest.approx(b - 3.0) and row.difference.u == pytest.approx(0.5), "3-4-5"
    assert row.verdict == verdict and row.unit == "J" and not row.why and row.runs == (REPEATS, REPEATS)


def test_one_run_of_each_side_gives_no_verdict() -> None:
    a, b = ([energies({"phases": [{"name": "load", "classes": [one("read", joules, 0.3)]}]})] for joules in (3.0, 30.0))
    (row,) = judged(beside(a, b))
    assert (row.verdict, row.at_least, row.seen_from) == ("no repeats", True, pytest.approx(0.3 * math.sqrt(2)))


def test_runs_of_a_side_are_taken_together_by_name_and_turn() -> None:
    def run(*joules: float) -> Energies:
        return energies({"phases": [{"name": "load", "classes": [one("read", each, 0.1)]} for each in joules]})

    rows = judged(beside([run(1.0, 10.0), run(1.2, 11.0), run(1.4, 12.0)], [run(5.0, 10.0), run(5.2), run(5.4, 12.0)]))
    assert [(row.group, row.runs, row.verdict) for row in rows] == [("load", (3, 3), "higher"), ("load #2", (3, 2), "no repeats")]
    assert rows[0].a.value == pytest.approx(1.2) and rows[0].difference.value == pytest.approx(4.0)
    assert "2 of 3 runs" in rows[1].why


def test_a_class_without_an_interval_has_a_difference_and_no_verdict() -> None:
    a, b = one("read", 3.0, note="a small part"), one("read", 30.0, 0.1)
    row = commands([a], [b])["read"]
    assert (row.verdict, row.difference.value, row.difference.u, row.why) == ("no verdict", 27.0, None, "A: a small part")
    assert commands([b], [a])["read"].why == "B: a small part"
    assert commands([a], [a])["read"].why == "both: a small part"
    assert commands([one("read", 3.0)], [one("read", 30.0)])["read"].why == NO_U


def test_under_lost_records_nothing_is_judged() -> None:
    row = commands([one("read", 3.0, 0.1)], [one("read", 30.0, 0.1, lost=2)])["read"]
    assert (row.verdict, row.why) == ("no verdict", LOST)


def test_classes_merged_in_one_run_alone_are_not_comparable() -> None:
    apart, merged = [one("read 4 KiB", 1.0, 0.1), one("write 4 KiB", 2.0, 0.1)], [one("write 4 KiB + read 4 KiB", 1.5, 0.1)]
    rows = commands(apart, merged)
    assert {row.verdict for row in rows.values()} == {"not comparable"}
    assert all(row.difference.value is None for row in rows.values()), "nor is a difference given"
    assert rows["read 4 KiB"].why == "B: one figure for write 4 KiB + read 4 KiB"
    assert rows["write 4 KiB + read 4 KiB"].why == "A: told apart, read 4 KiB; write 4 KiB"
    assert commands(merged, apart)["read 4 KiB"].why == "A: one figure for write 4 KiB + read 4 KiB"
    patterns = [one("read 4 KiB, random", 1.0, 0.1), one("read 4 KiB, sequential", 2.0, 0.1)]
    rows = commands(patterns, [one("read 4 KiB", 1.0, 0.1)])
    assert rows["read 4 KiB, random"].why == "B: one figure for read 4 KiB"
    assert rows["read 4 KiB"].why == "A: told apart, read 4 KiB, random; read 4 KiB, sequential"


def test_what_one_run_lacks_says_so() -> None:
    assert commands([one("flush", 1.0, 0.1)], [one("read", 1.0, 0.1)])["flush"].why == "B: no such command"
    assert commands([one("flush", 1.0, 0.1)], [], absent="no idle level")["flush"].why == "B: no idle level"
    row = commands([one("read", None, note="not resolved")], [one("read", 1.0, 0.1)])["read"]
    assert (row.verdict, row.why) == ("not comparable", "A: not resolved")


def test_classes_merged_in_both_are_compared_as_far_as_their_mix_is_one() -> None:
    """Worked out by hand: 60 to 40 in place of 50 to 50 moves a tenth of the commands; the rarer class, 40 %, costs at most 2.0 / 0.4."""
    name = "read 4 KiB + write 4 KiB"

    def row(a: dict[str, int], b: dict[str, int]) -> Compared:
        return commands([one(name, 1.0, 0.03, mix=a)], [one(name, 2.0, 0.04, mix=b)])[name]

    same = row({"read 4 KiB": 50, "write 4 KiB": 50}, {"read 4 KiB": 500, "write 4 KiB": 500})
    assert same.verdict == "higher" and same.difference.u == pytest.approx(0.05)
    moved = row({"read 4 KiB": 50, "write 4 KiB": 50}, {"read 4 KiB": 60, "write 4 KiB": 40})
    assert moved.difference.u == pytest.approx(0.05 + 0.1 / 0.4 * 2.0) and moved.verdict == "higher"
    far = row({"read 4 KiB": 50, "write 4 KiB": 50}, {"read 4 KiB": 90, "write 4 KiB": 10})
    assert far.verdict == "unseen" and far.difference.u == pytest.approx(0.05 + 0.4 / 0.1 * 2.0)
    assert "another mix" in row({}, {"read 4 KiB": 50, "write 4 KiB": 50}).why
    assert row({}, {}).verdict == "not comparable"


@pytest.mark.parametrize(
    ("a", "b", "said"), [("8", "7 to 8", False), ("1", "4", True), ("1 to 3", "4 to 8", True), ("1 + 2", "1 + 4", True), ("", "", False)]
)
def test_depths_that_have_nothing_in_common_are_told(a: str, b: str, said: bool) -> None:
    row = commands([one("read", 1.0, 0.1, depth=a)], [one("read", 9.0, 0.1, depth=b)])["read"]
    assert row.verdict == "higher" and (f"depth {a} in A, {b} in B" == row.why) is said


def test_phases_are_matched_by_name_and_turn() -> None:
    def run(*names: str) -> Energies:
        return energies({"phases": [{"name": name, "classes": [one("read", float(i + 1), 0.1)]} for i, name in enumerate(names)]})

    pair = beside([run("load", "rest", "load")], [run("load", "load", "other")], ("X", "Y"))
    assert [(row.group, row.a.value, row.b.value) for row in judged(pair)] == [("load", 1.0, 1.0), ("load #2", 3.0, 2.0)]
    assert pair.only == ("phases of X alone: rest", "phases of Y alone: other")


def states(*found: dict[str, Any], passages: list[dict[str, Any]] | None = None, absent: str = "") -> Energies:
    return energies({"states": list(found), "passages": passages or [], "states_absent": absent})


def state(label: str, *levels: tuple[str, float, float | None], share: float = 0.5, probability: float | None = 0.9) -> dict[str, Any]:
    powers = [{"link": link, "power_w": {"value": watt, "u": u}} for link, watt, u in levels]
    return {"label": label, "time_s": 1.0, "share": share, "probability": probability, "levels": powers}


def test_states_are_compared_with_the_link_in_one_state() -> None:
    a = states(state("PS0", ("L0", 0.6, 0.003), ("L1.2", 0.5, 0.003)), state("PS4", ("L1.2", 0.005, 0.0001), share=0.25))
    b = states(state("PS0", ("L0", 0.7, 0.004)), state("PS3", ("L1.2", 0.02, None), probability=None))
    rows = {(row.group, row.name): row for row in judged(beside([a] * REPEATS, [b] * REPEATS))}
    assert rows["PS0", "power, link in L0"].verdict == "higher"
    assert rows["PS0", "power, link in L0"].difference.u == pytest.approx(0.005)
    assert rows["PS0", "power, link in L1.2"].why == "B: never with the link in this state"
    assert rows["PS4", "power, link in L1.2"].why == "B: not found"
    assert rows["PS4", "share of time"].a.value == 25.0 and rows["PS4", "share of time"].b.value is None
    assert rows["PS3", "power, link in L1.2"].why == "A: not found"
    assert ("PS3", "probability") not in rows, "nothing was claimed"
    order = list(dict.fromkeys(group for group, _ in rows))
    assert order == ["PS0", "PS3", "PS4"], "what draws most comes first"
    (row, *_) = judged(beside([states(state("PS0", ("", 0.6, None)))] * REPEATS, [states(state("PS0", ("", 0.7, 0.001)))] * REPEATS))
    assert (row.name, row.verdict) == ("power", "no verdict") and "no interval" in row.why
    (row, *_) = judged(beside([a], [states(absent="the capture has no rail")]))
    assert row.why == "B: the capture has no rail"


def test_the_unknown_has_a_share_and_no_power() -> None:
    unknown = states(state("unknown", ("", 2.0, 0.1), probability=None), state("PS0", ("", 0.6, 0.1)))
    rows = judged(beside([unknown], [unknown]))
    assert [(row.group, row.name) for row in rows] == [
        ("PS0", "power"),
        ("PS0", "share of time"),
        ("PS0", "probability"),
        ("unknown", "share of time"),
    ]


def test_ways_out_of_sleep_are_compared_where_both_are_of_one_kind() -> None:
    def passage(note: str = "", **figures: tuple[float | None, float | None]) -> dict[str, Any]:
        return {"state": "PS4", "by": "read", "count": 3, "note": note, **{k: {"value": v, "u": u} for k, (v, u) in figures.items()}}

    own = "the command's own energy is in it"
    a = states(passages=[passage(exit_s=(0.05, 0.003), exit_j=(0.04, 0.003), break_even_s=(0.2, 0.01))])
    b = states(passages=[passage(own, exit_s=(0.06, 0.004), exit_j=(0.08, 0.004), break_even_s=(0.2, 0.01))])
    rows = {row.name: row for row in judged(beside([a] * REPEATS, [b] * REPEATS))}
    assert set(rows) == {"exit", "exit, energy", "break-even"}, "what neither has is not shown"
    assert rows["exit"].verdict == "higher" and rows["exit"].difference.u == pytest.approx(math.hypot(0.003, 0.004))
    assert (rows["exit, energy"].verdict, rows["exit, energy"].why) == ("not comparable", f"B: {own}")
    both = {row.name: row for row in judged(beside([b] * REPEATS, [b] * REPEATS))}
    assert (both["exit, energy"].verdict, both["exit, energy"].why) == ("unseen", own)
    none = {row.name: row for row in judged(beside([a], [states()]))}
    assert none["break-even"].why == "B: no wake-up from it by read"
