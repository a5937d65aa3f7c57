"""Pages of the kernel's trace buffer against the kernel's own text, and against pages put together by hand."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.errors import CaptureError
from wattbell.hostlog.events import COMPLETE, SETUP, Events, together
from wattbell.hostlog.pages import PageReader, layout

from tests.host.fuzzing import examples
from tests.host.hostlog.kernel_pages import SETUP_ID, complete, page, record, setup
from tests.host.hostlog.recorded import EVENTS, page_reader, recorded, said, text

START = 5_000_000_000
KINDS = st.sampled_from(["setup", "complete", "other", "pause"])


def read(name: str) -> Events:
    reader = page_reader()
    return together([reader.read(cpu, recorded(f"{name}-cpu{cpu}"))[0] for cpu in (0, 1)])


@pytest.mark.parametrize("name", ["whole", "overrun"])
def test_every_event_is_the_one_of_the_kernels_text(name: str) -> None:
    events = read(name)
    rounded = [(ns + 500) // 1000 for ns in events.ns.tolist()]
    kinds = [EVENTS[kind] for kind in events.kind.tolist()]
    ours = sorted(zip(rounded, kinds, events.qid.tolist(), events.cid.tolist()))
    assert ours == sorted(said(f"{name}.txt"))
    assert set(events.controller.tolist()) == {0}


def test_what_the_kernel_overwrote_is_told_with_its_count() -> None:
    reader = page_reader()
    _, missing = reader.read(0, recorded("overrun-cpu0"))
    (hole,) = missing
    ours, _ = page_reader().read(0, recorded("overrun-cpu0"))
    kernels = sorted({event.us for event in said("overrun.txt")})
    # 576 of the 800 events of fio's 400 reads: the kernel's own counter said so, too
    assert hole.count == 576 and len(ours) == 800 - 576
    assert hole.after_ns is not None and (hole.after_ns + 500) // 1000 in kernels and hole.before_ns // 1000 > hole.after_ns // 1000
    assert not [ns for ns in ours.ns.tolist() if hole.after_ns < ns < hole.before_ns]


def test_long_pauses_absolute_stamps_and_discarded_events() -> None:
    pause, later = 90_000_000_000, START + 200_000_000_000
    records = [
        record(setup(1, 1 << 40), 10),
        struct.pack("<II", (pause & (1 << 27) - 1) << 5 | 30, pause >> 27),  # time extend
        record(complete(1, 0x4002), 5),
        struct.pack("<II", (later & (1 << 27) - 1) << 5 | 31, later >> 27),  # absolute stamp
        record(setup(2), 0, long=True),
        struct.pack("<II", 3 << 5 | 29, 8) + bytes(4),  # discarded, 3 ns after
        record(complete(2), 4),
        struct.pack("<I", 29) + bytes(8),  # padding to the end
    ]
    events, missing = page_reader().read(0, page(records, START))
    assert missing == []
    assert events.ns.tolist() == [START + 10, START + 15 + pause, later, later + 7]
    assert events.kind.tolist() == [SETUP, COMPLETE, SETUP, COMPLETE]
    assert events.cid.tolist() == [1, 1, 2, 2] and events.lba.tolist()[0] == 1 << 40 and events.cdw12.tolist()[0] == 7
    assert events.status.tolist() == [0, 0x4002, 0, 0]


def test_missing_events_lie_between_the_last_before_and_the_first_after() -> None:
    reader = page_reader()
    reader.read(3, page([record(setup(1), 10)], START))
    _, missing = reader.read(3, page([record(setup(2), 0)], START + 900, missed=17))
    (hole,) = missing
    assert (hole.after_ns, hole.before_ns, hole.count) == (START + 10, START + 900, 17)


def test_other_events_of_the_buffer_are_passed_over() -> None:
    other = struct.pack("<HBBi", 5, 0, 0, 77) + b"x" * 60
    events, _ = page_reader().read(0, page([record(other, 1), record(setup(9), 1), record(other, 1)], START))
    assert events.cid.tolist() == [9] and events.ns.tolist() == [START + 2]


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from(["setup", "complete", "other", "pause"]), st.integers(0, (1 << 27) - 1)), max_size=200),
    st.integers(1, 9),
)
def test_any_order_of_records_in_any_number_of_pages(wanted: list[tuple[str, int]], a_page: int) -> None:
    pages, expected, ns = [], [], START
    for at in range(0, len(wanted), a_page):
        base, records = ns, []
        for number, (kind, delta) in enumerate(wanted[at : at + a_page]):
            ns += delta
            if kind == "pause":
                ns += 7 << 27
                records.append(struct.pack("<II", delta << 5 | 30, 7))
            elif kind == "other":
                records.append(record(struct.pack("<Hxxi", 9, 1) + bytes(20), delta))
            else:
                records.append(record((setup if kind == "setup" else complete)(number), delta))
                expected.append((ns, kind, number))
        pages.append(page(records, base))
    events, missing = page_reader().read(0, b"".join(pages))
    kinds = ["setup" if kind == SETUP else "complete" for kind in events.kind.tolist()]
    assert missing == [] and sorted(zip(events.ns.tolist(), kinds, events.cid.tolist())) == sorted(expected)


@examples(200)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_damaged_pages_give_events_or_none_but_no_exception(seed: int, changes: int) -> None:
    draw = random.Random(seed)
    raw = bytearray(recorded("whole-cpu1"))
    for _ in range(changes):
        raw[draw.randrange(len(raw))] = draw.randrange(256)
    events, _ = page_reader().read(0, bytes(raw))
    assert len(events) < len(raw) // 8


def test_a_part_of_a_page_is_refused() -> None:
    with pytest.raises(CaptureError, match="whole pages"):
        page_reader().read(0, bytes(4095))


def test_an_older_kernels_events_are_refused_with_what_to_do() -> None:
    old = text("nvme_setup_cmd.format").replace("ctrl_id", "ctrl")
    with pytest.raises(CaptureError, match="no field ctrl_id of 4 bytes.*blktrace"):
        PageReader(text("header_page"), old, text("nvme_complete_rq.format"))


def test_a_layout_has_the_kernels_offsets() -> None:
    found = layout(text("nvme_setup_cmd.format"))
    assert (found.number, found.fields["cid"], found.fields["cdw10"], found.fields["disk"]) == (SETUP_ID, (52, 2), (61, 24), (8, 32))
    assert np.dtype("u2").itemsize == found.fields["cid"][1]
