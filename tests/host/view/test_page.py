"""The page of ``wattbell view`` in a real browser, on a real server and a real capture."""

from __future__ import annotations

import io
import itertools
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import Route, expect
from wattbell.capture import Capture, CaptureWriter, blocks
from wattbell.zoom import open_zoom
from wattbell_spec.wire import EventType

from tests.patience import PATIENCE_S

from ..conftest import MS, Builder
from ..present.test_colours import SIGHT, difference
from .conftest import Opened, Served, in_a_browser, place_of, serve, settled, view_of

pytestmark = in_a_browser

END = 400 * MS
READS = 300
SLOW = (120, 240)
"""Places of the two slow commands."""
MARKUP = "<img src=x onerror=\"document.title='run'\"><b>bold</b>"
HOLE = (150 * MS, 160 * MS)


def write(builder: Builder) -> Capture:
    """0.4 s of rail at 100 kSPS with a gap, reads and writes at two queues (two are slow, one fails), phases and edges."""
    builder.power(0, 0.5)
    for place in range(40):
        builder.power((100 + 5 * place) * MS, 1.0 + 0.05 * (place % 7))
    builder.power(300 * MS, 0.25)
    builder.hole = HOLE
    for place in range(READS):
        start = 100 * MS + place * 600_000 + 137 * (place % 11)
        latency = 5_000_000 if place in SLOW else 80_000 + 1_000 * (place % 50)
        builder.command(
            start,
            latency,
            opcode=1 if place % 3 == 0 else 2,
            qid=1 + place % 2,
            slba=8 * place,
            fetch_tick=start + 700,
            first_data_tick=start + latency - 9_000,
            last_data_tick=start + latency - 2_000,
            msix_tick=start + latency + 300,
            cq_head_tick=start + latency + 2_500,
            status=0x281 if place == 200 else 0,
        )
    builder.phase(1, 99 * MS, 199 * MS, MARKUP)
    builder.phase(2, 200 * MS, 290 * MS, "reads, second half")
    builder.events += [(1 * MS, EventType.PERST, 1, 0), (1 * MS, EventType.CLKREQ, 0, 0), (320 * MS, EventType.CLKREQ, 1, 0)]
    return builder.write(END)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("view") / "capture"
    capture = write(Builder(path))
    server, thread = serve(path)
    yield Served(server.url, capture, open_zoom(path).bounds[0])
    server.stop()
    thread.join(PATIENCE_S)


def test_all_of_a_capture_is_drawn_and_said(opened: Opened, served: Served) -> None:
    page = opened()
    assert page.inner_text("#name") == served.capture.path.name
    begin, end = view_of(page)
    assert begin == 0 and end > 0.9 * END
    assert page.get_attribute("[data-row='commands']", "data-kind") == "scatter"
    for row, unit in (("power", "W"), ("current", "A"), ("voltage", "V")):
        label = page.get_attribute(f"[data-row='{row}']", "aria-label") or ""
        assert "mean" in label and "least" in label and "most" in label and unit in label and "missing" in label
    assert "read mean" in (page.get_attribute("[data-row='load']", "aria-label") or "")
    assert "CLKREQ#" in (page.get_attribute("[data-row='levels']", "aria-label") or "")
    drawn = page.evaluate(
        """() => [...document.querySelectorAll('.row canvas')].filter((c) => c.offsetParent).map((c) => {
            const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let ink = 0;
            for (let i = 3; i < data.length; i += 4) ink += data[i] > 0;
            return ink / (data.length / 4);
        })"""
    )
    assert len(drawn) >= 9 and min(drawn) > 0.005


def test_a_gap_is_hatched_and_nothing_else_is(opened: Opened, served: Served) -> None:
    page = opened()
    gaps = served.capture.table("gaps").collect()
    first, last = int(gaps["first_tick"].min()), int(gaps["last_tick"].max())  # type: ignore[arg-type]

    def hatched(tick: float) -> int:
        x, _ = place_of(page, tick - served.origin, "voltage")
        return int(
            page.evaluate(
                """(x) => {
                    const canvas = document.querySelector("[data-row='voltage'] canvas");
                    const left = Math.round(x - canvas.getBoundingClientRect().left);
                    const data = canvas.getContext('2d').getImageData(left - 4, 25, 8, 20).data;
                    let grey = 0;
                    for (let i = 0; i < data.length; i += 4) grey += data[i + 3] > 0 && data[i + 3] < 200;
                    return grey;
                }""",
                x,
            )
        )

    assert hatched((first + last) / 2) > 60
    assert hatched(first - 30 * MS) < 20


def test_zoomed_to_one_command_its_seven_instants_are_those_of_the_table(opened: Opened, served: Served) -> None:
    row = served.capture.table("commands").filter(pl.col("slba") == 8 * 37, pl.col("opcode") == 2).collect().row(0, named=True)
    start, end = row["doorbell_tick"] - served.origin, row["cq_head_tick"] - served.origin
    page = opened(f"#t={start - 20_000},{end + 20_000}")
    assert page.get_attribute("[data-row='commands']", "data-kind") == "bars"
    page.mouse.click(*place_of(page, (start + end) / 2, "commands"))
    settled(page)
    lines = page.locator("#command tr[data-instant]")
    shown = {line.get_attribute("data-instant"): int(line.get_attribute("data-ticks") or -1) for line in lines.all()}
    assert shown == {name: row[f"{name}_tick"] - served.origin for name in shown}
    assert list(shown) == ["doorbell", "fetch", "first_data", "last_data", "cqe", "msix", "cq_head"]
    assert "LBA" in page.inner_text("#command") and "(0x128)" in page.inner_text("#command")
    # the bar itself: filled from doorbell to CQE, and only there
    filled = page.evaluate(
        """([begin, end]) => {
            const canvas = document.querySelector(".layer[data-kind='bars'] canvas");
            const box = canvas.getBoundingClientRect();
            const row = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const coloured = (x) => {
                let many = 0;
                for (let y = 25; y < canvas.height - 8; y++) {
                    const at = (y * canvas.width + Math.round(x - box.left)) * 4;
                    many += row.data[at + 2] > row.data[at] + 60 && row.data[at + 3] > 40;
                }
                return many;
            };
            return [coloured(begin - 5), coloured(begin + 4), coloured((begin + end) / 2 + 70), coloured(end - 4), coloured(end + 6)];
        }""",
        [place_of(page, tick, "commands")[0] for tick in (start, row["cqe_tick"] - served.origin)],
    )
    assert min(filled[1:4]) > 5 and max(filled[0], filled[4]) < 4


def test_between_two_cursors_the_figures_are_those_of_numpy(opened: Opened, served: Served) -> None:
    a, b = 110 * MS - served.origin, 290 * MS - served.origin
    page = opened(f"#a={a}&b={b}")
    rail = served.capture.rail
    assert rail is not None
    first, last = (rail.sample_at(tick + served.origin) for tick in (a, b))
    power = rail.read(first, last + 1).power.astype(np.float64)
    row = page.locator("#span-table [data-quantity='power']")
    mean, low, high, _ = (float(cell.get_attribute("data-value") or "nan") for cell in row.locator("td").all()[1:])
    assert mean == pytest.approx(np.nanmean(power), rel=2e-3)
    assert low == pytest.approx(np.nanmin(power), rel=1e-5) and high == pytest.approx(np.nanmax(power), rel=1e-5)
    energy = float(page.locator("#span-times dd[data-value]").first.get_attribute("data-value") or "nan")
    assert energy == pytest.approx(np.nansum(power) * rail.interval_ticks * 1e-9, rel=5e-3)
    assert page.get_attribute("#span-times [data-ticks]", "data-ticks") == str(b - a)
    assert "missing" in page.inner_text("#span-lost")
    inside = (
        served.capture.table("commands")
        .filter(pl.col("cqe_tick").is_between(110 * MS, 290 * MS), pl.col("qid") > 0, pl.col("opcode") == 2)
        .collect()
    )
    reads = page.locator("#span-commands [data-opcode='2']").first
    assert abs(int(reads.get_attribute("data-count") or 0) - len(inside)) <= 1  # one may be open at an edge
    latency = (inside["cqe_tick"] - inside["doorbell_tick"]).to_numpy() * 1e-9
    assert float(reads.get_attribute("data-p50") or 0) == pytest.approx(np.quantile(latency, 0.5), rel=0.05)


def test_clicks_set_cursors_that_can_be_dragged_and_taken_away(opened: Opened) -> None:
    page = opened()
    _, end = view_of(page)
    page.mouse.click(*place_of(page, 0.3 * end, "power"))
    page.mouse.click(*place_of(page, 0.6 * end, "power"))
    settled(page)
    assert page.inner_text("#span-title") == "Between A and B"
    between = int(page.get_attribute("#span-times [data-ticks]", "data-ticks") or 0)
    assert between == pytest.approx(0.3 * end, rel=0.02)
    x, y = place_of(page, 0.6 * end, "power")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 100, y, steps=4)
    page.mouse.up()
    settled(page)
    assert int(page.get_attribute("#span-times [data-ticks]", "data-ticks") or 0) > between
    page.keyboard.press("x")
    settled(page)
    assert page.inner_text("#span-title") == "In view"


def test_wheel_drag_and_keys_zoom_and_pan_down_to_nanoseconds(opened: Opened) -> None:
    page = opened()
    _, whole = view_of(page)
    x, y = place_of(page, 0.4 * whole, "power")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    settled(page)
    begin, end = view_of(page)
    assert end - begin < 0.6 * whole and begin < 0.4 * whole < end
    page.mouse.move(*place_of(page, begin + 0.25 * (end - begin), "current"))
    page.mouse.down()
    page.mouse.move(*place_of(page, begin + 0.75 * (end - begin), "current"), steps=3)
    page.mouse.up()
    settled(page)
    dragged = view_of(page)
    assert dragged == pytest.approx((begin + 0.25 * (end - begin), begin + 0.75 * (end - begin)), rel=0.02)
    page.keyboard.press("ArrowRight")
    settled(page)
    assert view_of(page)[0] == pytest.approx(dragged[0] + 0.1 * (dragged[1] - dragged[0]), rel=0.02)
    page.keyboard.down("Shift")
    page.mouse.move(*place_of(page, sum(view_of(page)) / 2, "current"))
    page.mouse.down()
    page.mouse.move(x, y, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    settled(page)
    assert view_of(page)[1] - view_of(page)[0] == pytest.approx(dragged[1] - dragged[0], rel=1e-6)
    for _ in range(8):
        page.mouse.wheel(0, -2000)
        page.mouse.wheel(0, -2000)
        page.mouse.wheel(0, -2000)
    for _ in range(4):
        page.keyboard.press("+")
    settled(page)
    assert view_of(page)[1] - view_of(page)[0] == pytest.approx(20, rel=0.1)
    page.keyboard.press("Home")
    settled(page)
    assert view_of(page) == (0, whole)
    page.keyboard.press("Backspace")
    settled(page)
    assert view_of(page)[1] - view_of(page)[0] < whole / 1000


def test_a_saved_selection_holds_what_is_between_the_cursors(opened: Opened, served: Served) -> None:
    a, b = 120 * MS - served.origin, 130 * MS - served.origin
    page = opened(f"#a={a}&b={b}")
    page.select_option("#export-format", "parquet")
    with page.expect_download() as download:
        page.click("#export-go")
    with zipfile.ZipFile(Path(download.value.path())) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("commands.parquet")]
        saved = pl.read_parquet(io.BytesIO(archive.read(name)))
    doorbell, cqe = pl.col("doorbell_tick"), pl.col("cqe_tick")
    expected = served.capture.table("commands").filter(cqe >= 120 * MS, doorbell < 130 * MS).collect()
    assert len(saved) == len(expected) > 10


def test_what_cannot_be_saved_is_told(opened: Opened) -> None:
    page = opened(ignore="422")
    page.evaluate("document.querySelector('#export-format').add(new Option('none', 'none', true, true))")
    page.click("#export-go")
    expect(page.locator("#said")).to_contain_text("Not saved: format is one of csv")


def test_the_address_holds_the_view(opened: Opened, served: Served) -> None:
    page = opened("#t=120000000,180000000&a=130000000&b=140000000&hide=voltage,iops&theme=dark&histogram=latency")
    page.keyboard.press("-")
    settled(page)
    page.wait_for_url("**/*t=90000000,210000000*")
    again = opened(page.evaluate("location.hash"))
    assert view_of(again) == view_of(page) == (90 * MS, 210 * MS)
    assert again.inner_text("#span-title") == "Between A and B"
    assert again.is_hidden("[data-row='voltage']") and again.is_hidden("[data-row='iops']") and again.is_visible("[data-row='current']")
    assert again.get_attribute("html", "data-theme") == "dark"
    assert again.input_value("#histogram-of") == "latency"
    assert "latency" in (again.get_attribute("#histogram-plot", "aria-label") or "")


def test_dark_follows_the_system_until_it_is_chosen(opened: Opened) -> None:
    page = opened(color_scheme="dark")
    assert page.get_attribute("html", "data-theme") == "dark"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("d")
    settled(page)
    assert page.get_attribute("html", "data-theme") == "light"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


def test_names_are_text(opened: Opened) -> None:
    page = opened()
    assert page.title() != "run"
    x, _ = place_of(page, 150 * MS, "phases")
    box = page.locator("[data-row='phases']").bounding_box()
    assert box is not None
    page.mouse.move(x, box["y"] + 34)
    assert MARKUP in page.inner_text("#tip")
    page.keyboard.press("p")
    page.wait_for_selector("#said")
    assert MARKUP in page.inner_text("#said")
    assert page.locator("main img, main b b, #said img, #tip img").count() == 0
    settled(page)


def test_the_next_slow_command_gap_and_phase_are_found(opened: Opened, served: Served) -> None:
    page = opened()
    page.fill("#search-above", "1ms")
    page.locator("#stage").focus()
    found = []
    for key in ("n", "n", "N"):
        page.keyboard.press(key)
        page.wait_for_timeout(150)
        settled(page)
        found.append(page.inner_text("#command dd >> nth=0").split(" (")[0].replace("\u202f", ""))
    assert found == [str(8 * place) for place in (SLOW[0], SLOW[1], SLOW[0])]
    page.keyboard.press("g")
    page.wait_for_timeout(150)
    settled(page)
    begin, end = view_of(page)
    assert begin < HOLE[0] - served.origin < end
    page.fill("#search-above", "1x")
    page.click("#search-next")
    expect(page.locator("#said")).to_contain_text("no duration")
    page.fill("#search-above", "")
    page.fill("#search-status", "failed")
    page.fill("#search-qid", "1")
    page.click("#search-next")
    expect(page.locator("#command")).to_contain_text("0x281: failed")
    settled(page)


def test_on_a_phone_nothing_is_wider_than_the_screen_and_two_fingers_zoom(opened: Opened) -> None:
    page = opened(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    begin, end = view_of(page)
    _, y = place_of(page, 0, "power")
    touch = page.context.new_cdp_session(page)

    def send(kind: str, *xs: float) -> None:
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y, "id": i} for i, x in enumerate(xs)]})

    send("touchStart", 150)
    send("touchStart", 150, 200)
    for step in range(1, 7):
        send("touchMove", 150 - 10 * step, 200 + 10 * step)
    send("touchEnd")
    settled(page)
    zoomed = view_of(page)
    assert zoomed[1] - zoomed[0] < 0.5 * (end - begin)
    send("touchStart", 200)
    for step in range(1, 6):
        send("touchMove", 200 - 12 * step)
    send("touchEnd")
    settled(page)
    assert view_of(page)[0] > zoomed[0]


def test_printed_it_is_dark_on_white(opened: Opened) -> None:
    page = opened("#theme=dark")
    page.emulate_media(media="print")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.is_hidden(".tools") and page.is_visible("[data-row='power']")
    page.emulate_media(media="screen")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_captures_lie_over_one_another(opened: Opened, served: Served, tmp_path: Path) -> None:
    other = tmp_path / "second"
    shutil.copytree(served.capture.path, other)
    server, thread = serve(served.capture.path, other)
    try:
        page = opened("#k=1", url=server.url)
        assert page.inner_text("#name") == "second" and page.locator("#captures label").count() == 2
        page.locator("#captures input").first.check()
        settled(page)
        assert page.inner_text("#name") == served.capture.path.name
        assert "capture 2" in (page.get_attribute("[data-row='power']", "aria-label") or "")
    finally:
        server.stop()
        thread.join(PATIENCE_S)


def test_captures_are_aligned_at_a_phase(opened: Opened, served: Served, tmp_path: Path) -> None:
    later = Builder(tmp_path / "later")
    later.power(0, 0.5)
    later.phase(1, 100 * MS, 120 * MS, "one")
    later.phase(2, 250 * MS, 290 * MS, "two")
    later.write(END)
    server, thread = serve(served.capture.path, tmp_path / "later", at="2")
    try:
        page = opened("#k=1", url=server.url)
        for name in ("one", "two"):
            page.keyboard.press("p")
            expect(page.locator("#said")).to_contain_text(name)
        # phase 2 of the first capture begins at 200 ms, that of the other one 50 ms later in its own time
        assert seconds(page.inner_text("#said").split(" at ")[-1]) == pytest.approx(0.2, abs=1e-4)
        settled(page)
    finally:
        server.stop()
        thread.join(PATIENCE_S)


def test_a_recording_is_followed_until_one_pans_and_ends_as_a_capture(opened: Opened, tmp_path: Path) -> None:
    seconds_each, watts = 1, 2.0
    volts = np.full(100_000 * seconds_each, 3.2, np.float32)
    with CaptureWriter(tmp_path / "now", journal=False, lba_size_bytes=512, conditions={"virtual": True}) as writer:
        live = writer.begin_live()
        recorded = 0

        def go_on() -> None:
            nonlocal recorded
            writer.add_rail_source(blocks(5 * MS + recorded * 1000 * MS, 10_000, volts, np.full_like(volts, watts) / volts))
            recorded += seconds_each
            live.flush()

        live.flush()  # nothing yet: the page opens on an empty recording
        server, thread = serve(tmp_path / "now")
        page = opened(url=server.url, ignore="the server responded with a status of", settle=False)
        expect(page.locator("#state")).to_have_text("recording")
        go_on()
        expect(page.locator("[data-live='w']")).to_contain_text("2.000")
        expect(page.locator("[data-row='power']")).to_be_visible()
        page.wait_for_selector("body[data-drawn^='0,10'], body[data-drawn^='0,9']")
        go_on()
        page.wait_for_selector("body[data-drawn^='0,20'], body[data-drawn^='0,19']")
        page.keyboard.press("+")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#follow")).to_have_attribute("aria-pressed", "false")
        page.wait_for_timeout(300)
        still = view_of(page)
        go_on()
        page.wait_for_timeout(600)
        assert view_of(page) == still
    expect(page.locator("#state")).to_have_text("complete")
    settled(page)
    assert page.is_hidden("#live") and page.is_visible("#span") and view_of(page) == pytest.approx(still, abs=10 * MS)
    page.keyboard.press("Home")
    settled(page)
    assert view_of(page)[1] == pytest.approx(recorded * 1000 * MS, rel=0.01)
    server.stop()
    thread.join(PATIENCE_S)


def test_a_capture_without_rail_or_commands_says_so(opened: Opened, tmp_path: Path) -> None:
    builder = Builder(tmp_path / "bare")
    builder.events += [(1 * MS, EventType.PERST, 1, 0), (9 * MS, EventType.PERST, 0, 0)]
    builder.write()
    Builder(tmp_path / "nothing").write()
    server, thread = serve(tmp_path / "bare", tmp_path / "nothing")
    try:
        page = opened(url=server.url)
        told = page.inner_text("#notices")
        assert "no rail" in told and "no commands" in told
        assert page.is_hidden("[data-row='power']") and page.is_hidden("[data-row='commands']") and page.is_visible("[data-row='levels']")
        nothing = opened("#k=1", url=server.url)
        assert "Nothing was recorded" in nothing.inner_text("#notices") and nothing.locator(".notice").count() == 1
    finally:
        server.stop()
        thread.join(PATIENCE_S)


def test_many_commands_are_a_density_fewer_are_points_and_few_are_bars(opened: Opened, tmp_path: Path) -> None:
    builder = Builder(tmp_path / "many")
    for place in range(4000):
        builder.command(10 * MS + place * 100_000, 90_000 if place % 10 else 400_000)
    builder.write()
    server, thread = serve(tmp_path / "many")
    try:
        page = opened(url=server.url)
        kinds = [page.get_attribute("[data-row='commands']", "data-kind")]
        for span in ("20000000,80000000", "20000000,20900000"):
            page.evaluate(f"location.hash = 't={span}'")
            page.wait_for_selector(f"body[data-drawn='{span}']")
            kinds.append(page.get_attribute("[data-row='commands']", "data-kind"))
        assert kinds == ["density", "scatter", "bars"]
        page.keyboard.press("Home")
        settled(page)
        box = page.locator("[data-row='commands']").bounding_box()
        assert box is not None
        told = ""
        for y in range(int(box["y"] + 22), int(box["y"] + box["height"] - 6), 2):  # down a column, until a cell is met
            page.mouse.move(box["x"] + 500, y)
            if page.is_visible("#tip"):
                told = page.inner_text("#tip")
                break
        assert " of 3" in told or " of 4" in told  # the slow tenth, 400 us, lies at the top
    finally:
        server.stop()
        thread.join(PATIENCE_S)


CLKREQ_HIGH = 320 * MS


def level_at(tick: float) -> str:
    """CLKREQ# of :func:`write`."""
    return "CLKREQ# high" if tick >= CLKREQ_HIGH else "CLKREQ# low"


def power_at(tick: float) -> set[float]:
    """Power in W that :func:`write` put at ``tick`` (in capture's time) or 1 ms around."""
    found = set()
    for near in (tick - MS, tick, tick + MS):
        if near < 100 * MS:
            found.add(0.5)
        elif near >= 300 * MS:
            found.add(0.25)
        else:
            found.add(round(1.0 + 0.05 * (int((near - 100 * MS) // (5 * MS)) % 7), 3))
    return found


def watts(chip: str) -> float:
    """The mean in W of a chip such as ``Power 500.0 mW (499.9 mW … 500.1 mW)``."""
    found = re.search(r"([\d.]+)\s(m?)W", chip)
    assert found is not None, chip
    return float(found[1]) * (1e-3 if found[2] else 1.0)


def test_after_a_jump_the_values_are_those_below_the_pointer(opened: Opened, served: Served) -> None:
    page = opened()
    page.locator("#stage").focus()
    page.mouse.move(*place_of(page, 40 * MS, "power"))
    x = place_of(page, 40 * MS, "power")[0]
    box = page.locator("#lines").bounding_box()
    assert box is not None
    seen = set()
    for key in ("p", "p", "g", "e", "n", "ArrowRight", "-", "Home", "Backspace"):
        page.keyboard.press(key)
        page.wait_for_timeout(150)
        settled(page)
        begin, end = view_of(page)
        tick = begin + (x - box["x"]) / box["width"] * (end - begin)
        told = seconds(page.inner_text("#time b >> nth=0"))
        assert told == pytest.approx(tick * 1e-9, abs=(end - begin) / box["width"] * 1e-9 + 1e-9), key  # a pixel
        at = tick + served.origin
        chip = page.inner_text("[data-row='power'] .chip")
        assert level_at(at) in page.inner_text("[data-row='levels'] .chip"), key
        if HOLE[0] - 2 * MS < at < HOLE[1] + 2 * MS:
            continue
        assert any(watts(chip) == pytest.approx(value, rel=0.08) for value in power_at(at)), (key, chip, at)
        seen.add((watts(chip), level_at(at)))
    assert len(seen) >= 4  # the jumps went to places that differ


def test_until_the_answer_has_come_a_row_says_nothing_of_another_place(opened: Opened) -> None:
    page = opened("#t=10000000,20000000")
    page.mouse.move(*place_of(page, 15 * MS, "power"))
    expect(page.locator("[data-row='power'] .chip")).to_contain_text("500")
    held: list[Route] = []
    holding = True
    page.route("**/rail?*", lambda route: held.append(route) if holding else route.continue_())
    page.evaluate("location.hash = 't=340000000,350000000'")
    expect(page.locator("#time")).to_contain_text("345")
    expect(page.locator("[data-row='power'] .chip")).not_to_contain_text("W")
    holding = False
    while held:
        held.pop().continue_()
    settled(page)
    expect(page.locator("[data-row='power'] .chip")).to_contain_text("250")


def test_the_tip_is_of_the_place_below_the_pointer(opened: Opened) -> None:
    page = opened()
    box = page.locator("[data-row='phases']").bounding_box()
    assert box is not None
    page.mouse.move(place_of(page, 150 * MS, "phases")[0], box["y"] + 34)
    assert MARKUP in page.inner_text("#tip")
    page.evaluate("location.hash = 't=210000000,280000000'")
    page.wait_for_selector("body[data-drawn='210000000,280000000']")
    assert "reads, second half" in page.inner_text("#tip")
    page.evaluate("location.hash = 't=310000000,380000000'")
    page.wait_for_selector("body[data-drawn='310000000,380000000']")
    assert page.is_hidden("#tip")


SPANS = [(0, 24 * 3600 * 10**9), (5 * 3600 * 10**9, 3 * 10**9), (86_399_500_000_123, 20), (12 * 10**9, 5 * 10**8), (61_234_567_000, 800)]


def test_labels_of_the_time_say_the_time_and_keep_apart(opened: Opened) -> None:
    page = opened()
    spans = [*SPANS, *((1_234_567_890, 10**power) for power in range(2, 10)), (0, 400)]
    for width, (begin, span) in itertools.product((240, 900, 2400), spans):
        made = page.evaluate(
            """async ([begin, end, width]) => {
                const { timeTicks } = await import('./static/timeaxis.js');
                return timeTicks(begin, end, 1e-9, width, (text) => text.length * 6);
            }""",
            [begin, begin + span, width],
        )
        base = seconds(made["base"].removesuffix(" +")) if made["base"] else 0.0
        labels = [(tick, text) for tick, text in zip(made["splits"], made["labels"], strict=True) if text is not None]
        assert 1 <= len(labels) <= width / 36
        for tick, text in labels:
            assert seconds(text) >= 0  # the base is before all of them
            assert base + seconds(text) == pytest.approx(tick * 1e-9, rel=1e-12, abs=1e-12)
        middles = [(tick - begin) / span * width for tick, _ in labels]
        for (left, right), (_, one), (_, other) in zip(zip(middles, middles[1:], strict=False), labels, labels[1:], strict=False):
            assert right - left >= (len(one) + len(other)) / 2 * 6


def seconds(text: str) -> float:
    """`1:02:03.5`, `12 s`, `130 µs` as a number."""
    plain = text.replace("\u202f", " ")
    if ":" in plain:
        whole = 0.0
        for part in plain.split(":"):
            whole = whole * 60 + float(part)
        return whole
    *digits, unit = plain.split(" ")
    return float("".join(digits)) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_two_phases_and_no_two_captures_have_one_colour(opened: Opened, tmp_path: Path, scheme: str) -> None:
    """Phases as drawn, 24 side by side; then the colours of many more."""
    builder = Builder(tmp_path / "many")
    builder.power(0, 0.5)
    for k in range(24):
        builder.phase(k + 1, (10 * k + 1) * MS, (10 * k + 10) * MS, f"phase {k}")
    builder.write(241 * MS)
    server, thread = serve(tmp_path / "many")
    try:
        page = opened(url=server.url, color_scheme=scheme)
        places = [place_of(page, (10 * k + 8) * MS, "phases")[0] for k in range(24)]
        drawn = page.evaluate(
            """(places) => {
                const canvas = document.querySelector("[data-row='phases'] canvas"), box = canvas.getBoundingClientRect();
                const over = document.querySelector("[data-row='phases'] .u-over").getBoundingClientRect();
                const pen = canvas.getContext("2d"), y = Math.round(over.top - box.top + over.height / 2 - 5);
                return places.map((x) => pen.getImageData(Math.round(x - box.left), y, 1, 1).data.join());
            }""",
            places,
        )
        assert len(set(drawn)) == 24 and all(colour.endswith(",255") for colour in drawn)
        many = page.evaluate(
            """async () => {
                const theme = await import(new URL("theme.js", document.querySelector("script[type=module]").src));
                const places = [...Array(200).keys()];
                return [theme.phaseColour, theme.captureColour].map((colour) => places.map(colour));
            }"""
        )
        assert [len(set(colours)) for colours in many] == [200, 200]
        # neighbours: at least 12 (CIE76) apart, five times what is just noticed side by side
        assert min(difference(one, other, SIGHT["normal"]) for one, other in itertools.pairwise(many[0])) > 12
    finally:
        server.stop()
        thread.join(PATIENCE_S)
