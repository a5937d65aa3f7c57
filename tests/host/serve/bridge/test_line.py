"""Which of a client's bytes the bridge passes on to the control port."""

from __future__ import annotations

import os
import tty
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.serve.bridge.line import CLEAR, ControlLine

from tests.host.fuzzing import examples

LONGEST = ControlLine.LONGEST
LONG_TEXT = st.integers(LONGEST - 2, 3 * LONGEST).map(lambda size: b"y" * size)


class Far:
    """The rig's end of a control port."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        os.set_blocking(self.master, False)
        self.line = ControlLine(os.ttyname(self.slave), allow_power=True)

    def passed(self) -> bytes:
        """Returns what came through since the last call."""
        got = b""
        while self.line.has_waiting:
            self.line.write()
            try:
                got += os.read(self.master, 1 << 16)
            except BlockingIOError:
                continue
        return got

    def put(self, data: bytes) -> bytes:
        """Pass it to the bridge in pieces, as from a socket; returns what came through."""
        got = b""
        for at in range(0, len(data), 4096):
            self.line.put(data[at : at + 4096])
            got += self.passed()
        return got

    def close(self) -> None:
        self.line.close()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def far() -> Iterator[Far]:
    one = Far()
    yield one
    one.close()


@pytest.fixture(scope="module")
def long_lived() -> Iterator[Far]:
    one = Far()
    yield one
    one.close()


def test_a_line_that_never_ends_is_cut_to_what_the_rig_refuses(far: Far) -> None:
    assert far.put(b"x" * 1_000_000) == b"", "no line yet"
    assert far.put(b"x\n*IDN?\n") == b"x" * (LONGEST + 1) + b"\n*IDN?\n"


def test_what_a_client_began_of_a_line_goes_with_it(far: Far) -> None:
    far.put(b"x" * 100_000)
    far.line.end_client()
    assert far.put(b"*ESE?\n") == b"*ESE?\n"


def test_a_line_as_long_as_a_rig_takes_goes_out_as_it_is(far: Far) -> None:
    text = b"*ESE 1;" * (LONGEST // 7)
    assert far.put(text + b"\r\n") == text + b"\r\n"


def clear_and_after(data: bytes) -> bytes:
    """Bytes that must reach the rig, whatever came before a device clear."""
    return data.rpartition(bytes([CLEAR]))[2]


@examples(200)
@given(
    st.lists(st.one_of(st.binary(max_size=40), st.just(b"\n"), st.just(bytes([CLEAR])), LONG_TEXT), max_size=12),
    st.lists(st.integers(0, 4000), max_size=6),
)
def test_lines_do_not_depend_on_how_bytes_come(long_lived: Far, parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    far = long_lived
    far.put(bytes([CLEAR]))
    got, at = b"", 0
    for cut in [*sorted(cuts), len(data)]:
        if cut > at:
            got += far.put(data[at:cut])
            at = min(cut, len(data))
    *lines, begun = clear_and_after(data).split(b"\n")
    expected = b"".join(line[: LONGEST + 1] + b"\n" for line in lines)
    assert clear_and_after(got) == expected
    far.line.end_client()
    assert far.put(b"*ESE?\n") == b"*ESE?\n", begun
