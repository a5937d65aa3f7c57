"""Colours that must differ can be distinguished, by colour-blind people too."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from wattbell.present.colours import PALETTE, READ, WRITE, look

Float = npt.NDArray[np.float64]

# Machado, Oliveira, Fernandes 2009, severity 1.0; linear RGB
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = XYZ.sum(axis=1)
LEAST = 10.0
"""CIE76. 2.3 is just noticeable side by side; separate thin lines and dots need several times as much."""


def linear(colour: str) -> Float:
    srgb = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(colour: str, sight: Float) -> Float:
    ratio = XYZ @ np.clip(sight @ linear(colour), 0, 1) / WHITE
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(a: str, b: str, sight: Float) -> float:
    return float(np.linalg.norm(lab(a, sight) - lab(b, sight)))


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_are_told_apart(sight: str) -> None:
    close = {pair: difference(*pair, SIGHT[sight]) for pair in combinations(PALETTE, 2)}
    assert min(close.values()) >= LEAST, min(close, key=lambda pair: close[pair])
    assert difference(READ, WRITE, SIGHT[sight]) >= 4 * LEAST


def test_the_measure_tells_what_was_wrong_before() -> None:
    """Reads in blue and writes in violet; two phases in green and red: identical to a deuteranope."""
    assert difference("#1f6f9f", "#8a4a9e", SIGHT["deuteranopia"]) < 4
    assert difference("#3c7d3c", "#b23a48", SIGHT["deuteranopia"]) < 4


def test_colours_are_seen_on_white() -> None:
    for colour in PALETTE:
        luminance = float(XYZ[1] @ linear(colour))
        assert 1.05 / (luminance + 0.05) >= 2.1


def test_more_than_the_palette_are_told_apart_by_dashes() -> None:
    assert len({look(place) for place in range(2 * len(PALETTE))}) == 2 * len(PALETTE)
