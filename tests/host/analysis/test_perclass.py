"""Statements on classes of commands that are separated, and when there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from wattbell.analysis.commandclass import CommandClass
from wattbell.analysis.energybins import POWERS_W
from wattbell.analysis.energyfit import PhaseLoad
from wattbell.analysis.perclass import BY_HOST, MERGED, NOT_TOLD_APART, TOO_SMALL, EnergyWindow, separate
from wattbell.measure.figure import Figure

READ, WRITE = "read 4 KiB, random", "write 4 KiB, random"
MIXES = ((50_000, 0), (90_000, 0), (0, 20_000), (0, 60_000), (50_000, 20_000), (9_000, 40_000), (90_000, 1_000))


def windows() -> list[EnergyWindow]:
    """A phase of each mix: 10 uJ a read, 40 uJ a write, 0.8 W for the controller."""
    out = []
    for index, (reads, writes) in enumerate(MIXES):
        counts = {name: n for name, n in ((READ, reads), (WRITE, writes)) if n}
        busy_s = 0.3 + 0.1 * index
        shared = {name: busy_s * n / (reads + writes) for name, n in counts.items()}
        above = reads * 10e-6 + writes * 40e-6 + 0.8 * busy_s
        after = {WRITE: 1.0} if writes else {}
        load = PhaseLoad(counts, shared, above, 1e-4, np.zeros(len(POWERS_W)) if writes else None, after)
        names = {name: name.removesuffix(", random") for name in counts}
        classes = tuple(CommandClass(names[name], np.ones(n, np.bool_), n, "random", "1") for name, n in counts.items())
        one = Figure(above / (reads + writes), 1e-8, "J", 0, {"idle_w": 0.3})
        result = {"method": "accounting: all", "classes": {" + ".join(names.values()): one}, "shares": {"absent": "not of interest"}}
        out.append(EnergyWindow(result, load, classes, 1e-4, 1e-3))  # type: ignore[arg-type]
    return out


def test_classes_get_figures_and_intervals_but_for_a_small_part() -> None:
    made = windows()
    separate(made)
    read, write = (made[4].result["classes"][name] for name in ("read 4 KiB", "write 4 KiB"))
    assert read.u and write.u and abs(write.known - (40e-6 + 0.8 * 0.7 / 70_000)) < write.u
    small = made[6].result["classes"]["write 4 KiB"]
    assert small.value is not None and small.u is None and TOO_SMALL in str(small.conditions["note"])
    assert made[6].result["classes"]["read 4 KiB"].u


def test_by_a_hosts_commands_no_interval_is_given_and_it_says_why() -> None:
    made = [replace(window, by_host=True) for window in windows()]
    separate(made)
    for figure in made[4].result["classes"].values():
        assert figure.value is not None and figure.u is None and BY_HOST in str(figure.conditions["note"])
    assert made[0].result["classes"]["read 4 KiB"].u  # accounting needs no time in flight


def test_a_phase_whose_rail_has_a_hole_is_one_figure_and_does_not_take_part() -> None:
    made = windows()
    load = made[4].load
    assert load is not None
    made[4] = replace(made[4], load=replace(load, above_j=2 * load.above_j, after_s=np.full(len(POWERS_W), np.nan)))
    separate(made)
    (one,) = made[4].result["classes"].values()
    assert one.conditions["note"] == NOT_TOLD_APART
    assert len(made[5].result["classes"]) == 2


def test_classes_that_never_part_are_one_by_name_without_interval() -> None:
    """Flushes come with every tenth write: no phase shows the cost of either."""
    flush = "flush, random"
    made = []
    for window in windows():
        load = window.load
        assert load is not None
        writes = load.counts.get(WRITE, 0)
        if not writes:
            made.append(window)
            continue
        counts, shared = {**load.counts, flush: writes // 10}, {**load.shared_s, flush: load.shared_s[WRITE] / 10}
        classes = (*window.classes, CommandClass("flush", np.ones(writes // 10, np.bool_), writes // 10, "random", "1"))
        total = sum(counts.values())
        whole = Figure(load.above_j / total, 1e-8, "J", 0, {"idle_w": 0.3})
        result = {**window.result, "classes": {" + ".join(one.name for one in classes): whole}}
        made.append(replace(window, load=replace(load, counts=counts, shared_s=shared), classes=classes, result=result))
    separate(made)
    found = made[4].result["classes"]
    assert set(found) == {"read 4 KiB", "write 4 KiB + flush"} or set(found) == {"read 4 KiB", "flush + write 4 KiB"}
    (both,) = [figure for name, figure in found.items() if "flush" in name]
    assert (
        both.value is not None
        and both.u is None
        and MERGED in str(both.conditions["note"])
        and NOT_TOLD_APART in str(both.conditions["note"])
    )
    assert found["read 4 KiB"].u
