"""Suite pages: one file, true to the results, honest about scale, models and loss."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from wattbell.errors import ResultsError
from wattbell.present.chart import Bars, Chart, Panel, spread
from wattbell.present.colours import BACKGROUND
from wattbell.present.pages.suite import comparable, write_suite_page
from wattbell.present.suite.entities import entities, mixtures, named, stamp
from wattbell.present.suite.power import features
from wattbell.present.suite.powerstates import declared_and_measured
from wattbell.present.suite.presentation import SuitePresentation
from wattbell.present.table import Cell, Table
from wattbell.results import Store, read_run


@pytest.fixture(scope="module")
def folders(samples: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("runs")
    return {
        "660p": samples.write_results(base / "660p"),
        "p1": samples.write_results(base / "p1", "crucial-p1-1tb", lost=12),
        "900p": samples.write_results(base / "900p", "intel-900p-280gb"),
        "scaled": samples.write_results(base / "scaled", scale=0.01),
        "600p": samples.write_consistency(base / "600p"),
        "600p-2014": samples.write_consistency(base / "600p-2014", suite="consistency-2014"),
    }


def chart(made: Any, key: str) -> Any:
    return next(b for s in made for b in s.blocks if isinstance(b, (Bars, Chart)) and b.key == key)


def test_one_file_that_needs_no_other(folders: dict[str, Path], tmp_path: Path) -> None:
    runs = [read_run(folders[k]) for k in ("660p", "p1", "600p")]
    html, *_ = write_suite_page(runs, tmp_path / "out.html", plots=False)
    text = html.read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r'(src|href)\s*=\s*"?[^"#]', own), "nothing is loaded from elsewhere"
    payload = re.search(r"<script>const P=(.*?);\n", text, flags=re.DOTALL)
    assert payload
    plots = json.loads(payload[1].replace("<\\/", "</"))
    for name in plots:
        assert f'id="{name}"' in own, "every plot has its place"
    assert "DATA LOST" in own and "12 commands" in own
    assert "MODEL on the virtual rig: intel-660p-1tb, crucial-p1-1tb" in own
    assert "SCALED" not in own
    every = own[own.index("<summary>Every figure") :]
    assert "<td class=l>QD32</td>" in every and "<td class=l>30 % writes</td>" in every
    assert "mean latency, µs</th>" in every and "energy, J</th>" in every


def test_a_distribution_of_one_line_is_said_instead_of_drawn(folders: dict[str, Path], tmp_path: Path) -> None:
    """Ten wake-ups of a model that always takes equally long."""
    folder = tmp_path / "alike"
    shutil.copytree(folders["660p"], folder)
    assert chart(SuitePresentation([read_run(folder)]).sections(), "anandtech-2018-idle-wake-up-distribution")
    series = pl.read_parquet(folder / "series/idle-wake-up.parquet")
    series.with_columns(latency_s=pl.lit(0.055) + pl.int_range(pl.len()) * 1e-9).write_parquet(folder / "series/idle-wake-up.parquet")
    made = SuitePresentation([read_run(folder)]).sections()
    assert not [b for s in made for b in s.blocks if isinstance(b, Chart) and b.key.endswith("wake-up-distribution")]
    assert any("too alike (within 1%) for a distribution" in s.note for s in made)


def test_what_is_drawn_is_what_was_measured(folders: dict[str, Path]) -> None:
    runs = [read_run(folders[k]) for k in ("660p", "p1")]
    made = SuitePresentation(runs).sections()
    depths = chart(made, "anandtech-2018-sustained-random-read-by-qd")
    rate, power, efficiency = depths.panels
    full = next(line for line in rate.lines if line.label == "Crucial P1 1TB (model), full")
    test = runs[1].test("sustained-random-read", "full")
    assert test is not None
    assert [q.value for _, q in test.over("qd", "mb_per_s")] == full.y
    assert full.x == [1, 2, 4, 8, 16, 32] and full.dashed and full.lost
    assert (rate.y.title, power.y.title, efficiency.y.title) == ("rate, MB/s", "power, W", "bytes per joule, MB/J")
    bars = chart(made, "anandtech-2018-idle-settled-second-half-of-the-idle-time-w")
    assert [b.label for b in bars.bars] == ["Intel SSD 660p 1TB (model)", "Crucial P1 1TB (model)"], "the least power first"
    both = chart(made, "anandtech-2018-sustained-random-read-mean-of-qd1-2-4-mb-s-w")
    assert "mean of ratios" in both.title and all(b.remark.startswith("ratio of means: ") for b in both.bars)
    (fill,) = [p for p in chart(made, "anandtech-2018-whole-drive-fill-rate").panels if p.title == "Intel SSD 660p 1TB (model)"]
    assert (fill.marks[0].x, fill.marks[0].u) == (140.0, 1.2)


def test_views_of_consistency(folders: dict[str, Path]) -> None:
    made = SuitePresentation([read_run(folders["600p"]), read_run(folders["600p-2014"])]).sections()
    last = chart(made, "consistency-2016-last-400-s")
    assert all(p.x.span == (3199.0, 3599.0) and not p.y.log for p in last.panels)
    for key, log in (("steady-log", True), ("steady-linear", False)):
        assert all(p.x.span[0] == 1400.0 and p.y.log is log for p in chart(made, f"consistency-2014-{key}").panels)
    assert all(p.x.span[0] == 0.0 and p.y.log for p in chart(made, "consistency-2014-whole-run-log").panels)


def test_views_of_scaled_runs_say_their_own_times(samples: Any, tmp_path: Path) -> None:
    short = read_run(samples.write_consistency(tmp_path / "short", scale=0.01))
    whole = read_run(samples.write_consistency(tmp_path / "whole"))
    titles = {
        len(runs): chart(SuitePresentation(runs).sections(), "consistency-2016-last-400-s").title for runs in ([short], [short, whole])
    }
    assert titles[1].endswith("last 4 s") and titles[2].endswith("last 400 s times the scale")


def test_power_states_declared_beside_measured(samples: Any, tmp_path: Path) -> None:
    sleeping = {"settled_w": samples.q(0.01), "exit_s": samples.q(0.0548), "entry_s": samples.q(0.0051), "entry_j": None}
    awake = {"idle_w": samples.q(0.6), "random_read_mb_per_s": samples.q(470.0), "random_read_w": samples.q(5.0)}
    points = [{"x": {"ps": 4}, **sleeping}, {"x": {"ps": 0}, **awake}]
    test = {"test": "non-operational", "name": "N", "condition": "test-data", "points": points, "scores": []}
    made = SuitePresentation([read_run(samples.write_results(tmp_path / "ps", suite="power-states", tests=[test]))]).sections()
    tables = {b.title.partition(": ")[2]: b for s in made for b in s.blocks if isinstance(b, Table) and ": " in b.title}

    def row(title: str, i: int = 0) -> list[str]:
        return [cell if isinstance(cell, str) else cell.text for cell in tables[title].rows[i]]

    assert row("NVMe power states, as declared", 4) == ["PS 4", "4.00 mW", "idle", "5.00 ms", "9.00 ms"]
    active, idle = "active states, measured", "idle states, declared and measured"
    assert row(active) == ["PS 0", "4.00 W", "600.0(12) mW", "470.00(94) MB/s", "5.000(10) W ×1.25"]
    assert row(idle)[:7] == ["PS 4", "4.00 mW", "10.000(20) mW ×2.50", "5.00 ms", "5.100(10) ms ×1.02", "9.00 ms", "54.80(11) ms ×6.09"]
    assert set(row(idle)[7:]) == {"–"}, "what was not measured stays empty"
    assert [len(t.rows[0]) for t in tables.values()] == [len(t.columns) for t in tables.values()]
    assert (len(tables[active].rows), len(tables[idle].rows)) == (1, 1), "only states that were measured"


@pytest.mark.parametrize(
    ("watts", "relative", "longest_ms", "shown"),
    [
        # 4 W, 4 mW, 5 ms and 9 ms are declared
        ((3.9, 0.0039), 0.002, (4.9, 8.9), {"MP": ("pass", "good"), "ENLAT": ("pass", "good"), "EXLAT": ("pass", "good")}),
        ((4.1, 0.0041), 0.002, (5.2, 9.2), {"MP": ("fail", "bad"), "ENLAT": ("fail", "bad"), "EXLAT": ("fail", "bad")}),
        (
            (4.8, 0.0048),
            0.5,
            (5.05, 9.05),
            {
                "MP": ("conditional fail", "muted"),
                "ENLAT": ("conditional fail", "muted"),
                "EXLAT": ("conditional fail", "muted"),
            },
        ),
    ],
)
def test_one_judge_gives_words_and_colours(
    samples: Any, tmp_path: Path, watts: tuple[float, float], relative: float, longest_ms: tuple[float, float], shown: dict[str, Any]
) -> None:
    """A factor of 1.03 is red where it is a fail, and one of 1.2 is not where nothing is decided. The mean latency is 1 ms less."""
    times = {
        f"{prefix}{name}": samples.q(ms * 1e-3 - (0 if prefix else 1e-3), 1e-5)
        for name, ms in zip(("entry_s", "exit_s"), longest_ms, strict=True)
        for prefix in ("", "longest_")
    }
    points = [
        {"x": {"ps": 0}, "sequential_read_w": samples.q(watts[0], relative)},
        {"x": {"ps": 4}, "settled_w": samples.q(watts[1], relative), **times},
    ]
    test = {"test": "non-operational", "name": "N", "condition": "test-data", "points": points, "scores": []}
    run = read_run(samples.write_results(tmp_path / "ps", suite="power-states", tests=[test]))
    words = {}
    for row in declared_and_measured(run, [run]).rows:
        verdict = row[4]
        assert isinstance(verdict, Cell)
        words.setdefault(str(row[1]), set()).add((verdict.spans[0].text, verdict.spans[0].tone))
    assert words == {name: {one} for name, one in shown.items()}
    tables = [block for block in features([run]).blocks if isinstance(block, Table) and "states, " in block.title]
    found = {str(row[0]): row for table in tables for row in table.rows}
    failed = shown["MP"][0] == "fail"
    for state, many in (("PS 0", 1 if failed else 0), ("PS 4", 3)):
        spans = [span for entry in found[state] if isinstance(entry, Cell) for span in entry.spans if span.text.startswith("×")]
        assert len(spans) == many and {span.tone for span in spans} <= {"bad" if failed else "muted"}, state


def test_latencies_of_an_earlier_version_have_no_verdict(samples: Any, tmp_path: Path) -> None:
    """Their mean is no maximum."""
    points = [{"x": {"ps": 4}, "entry_s": samples.q(0.001), "exit_s": samples.q(0.001)}]
    test = {"test": "non-operational", "name": "N", "condition": "test-data", "points": points, "scores": []}
    run = read_run(samples.write_results(tmp_path / "ps", suite="power-states", tests=[test]))
    found = {str(row[1]): row[4] if isinstance(row[4], str) else row[4].text for row in declared_and_measured(run, [run]).rows}
    assert {name: text.partition(" ×")[0] for name, text in found.items() if text} == {"ENLAT": "not measured", "EXLAT": "not measured"}


def test_two_axes_make_a_table_and_no_curve(samples: Any, tmp_path: Path) -> None:
    points = [
        samples.point({"block_bytes": block, "write_share": share, "qd": 32}, 100 + block / 1e3 + share, 2.0, block)
        for block in (4096, 131072)
        for share in (0.0, 0.35, 1.0)
    ]
    test = {"test": "iops", "name": "IOPS", "condition": "empty", "points": points, "scores": []}
    made = SuitePresentation([read_run(samples.write_results(tmp_path / "pts", suite="snia-pts", tests=[test]))]).sections()
    assert not [b for s in made for b in s.blocks if isinstance(b, Chart) and "-by-" in b.key]
    (table,) = [b for s in made for b in s.blocks if getattr(b, "title", "").endswith(", MB/s")]
    assert [column.heading for column in table.columns][1:] == ["100 % reads", "65 % reads", "0 % reads"]
    assert [row[0] for row in table.rows] == ["4 KiB", "128 KiB"] and table.rows[0][1].text.startswith("104.1")


def test_other_drives_of_the_store_stand_behind(folders: dict[str, Path], samples: Any, tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        for key in ("660p", "900p", "scaled"):
            store.add(read_run(folders[key]))
        again = samples.write_results(tmp_path / "again", "intel-900p-280gb", started_utc="2026-11-22T10:00:00+00:00")
        store.add(read_run(again))
        run = read_run(folders["660p"])
        html, *_ = write_suite_page([run], tmp_path / "out", store, plots=False)
        others = comparable([run], store)
    assert [r.document["started_utc"][:10] for r in others] == ["2026-11-22"], "of each drive the latest, and not this one again"
    bars = chart(SuitePresentation([run], others).sections(), "anandtech-2018-burst-random-read-mean-of-the-bursts-mb-s").bars
    assert [(b.label, b.colour == BACKGROUND) for b in bars[:2]] == [
        ("Intel Optane SSD 900p 280GB (model)", True),
        ("Intel Optane SSD 900p 280GB (model), full", True),
    ]
    assert [b.value.value for b in bars] == sorted((b.value.value for b in bars), reverse=True)
    text = html.read_text(encoding="utf-8")
    assert "Grey, from the store, same job files and scale: Intel Optane SSD 900p 280GB (model)." in text


def test_notes_are_said_once_and_a_run_that_stopped_says_so(samples: Any, tmp_path: Path) -> None:
    def made(name: str, profile: str, tests: int) -> Any:
        notes = ["busy for 50.0% of the time", "no steady state within 25 rounds"]
        test = {"test": "iops", "name": "IOPS", "condition": "empty", "points": [], "scores": [], "notes": notes}
        planned = [["iops", "empty"], ["latency", "empty"]]
        tests_of = [test, {**test, "test": "latency", "notes": []}][:tests]
        return read_run(samples.write_results(tmp_path / name, profile, suite="snia-pts", tests=tests_of, planned=planned))

    html, *_ = write_suite_page([made("a", "intel-660p-1tb", 1), made("b", "crucial-p1-1tb", 2)], tmp_path / "p.html", plots=False)
    text = html.read_text(encoding="utf-8")
    assert text.count("no steady state within 25 rounds") == 1
    assert "Intel SSD 660p 1TB (model), Crucial P1 1TB (model): IOPS: no steady state" in text
    assert text.index("no steady state") < text.index("<details class=notes>") < text.index("busy for 50.0%")
    assert text.count("tests are missing") == 1 and "interrupted; 1 of 2 tests are missing" in text


def test_mixtures_are_said(folders: dict[str, Path], samples: Any, tmp_path: Path) -> None:
    runs = {key: read_run(folder) for key, folder in folders.items()}
    assert mixtures([runs["660p"], runs["p1"], runs["600p"]]) == []
    (scales,) = mixtures([runs["660p"], runs["scaled"]])
    assert "scaled and unscaled" in scales
    other = read_run(samples.write_results(tmp_path / "other", "crucial-p1-1tb", suite_hash="sha256:00"))
    assert "2 different versions" in mixtures([runs["660p"], other])[0]
    real = read_run(samples.write_results(tmp_path / "real", "crucial-p1-1tb", virtual=False))
    assert "Models and real drives" in mixtures([runs["660p"], real])[0]
    html, *_ = write_suite_page([runs["660p"], runs["scaled"]], tmp_path / "mixed.html", plots=False)
    text = html.read_text(encoding="utf-8")
    assert "not simply comparable" in text and "SCALED ×0.01" in text
    assert "(scaled ×0.01)" in text, "the label of a scaled run says so wherever it stands"
    assert stamp([runs["scaled"]]) == "MODEL: computed on the virtual rig, not measured · SCALED ×0.01"


def test_two_runs_of_a_drive_have_colours_of_their_own(folders: dict[str, Path], samples: Any, tmp_path: Path) -> None:
    again = read_run(samples.write_results(tmp_path / "again", started_utc="2026-11-22T10:00:00+00:00"))
    found = entities([read_run(folders["660p"]), again, read_run(folders["p1"])])
    assert len({e.label for e in found}) == len(found) == 6
    assert len({e.colour for e in found}) == 3
    assert all(len({e.colour for e in found if e.run is run}) == 1 for run in {id(e.run): e.run for e in found}.values())


def test_a_drive_keeps_its_colour_from_suite_to_suite(folders: dict[str, Path]) -> None:
    found = entities([read_run(folders["660p"]), read_run(folders["600p"]), read_run(folders["600p-2014"])])
    assert len({e.colour for e in found if e.run.suite.startswith("consistency")}) == 1
    assert len({e.colour for e in found}) == 2


def test_another_firmware_is_another_colour_and_stands_in_the_label(samples: Any, tmp_path: Path) -> None:
    runs = []
    for name, version in (("old", "001C"), ("new", "004C")):
        folder = samples.write_results(tmp_path / name, started_utc=f"2026-11-2{len(runs)}T10:00:00+00:00")
        document = json.loads((folder / "results.json").read_text())
        document["drive"]["firmware"] = version
        (folder / "results.json").write_text(json.dumps(document))
        runs.append(read_run(folder))
    first, second = named(runs)
    assert first[0] == "Intel SSD 660p 1TB, firmware 001C (model)" and second[0] == "Intel SSD 660p 1TB, firmware 004C (model)"
    assert first[1] != second[1]
    bars = chart(SuitePresentation(runs).sections(), "anandtech-2018-burst-random-read-mean-of-the-bursts-mb-s").bars
    assert len({bar.colour for bar in bars}) == 2 and {bar.label.split(", ")[1] for bar in bars} == {
        "firmware 001C (model)",
        "firmware 004C (model)",
    }


def test_no_two_of_forty_drives_have_one_colour(samples: Any, tmp_path: Path) -> None:
    runs = []
    for number in range(40):
        folder = samples.write_results(tmp_path / str(number), tests=[])
        document = json.loads((folder / "results.json").read_text())
        document["drive"] |= {"model": f"Drive {number}", "serial": str(number), "title": None}
        (folder / "results.json").write_text(json.dumps(document))
        runs.append(read_run(folder))
    assert len({colour for _, colour in named(runs)}) == 40


def test_pictures_carry_the_stamp(folders: dict[str, Path], samples: Any, tmp_path: Path) -> None:
    run = read_run(samples.write_consistency(tmp_path / "c", scale=0.5))
    _, *pictures = write_suite_page([run], tmp_path / "out")
    assert {p.suffix for p in pictures} == {".png", ".svg"}
    whole = next(p for p in pictures if p.name == "consistency-2016-whole-run.svg").read_text(encoding="utf-8")
    assert "SCALED ×0.5" in whole and "MODEL: computed on the virtual rig, not measured" in whole
    assert pictures[0].with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw_is_an_error(folders: dict[str, Path], samples: Any, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="hold no test"):
        write_suite_page([read_run(samples.write_results(tmp_path / "none", tests=[]))], tmp_path / "x.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot be written"):
        write_suite_page([read_run(folders["660p"])], tmp_path / "file" / "x.html", plots=False)


@pytest.mark.parametrize("places", [[0.5, 0.5, 0.5], [1.0, 0.99, 0.0], [0.2], []])
def test_spread_keeps_order_and_distance(places: list[float]) -> None:
    out = spread(places, 0.1)
    assert [out.index(v) for v in sorted(out)] == [i for i, _ in sorted(enumerate(places), key=lambda p: p[1])]
    assert all(b - a >= 0.1 - 1e-9 for a, b in zip(sorted(out), sorted(out)[1:]))
    assert all(0.0 <= v <= 1.0 for v in out)


def test_many_curves_get_a_legend_instead_of_names(folders: dict[str, Path]) -> None:
    few = chart(SuitePresentation([read_run(folders["660p"])]).sections(), "anandtech-2018-mixed-random-by-write-share")
    assert not few.needs_legend and len(few.panels[-1].named) == 2
    many = chart(SuitePresentation([read_run(folders[k]) for k in ("660p", "p1", "900p")]).sections(), few.key)
    assert many.needs_legend and not any(panel.named for panel in many.panels)
    assert isinstance(many.panels[0], Panel)
