"""Reading the stream: nothing lost or reordered, whatever the sizes of pieces and buffers."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator

import pytest
from wattbell.errors import CaptureError, RigError, WattbellError
from wattbell.rig.reader import LineState, StreamReader
from wattbell.rig.stream import DescriptorReader

from tests.patience import PATIENCE_S

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    out, into = os.pipe()
    os.set_blocking(out, False)
    yield out, into
    os.close(out)
    os.close(into)


def test_what_has_come_is_returned_and_silence_is_nothing(pipe: Pipe) -> None:
    source, buffer = DescriptorReader(pipe[0]), bytearray(64)
    assert source.read_into(memoryview(buffer)) == 0
    os.write(pipe[1], b"abc")
    assert source.read_into(memoryview(buffer)) == 3
    assert buffer[:3] == b"abc"


def test_a_full_buffer_leaves_the_rest_for_the_next(pipe: Pipe) -> None:
    data = random.Random(1).randbytes(30_000)
    os.write(pipe[1], data)
    source, got = DescriptorReader(pipe[0]), b""
    for size in (1, 4096, 5000, 1 << 16):
        buffer = bytearray(size)
        count = source.read_into(memoryview(buffer))
        assert count == min(size, len(data) - len(got))
        got += buffer[:count]
    assert got == data


def test_the_end_is_told_only_behind_the_last_bytes() -> None:
    out, into = os.pipe()
    os.write(into, b"x" * 5000)
    os.close(into)
    source, buffer = DescriptorReader(out), memoryview(bytearray(8192))
    assert source.read_into(buffer) == 5000
    with pytest.raises(RigError, match="lost"):
        source.read_into(buffer)
    os.close(out)


def test_a_closed_port_is_a_lost_rig() -> None:
    with pytest.raises(RigError, match="lost"):
        DescriptorReader(-1).read_into(memoryview(bytearray(10)))


class Lines:
    """A rig with a line that is cut where a pipe ends, and comes back with the next pipe."""

    def __init__(self, parts: list[bytes]) -> None:
        self.parts, self.may_come_back = parts, threading.Event()
        self.source = self.next()

    def next(self) -> DescriptorReader:
        out, into = os.pipe()
        os.set_blocking(out, False)
        data = self.parts.pop(0)

        def write() -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(into, rest[: random.Random(len(rest)).randrange(1, 70_000)]) :]
            os.close(into)

        threading.Thread(target=write, daemon=True).start()
        return DescriptorReader(out)

    def read_into(self, buffer: memoryview) -> int:
        return self.source.read_into(buffer)

    def reopen(self) -> bool:
        os.close(self.source.descriptor)
        self.may_come_back.wait(PATIENCE_S)
        if self.parts:
            self.source = self.next()
        else:
            self.source = DescriptorReader(-1)
        return self.source.descriptor >= 0


def test_everything_is_journalled_before_it_is_handed_over_and_memory_is_used_again() -> None:
    parts = [random.Random(n).randbytes(9_000_000) for n in range(2)]
    journal = bytearray()
    rig = Lines(list(parts))
    reader = StreamReader(rig, journal.extend)
    got, lines, addresses = bytearray(), [], []
    reader.start()
    while len(lines) < 3:
        item = reader.items.get(timeout=PATIENCE_S)
        if isinstance(item, memoryview):
            assert journal[len(got) : len(got) + len(item)] == item
            got += item
            addresses.append(id(item.obj))
            reader.release(item)
        else:
            lines.append(item)
            rig.may_come_back.set()
    reader.stop()
    assert lines == [LineState.CUT, LineState.BACK, LineState.CUT]
    assert got == journal == b"".join(parts)
    assert len(set(addresses)) < len(addresses)


def test_a_journal_that_fails_ends_the_reader_with_its_error() -> None:
    def full(_: memoryview) -> None:
        raise CaptureError("disk full")

    reader = StreamReader(Lines([b"abc"]), full)
    reader.start()
    item = reader.items.get(timeout=PATIENCE_S)
    reader.stop()
    assert isinstance(item, WattbellError)
    assert "disk full" in str(item)
