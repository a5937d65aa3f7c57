"""SUMP commands and samples: any bytes, any pieces; samples read back as libsigrok's driver reads them."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from wattbell.serve.sump.protocol import ID, MEMORY_BYTES, RESET, ArmSettings, Parser, metadata

WORDS = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 300)), min_size=1, max_size=20)


def received(data: bytes, flags: int, limit: int) -> list[int]:
    """Samples in order of time, as assembled by `ols_receive_data` of libsigrok 0.5.2; reimplemented from it."""
    groups = [group for group in range(4) if not flags >> 2 & 1 << group]
    samples: list[int] = []
    again = 0
    for at in range(0, len(data), len(groups)):
        piece = data[at : at + len(groups)]
        if flags & 0x100 and piece[-1] & 0x80:
            again = int.from_bytes(piece, "little") & ~(0x80 << 8 * (len(groups) - 1))
            continue
        word = sum(byte << 8 * group for byte, group in zip(piece, groups))
        samples += [word] * (again + 1)
        again = 0
    return samples[:limit][::-1]


@given(st.binary(max_size=60), st.data())
def test_pieces_of_any_size_make_the_same_commands(data: bytes, draw: st.DataObject) -> None:
    parser, found, at = Parser(), [], 0
    while at < len(data):
        size = draw.draw(st.integers(1, len(data) - at))
        found += parser.feed(data[at : at + size])
        at += size
    assert found == Parser().feed(data)
    assert sum(5 if command >= 0x80 else 1 for command, _ in found) > len(data) - 5


@given(st.binary(max_size=200))
def test_five_resets_bring_it_into_step(garbage: bytes) -> None:
    parser = Parser()
    parser.feed(garbage)
    answers = parser.feed(bytes(5) + b"\x02")
    assert (RESET, 0) in answers
    assert answers[-1] == (ID, 0)


@given(WORDS, st.integers(0, 14), st.booleans())
def test_samples_arrive_as_they_were(runs: list[tuple[int, int]], off: int, rle: bool) -> None:
    words = np.repeat(np.array([word for word, _ in runs], np.uint32), [count for _, count in runs])
    settings = ArmSettings(flags=off << 2 | rle << 8)
    sent = settings.encode(words)
    mask = sum(0xFF << 8 * group for group in settings.groups)
    if rle:  # the top bit of the data is RLE's own
        mask &= ~(0x80 << 8 * settings.groups[-1])
        assert len(sent) <= 2 * sum(1 + count // 127 for _, count in runs) * len(settings.groups)
    assert received(sent, settings.flags, len(words)) == (words & np.uint32(mask)).tolist()


def test_settings_as_sigrok_sends_them() -> None:
    """Bytes that sigrok-cli 0.7.2 sent for `samplerate=1m:captureratio=20 --samples 1000 -t 5=01`, from its log."""
    sent = "c020000000c100000000c200000000c420000000c520000000c600000100c800000000c900000000ca00000208"
    settings = ArmSettings()
    for command, argument in Parser().feed(bytes.fromhex(sent + "8063000000" + "84f9000000" + "83c7000000" + "8232000000")):
        assert settings.apply(command, argument)
    assert (settings.period_ticks, settings.samples, settings.delay, settings.groups) == (1000, 1000, 800, [0, 1])
    assert [(s.mask, s.value, s.level, s.start) for s in settings.stages.values()] == [
        (32, 0, 0, False),
        (32, 32, 1, False),
        (0, 0, 2, True),
    ]
    assert settings.refusals() == []


def test_counts_of_16_bits_the_fast_clock_and_what_is_refused() -> None:
    settings = ArmSettings()
    settings.apply(0x81, 0x0003_0001)
    assert (settings.samples, settings.delay) == (8, 16)
    settings.apply(0x80, 0xFF000004)
    settings.apply(0x82, 1)
    assert settings.period_ticks == 25, "200 MHz / 5"
    settings.apply(0x84, 2**32 - 1)
    assert settings.samples == MEMORY_BYTES // 4
    settings.apply(0x82, 1 << 6 | 1 << 11)
    settings.apply(0xCE, 1 << 26)
    assert len(settings.refusals()) == 3
    assert not any(settings.apply(command, 0) for command in (0x85, 0x9E, 0xC3, 0xCF, 0xD0, 0xFF))


def test_metadata_is_tokens_to_their_end() -> None:
    data = metadata("1.2.3", 9)
    assert data.startswith(b"\x01Wattbell\0\x021.2.3\0")
    numbers = data[len(b"\x01Wattbell\0\x021.2.3\0") :]
    assert struct.unpack(">BIBIBBBBB", numbers) == (0x21, MEMORY_BYTES, 0x23, 100_000_000, 0x40, 9, 0x41, 2, 0)
