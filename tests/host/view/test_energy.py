"""Power states and energies on the page of ``wattbell view``: beside what ``analyze`` says, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from wattbell.analysis import figures_of
from wattbell.analysis.result import Analysis
from wattbell.capture import open_capture
from wattbell.view import energy as asked_energy
from wattbell.view.shown import Shown
from wattbell.wire.decode import Gap
from wattbell.zoom import open_zoom
from wattbell_spec.wire import BlockContent, EventType, LinkState

from tests.patience import PATIENCE_S

from ..conftest import MS, Builder
from .conftest import Ask, Opened, Served, TestClient, in_a_browser, make_app, place_of, serve, settled

MARKUP = "reads <img src=x onerror=\"document.title='run'\"><b>bold</b>"
ASLEEP_MS = (700, 2000)


def build(path: Path) -> Builder:
    """Reads, a mix, a sleep in PS3 that a read ends, and an idle time in which commands were lost: nobody knows the state."""
    made = Builder(path)
    made.levels += [(0, 0.5), (100 * MS, 2.0), (200 * MS, 0.5)]
    made.phase(1, 90 * MS, 210 * MS, MARKUP)
    for k in range(1000):
        made.command(100 * MS + k * 100_000, 80_000, slba=80 * k)
    made.levels += [(310 * MS, 1.5), (450 * MS, 0.5)]
    made.phase(2, 300 * MS, 500 * MS, "mixed")
    for k in range(140):
        made.command(310 * MS + k * MS, 900_000, opcode=2 if k % 3 else 1, slba=80 * k)
    made.phase(3, 600 * MS, 2500 * MS, "sleep", kind="wake")
    made.levels += [(ASLEEP_MS[0] * MS, 0.03), (ASLEEP_MS[1] * MS, 0.8), (2006 * MS, 0.5)]
    made.events += [
        (10, EventType.LINK, int(LinkState.L0), 0),
        (ASLEEP_MS[0] * MS, EventType.LINK, int(LinkState.L1_2), 0),
        (ASLEEP_MS[1] * MS, EventType.LINK, int(LinkState.L0), 0),
    ]
    made.command(ASLEEP_MS[1] * MS, 5 * MS)
    made.phase(4, 2510 * MS, 2690 * MS, "rest", kind="idle")
    made.gaps.append(Gap(BlockContent.COMMANDS, 2700 * MS, 2701 * MS, 3, "test"))
    made.command(2900 * MS, 80_000)
    return made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("view") / "capture"
    capture = build(path).write(3000 * MS)
    server, thread = serve(path)
    yield Served(server.url, capture, open_zoom(path).bounds[0])
    server.stop()
    thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def told(served: Served) -> Analysis:
    """Output of ``analyze`` for it."""
    return figures_of(open_capture(served.capture.path))


def shown(page: Page) -> Page:
    """The page with its energies."""
    page.wait_for_selector("#energy[data-state='shown']", timeout=PATIENCE_S * 1000)
    settled(page)
    return page


# -- the server ------------------------------------------------------------------------------------------------------


def test_the_answer_is_that_of_analyze_in_the_pages_ticks(ask: Ask) -> None:
    figures, found, about = ask("figures"), ask("energy"), ask("capture")
    spans = figures["power_states"]["spans"]
    assert [span["label"] for span in found["states"]["spans"]] == [span["label"] for span in spans] and len(spans) > 4
    assert [span["begin"] for span in found["states"]["spans"]] == [span["first_tick"] - about["origin_tick"] for span in spans]
    assert [span["end"] for span in found["states"]["spans"]] == [span["last_tick"] - about["origin_tick"] for span in spans]
    assert {(p["begin"], p["end"]) for p in found["phases"]} <= {(p["begin"], p["end"]) for p in about["phases"]}
    for phase, theirs in zip(found["phases"], figures["phases"], strict=True):
        each = theirs.get("energy_per_command", {})
        assert {one["name"]: (one["j"], one["u_j"]) for one in phase["classes"]} == {
            name: (one["value"], one["u"]) for name, one in each.get("classes", {}).items()
        }
    assert about["light"] is True


def test_ticks_count_from_the_captures_first(builder: Builder) -> None:
    builder.phase(1, 50 * MS, 90 * MS, "late")
    for k in range(100):
        builder.command(60 * MS + k * 100_000, 80_000)
    builder.write()
    one = Shown(builder.path)
    client = TestClient(make_app([one], "T" * 32), base_url="http://127.0.0.1:5000")
    about, found = (client.get(f"/{'T' * 32}/api/0/{name}").json() for name in ("capture", "energy"))
    assert about["origin_tick"] == 50 * MS
    assert [(p["begin"], p["end"]) for p in found["phases"]] == [(p["begin"], p["end"]) for p in about["phases"]]


def test_a_capture_without_phases_is_one_and_one_without_a_rail_says_so(builder: Builder) -> None:
    from wattbell.view.analysing import energy_of

    builder.power(0, 0.5)
    builder.power(100 * MS, 2.0)
    for k in range(1000):
        builder.command(100 * MS + k * 100_000, 80_000)
    builder.power(200 * MS, 0.5)
    found = energy_of(figures_of(builder.write(400 * MS)))
    (phase,) = found["phases"]
    assert (phase["name"], phase["begin"]) == ("whole capture", 0)
    assert phase["classes"][0]["j"] == pytest.approx(150e-6, rel=1e-2) and phase["stack"]["total_j"] > 0.1
    builder.path, builder.levels = builder.path / "bare", []
    bare = energy_of(figures_of(builder.write()))
    assert "rail" in bare["states"]["absent"] and bare["phases"][0]["absent"] and not bare["phases"][0]["classes"]


# -- the page --------------------------------------------------------------------------------------------------------


def colour_at(page: Page, tick: float) -> list[int]:
    """Colour of the lane of states near the top of its band at a tick."""
    x, _ = place_of(page, tick, "states")
    found: list[int] = page.evaluate(
        """(x) => {
            const canvas = document.querySelector("[data-row='states'] canvas"), box = canvas.getBoundingClientRect(), r = devicePixelRatio;
            const y = 4 + 0.2 * (box.height - 10);
            return [...canvas.getContext('2d').getImageData(Math.round((x - box.left) * r), Math.round(y * r), 1, 1).data];
        }""",
        x,
    )
    return found


@in_a_browser
def test_states_are_bands_with_label_and_probability(opened: Opened, told: Analysis) -> None:
    page = shown(opened())
    asleep, reading, lost = (colour_at(page, at * MS) for at in (1300, 150, 2750))
    assert asleep[3] > 0 and asleep[2] > asleep[0], "asleep is blue"
    assert reading[3] > 0 and reading[0] > reading[2], "at work is warm"
    assert lost[3] == 0, "what is not known is not filled"
    label = page.get_attribute("[data-row='states']", "aria-label") or ""
    times = told["power_states"]["time_s"]
    (span,) = [one for one in told["power_states"]["spans"] if one["label"] == "PS3"]
    assert f"PS3 {span['probability']:.0%}".replace("%", " %") in label
    assert re.search(r"unknown for \d+", label) and set(times) == {"PS0", "PS3", "active", "unknown"}
    x, y = place_of(page, 1300 * MS, "states")
    page.mouse.move(x, y)
    tip = page.inner_text("#tip")
    assert f"PS3, with a probability of {span['probability']:.0%}".replace("%", " %") in tip
    assert "1.300" in tip and "30.0" in tip and "L1.2" in tip and "known by: level, link" in tip
    x, y = place_of(page, 2750 * MS, "states")
    page.mouse.move(x, y)
    assert "commands were lost here" in page.inner_text("#tip")


@in_a_browser
def test_the_selection_has_shares_of_states_and_the_energies_of_its_phase(opened: Opened, told: Analysis) -> None:
    page = shown(opened(f"#t={300 * MS},{760 * MS}"))
    share = float(page.get_attribute("#energy dd[data-state='PS3']", "data-share") or "nan")
    assert share == pytest.approx(100 * 60 / 460, abs=1.0)
    assert page.inner_text("#energy h3").startswith("mixed")
    phase = told["phases"][1]
    ((name, figure),) = phase["energy_per_command"]["classes"].items()
    row = page.locator("#energy-classes tbody tr")
    assert row.get_attribute("data-class") == name == "read 4 KiB + write 4 KiB"
    assert float(row.get_attribute("data-j") or "nan") == pytest.approx(figure.known)
    value, u = re.fullmatch(r"(\S+) ± (\S+)\smJ", row.locator("td").nth(1).inner_text()).groups()  # type: ignore[union-attr]
    assert float(value) == pytest.approx(figure.known * 1e3, rel=1e-3) and float(u) == pytest.approx((figure.u or 0) * 1e3, rel=0.05)
    assert "do not tell these classes apart" in (row.locator("td").nth(1).get_attribute("title") or "")
    shares = phase["energy_per_command"]["shares"]
    parts = {
        one.get_attribute("data-part"): float(one.get_attribute("data-value") or "nan")
        for one in page.locator("#energy dd[data-value]").all()
    }
    assert {"idle", "mixed, other", "unexplained"} <= set(parts), "what is unexplained is always there"
    assert parts["unexplained"] == pytest.approx(shares["unexplained_j"].known)
    assert sum(parts.values()) == pytest.approx(shares["total_j"].known)
    widths = [box["width"] for one in page.locator("#energy .stack i").all() if (box := one.bounding_box())]
    assert widths[0] / sum(widths) == pytest.approx(parts["idle"] / sum(map(abs, parts.values())), abs=0.01)
    shares_seen = [float(one.get_attribute("data-share") or "nan") for one in page.locator("#energy dd[data-state]").all()]
    assert sum(shares_seen) == pytest.approx(100, abs=0.01), "of the selection, and of nothing else"


@in_a_browser
@pytest.mark.parametrize(
    ("begin", "name", "text"), [(2400, "sleep", "energy of the phase"), (2499, "rest", "No energy of commands: no I/O")]
)
def test_the_phase_told_is_one_that_has_energies_unless_only_a_corner_is_in_view(opened: Opened, begin: int, name: str, text: str) -> None:
    page = shown(opened(f"#t={begin * MS},{2690 * MS}"))
    assert page.inner_text("#energy h3") == f"{name} and 1 more in view" and text in page.inner_text("#energy")


@in_a_browser
def test_names_are_text(opened: Opened) -> None:
    page = shown(opened(f"#t={100 * MS},{200 * MS}"))
    assert MARKUP in page.inner_text("#energy h3")
    assert page.title() != "run" and page.locator("#energy img, #energy b").count() == 0


@in_a_browser
def test_a_picked_command_tells_what_one_of_its_class_costs(opened: Opened, told: Analysis) -> None:
    page = shown(opened(f"#t={150 * MS},{150 * MS + 300_000}"))
    x, y = place_of(page, 150 * MS + 40_000, "commands")
    page.mouse.click(x, y)
    figure = told["phases"][0]["energy_per_command"]["classes"]["read 4 KiB"]
    cost = page.locator("#command dd[data-class='read 4 KiB']")
    expect(cost).to_have_text(re.compile(rf"{figure.known * 1e6:.2f} ± {(figure.u or 0.0) * 1e6:.2f}\sµJ"))
    page.keyboard.press("Escape")
    page.evaluate(f"location.hash = '#t={1990 * MS},{2010 * MS}'")
    settled(page)
    x, y = place_of(page, 2002 * MS, "commands")
    page.mouse.click(x, y)
    expect(page.locator("#command dd[data-class]")).to_contain_text("with the waking in it")


@in_a_browser
def test_the_next_state_is_gone_to_and_a_cursor_snaps_to_its_edge(opened: Opened, told: Analysis, served: Served) -> None:
    page = shown(opened(f"#t={610 * MS},{1000 * MS}"))
    page.locator("#stage").focus()
    page.keyboard.press("t")
    expect(page.locator("#said")).to_contain_text("PS3")
    settled(page)
    (span,) = [one for one in told["power_states"]["spans"] if one["label"] == "PS3"]
    edge = span["first_tick"] - served.origin
    x, y = place_of(page, edge, "states")
    page.mouse.click(x + 3, y)
    page.wait_for_url(f"**/*a={edge}*")
    page.keyboard.press("T")
    expect(page.locator("#said")).to_contain_text("PS0")
    settled(page)


@in_a_browser
def test_a_long_capture_is_worked_out_when_asked(opened: Opened, tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_energy, "LIGHT_COMMANDS", 100)
    server, thread = serve(served.capture.path)
    page = opened(url=server.url)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("+")
    settled(page)
    assert page.is_hidden("[data-row='states']") and not [url for url in asked if "energy" in url]
    assert "reads all 1 1" in page.inner_text("#energy").replace("\u202f", " ")
    heights = {name: page.locator(f"[data-row='{name}']").bounding_box() for name in ("power", "levels")}
    page.keyboard.press("t")
    expect(page.locator("#said")).to_contain_text("not worked out yet")
    page.click("#energy-go")
    shown(page)
    assert page.is_visible("[data-row='states']") and page.locator("#energy dd[data-state]").count() > 0
    assert heights["power"] != page.locator("[data-row='power']").bounding_box(), "it has its place among the rows"
    server.stop()
    thread.join(PATIENCE_S)


@in_a_browser
def test_what_cannot_be_analysed_says_why(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    build(path).write(3000 * MS)
    server, thread = serve(path)
    (path / "meta.json").rename(tmp_path / "gone")
    page = opened(url=server.url, ignore="409")
    page.wait_for_selector("#energy[data-state='failed']", timeout=PATIENCE_S * 1000)
    assert "meta.json" in page.inner_text("#energy")
    expect(page.locator("[data-row='states']")).to_have_attribute("aria-label", "Power states: not worked out")
    server.stop()
    thread.join(PATIENCE_S)


@in_a_browser
def test_it_is_printed_and_follows_the_theme(opened: Opened) -> None:
    page = shown(opened("#theme=dark"))
    dark: Any = page.evaluate("getComputedStyle(document.querySelector('#energy .swatch')).backgroundColor")
    page.emulate_media(media="print")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.is_visible("[data-row='states']") and page.is_visible("#energy .stack")
    assert page.evaluate("getComputedStyle(document.querySelector('#energy .swatch')).backgroundColor") != dark
    page.emulate_media(media="screen")
    settled(page)


@in_a_browser
def test_the_row_can_be_put_away(opened: Opened) -> None:
    page = shown(opened("#hide=states"))
    assert page.is_hidden("[data-row='states']")
    page.keyboard.press("r")
    page.get_by_role("checkbox", name="Power states").check()
    settled(page)
    assert page.is_visible("[data-row='states']") and colour_at(page, 1300 * MS)[3] > 0


# -- one share of time everywhere ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def late_rail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 s, in which the rail begins after 1 s: PS0 to 2 s and from 8 s, PS3 for the 6 s between. Nobody knows the first second."""
    made = Builder(tmp_path_factory.mktemp("late") / "capture")
    made.levels += [(1000 * MS, 0.5), (2000 * MS, 0.03), (8000 * MS, 0.5)]
    made.hole = (0, 1000 * MS)
    made.phase(1, 10 * MS, 9990 * MS, "all")
    made.events += [(2000 * MS, EventType.LINK, int(LinkState.L1_2), 0), (8000 * MS, EventType.LINK, int(LinkState.L0), 0)]
    made.events += [(10_000 * MS - 1, EventType.CLKREQ, 0, 0), (0, EventType.CLKREQ, 0, 0)]
    made.command(8000 * MS, 5 * MS)
    made.write(10_000 * MS)
    return made.path


def test_the_share_of_a_state_is_of_the_captures_time_wherever_it_stands(late_rail: Path) -> None:
    from wattbell.present.capture.tables import states
    from wattbell.results.from_capture import run_from_capture
    from wattbell.view.analysing import energy_of

    result = figures_of(open_capture(late_rail))
    found = result["power_states"]
    energy = run_from_capture(late_rail).energy
    assert energy is not None
    rows = {row[0]: row[2] for row in states(found).rows}
    for label, time_s in found["time_s"].items():
        by_hand = time_s / 10.0
        assert found["share"][label] == pytest.approx(by_hand, rel=1e-6)
        assert rows[label] == f"{100 * by_hand:.1f} %"
        assert next(one.share for one in energy.states if one.label == label) == pytest.approx(by_hand, rel=1e-6)
        assert energy_of(result)["states"]["share"][label] == pytest.approx(by_hand, rel=1e-6)


@in_a_browser
def test_the_share_on_the_page_is_that_of_the_report(opened: Opened, late_rail: Path) -> None:
    server, thread = serve(late_rail)
    page = shown(opened(url=server.url))
    shares = figures_of(open_capture(late_rail))["power_states"]["share"]
    told = {
        one.get_attribute("data-state"): float(one.get_attribute("data-share") or "nan")
        for one in page.locator("#energy dd[data-state]").all()
    }
    assert told == {label: pytest.approx(100 * share) for label, share in shares.items()}
    server.stop()
    thread.join(PATIENCE_S)
