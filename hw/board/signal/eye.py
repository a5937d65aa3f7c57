"""Eyes out of a channel's transfer, without a bit pattern: pulse response, distribution of the interference, jitter.

A bit's pulse response is sampled at 32 phases of the bit. The other bits add plus or minus its other samples, with equal probability. The
distribution of that sum is exact for random data. 8b/10b is less random, so at 2.5 and 5 GT/s the eye is a little better than here. Jitter
moves the sampling instant: a dual-Dirac and a Gaussian part, convolved along the time axis. ``worst`` is peak distortion: the worst
pattern, however rare.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri
from scipy.stats import norm

__all__ = ["BER", "PRESETS", "Eye", "ReceiverModel", "Transmitter", "ctle", "eye", "opening", "pulse", "total_jitter"]

BER = 1e-12
PHASES = 32
LEVELS = 4096
PRESETS = {
    "P0": (0.0, -0.25),
    "P1": (0.0, -0.167),
    "P2": (0.0, -0.2),
    "P3": (0.0, -0.125),
    "P4": (0.0, 0.0),
    "P5": (-0.1, 0.0),
    "P6": (-0.125, 0.0),
    "P7": (-0.1, -0.2),
    "P8": (-0.125, -0.125),
    "P9": (-0.166, 0.0),
}
"""PCIe's transmitter presets at 8 and 16 GT/s: coefficients before and after the cursor; the sum of magnitudes is 1."""


@dataclass(frozen=True)
class Transmitter:
    """``swing`` in V peak to peak, differential; ``rise`` in s (20 to 80 %); ``taps`` before and after the cursor."""

    swing: float
    rise: float
    taps: tuple[float, float] = (0.0, 0.0)

    @staticmethod
    def deemphasis(db: float) -> tuple[float, float]:
        """Return the taps of a transmitter with repeated bits ``db`` (negative) below its first."""
        ratio = 10 ** (db / 20)
        return 0.0, -(1 - ratio) / 2


@dataclass(frozen=True)
class ReceiverModel:
    """``dc_gain_db`` None: no CTLE. ``dfe``: limits of its taps in V (a tap moves the level by at most that)."""

    dc_gain_db: float | None = None
    pole1: float = 0.0
    pole2: float = 0.0
    dfe: tuple[float, ...] = ()


@dataclass(frozen=True)
class Eye:
    """``height`` in V peak to peak and ``width`` in UI at 1e-12; ``worst`` in V, peak distortion; both 0 where closed."""

    ui: float
    height: float
    width: float
    worst: float
    amplitude: float
    """Twice the cursor: the height without interference."""
    phase: float
    """Sampling instant, in UI from the middle of the drawing."""
    centre: float
    """Centre of the width, in UI from the same."""
    density: np.ndarray = field(repr=False)
    """Levels by phases, 2 UI wide, for drawing: probability of a level at a phase."""
    levels: np.ndarray = field(repr=False)
    receiver: ReceiverModel = ReceiverModel()
    transmitter: Transmitter | None = None


def ctle(f: np.ndarray, receiver: ReceiverModel) -> np.ndarray:
    """Transfer of PCIe's reference equaliser: wp2 (s + Adc wp1) / ((s + wp1)(s + wp2))."""
    if receiver.dc_gain_db is None:
        return np.ones_like(f, dtype=complex)
    s, p1, p2 = 2j * np.pi * f, 2 * np.pi * receiver.pole1, 2 * np.pi * receiver.pole2
    return p2 * (s + 10 ** (receiver.dc_gain_db / 20) * p1) / ((s + p1) * (s + p2))


def pulse(f: np.ndarray, transfer: np.ndarray, ui: float, tx: Transmitter, rx: ReceiverModel) -> np.ndarray:
    """Return the response at the slicer to one bit, ``PHASES`` samples a UI, in V for a bit of +swing / 2 (others idle at 0).

    ``f`` begins at one step above 0 and has equal steps. The value at 0 Hz is taken from the first. The AC-coupling of a link is left out:
    see :func:`board.signal.margins.wander`.
    """
    step = f[0]
    h = np.concatenate([[abs(transfer[0])], transfer]) * ctle(np.concatenate([[0.0], f]), rx)
    grid = np.concatenate([[0.0], f])
    # A Gaussian edge with a 20 to 80 % time of `rise`: sigma = rise / 1.683.
    h = h * np.exp(-0.5 * (2 * np.pi * grid * tx.rise / 1.683) ** 2)
    wanted = round(1 / (ui / PHASES) / step)  # samples in the period 1 / step
    nyquist = wanted // 2
    padded = np.zeros(nyquist + 1, dtype=complex)
    count = min(len(h), len(padded))
    padded[:count] = h[:count]
    bit = ui * np.sinc(grid[:count] * ui) * np.exp(-1j * np.pi * grid[:count] * ui)
    padded[:count] *= bit
    single = np.fft.irfft(padded, 2 * nyquist) * 2 * nyquist * step
    pre, post = tx.taps
    main = 1 - abs(pre) - abs(post)
    return np.asarray(tx.swing / 2 * (pre * single + main * np.roll(single, PHASES) + post * np.roll(single, 2 * PHASES)))


def _probabilities(samples: np.ndarray, cursor: np.ndarray, noise: float, aggressors: tuple[float, ...], span: float) -> np.ndarray:
    """Distribution of the level when a 1 is sent, by phase: (phases, LEVELS) over -span .. span, in steps of 2 span / LEVELS.

    Each interfering sample shifts half of the probability up and half down, split between neighbouring levels; those below one step
    count together as Gaussian.
    """
    step = 2 * span / LEVELS
    out = np.zeros((len(cursor), LEVELS))
    for n, (main, others) in enumerate(zip(cursor, samples)):
        size = np.abs(others)
        big = np.concatenate([size[size > step], np.abs(np.array(aggressors))])
        small = noise**2 + float(np.sum(size[size <= step] ** 2))
        row = np.zeros(LEVELS)
        at = (main + span) / step
        row[int(at)], row[int(at) + 1] = 1 - at % 1, at % 1
        for shift in big / step:
            whole, part = int(shift), shift % 1
            mixed = (1 - part) * np.roll(row, whole) + part * np.roll(row, whole + 1)
            row = (mixed + (1 - part) * np.roll(row, -whole) + part * np.roll(row, -whole - 1)) / 2
        sigma = np.sqrt(small) / step
        if sigma > 0.05:
            reach = int(np.ceil(8 * sigma)) + 1
            kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
            row = np.convolve(row, kernel / kernel.sum(), "same")
        out[n] = row
    return out


def _arranged(response: np.ndarray, rx: ReceiverModel) -> tuple[np.ndarray, np.ndarray, int]:
    """The cursor's samples at the phases of two UI around the peak, the other bits' samples at those, and the best phase."""
    peak = int(np.argmax(np.convolve(np.abs(response), np.ones(PHASES // 2), "same")))
    bits = len(response) // PHASES
    before = min(bits // 2, 10)
    after = min(bits - before - 2, 200)
    start = peak - (before + 1) * PHASES
    window = np.take(response, np.arange(start, start + (before + after + 2) * PHASES), mode="wrap")
    table = window.reshape(-1, PHASES).T
    own = np.concatenate([table[:, before], table[:, before + 1]])
    others = np.concatenate([table, table])
    others[:PHASES, before] = 0.0
    others[PHASES:, before + 1] = 0.0
    at = int(np.argmax(own - np.abs(others).sum(axis=1)))
    if rx.dfe:
        for n, limit in enumerate(rx.dfe, start=1):
            tap = float(np.clip(others[at, (before if at < PHASES else before + 1) + n], -limit, limit))
            others[:PHASES, before + n] -= tap
            others[PHASES:, before + 1 + n] -= tap
        at = int(np.argmax(own - np.abs(others).sum(axis=1)))
    return own, others, at


def opening(f: np.ndarray, transfer: np.ndarray, ui: float, tx: Transmitter, rx: ReceiverModel) -> float:
    """Peak distortion alone, V peak to peak: what settings of equalisers are compared by. Negative where closed."""
    own, others, at = _arranged(pulse(f, transfer, ui, tx, rx), rx)
    return 2 * float(own[at] - np.abs(others[at]).sum())


def eye(
    f: np.ndarray,
    transfer: np.ndarray,
    ui: float,
    tx: Transmitter,
    rx: ReceiverModel | None = None,
    jitter: tuple[float, float] = (0.0, 0.0),
    noise: float = 0.0,
    aggressors: tuple[float, ...] = (),
    threshold: float = 0.0,
) -> Eye:
    """``jitter``: dual-Dirac peak to peak and Gaussian RMS, in s. ``noise`` RMS and ``aggressors`` (peak levels) in V at the slicer.
    ``threshold``: the width is where the opening is at least so many V peak to peak (a limiting amplifier's sensitivity)."""
    rx = rx or ReceiverModel()
    own, others, at = _arranged(pulse(f, transfer, ui, tx, rx), rx)
    worst = own - np.abs(others).sum(axis=1)
    span = 1.3 * float(np.max(np.abs(own) + np.abs(others).sum(axis=1))) + 8 * noise + sum(aggressors) + 1e-6
    density = _probabilities(others, own, noise, aggressors, span)
    levels = -span + 2 * span / LEVELS * np.arange(LEVELS)
    density /= density.sum(axis=1, keepdims=True)
    below = np.cumsum(density, axis=1)
    below = _jittered(below, jitter, ui)
    # Lowest level that is undershot less often than BER, by phase.
    edge = np.array([levels[np.searchsorted(row, BER)] for row in below])
    middle = int(np.argmax(edge))
    height = max(0.0, 2 * float(edge[middle]))
    first, last = _open(edge - threshold / 2, middle)
    return Eye(
        ui,
        height,
        (last - first) / PHASES,
        max(0.0, 2 * float(worst[at] - sum(aggressors))),
        2 * float(own[at]),
        (middle - PHASES) / PHASES,
        ((first + last) / 2 - PHASES) / PHASES,
        density,
        levels,
        rx,
        tx,
    )


def _open(opening: np.ndarray, at: int) -> tuple[float, float]:
    """First and last sample at which ``opening`` is positive around ``at``, crossings interpolated."""
    if opening[at] <= 0:
        return float(at), float(at)
    left = at
    while left > 0 and opening[left - 1] > 0:
        left -= 1
    right = at
    while right < len(opening) - 1 and opening[right + 1] > 0:
        right += 1
    low = left - (opening[left] / (opening[left] - opening[left - 1]) if left > 0 else 0.0)
    high = right + (opening[right] / (opening[right] - opening[right + 1]) if right < len(opening) - 1 else 0.0)
    return float(low), float(high)


def _jittered(below: np.ndarray, jitter: tuple[float, float], ui: float) -> np.ndarray:
    """Probabilities of being below a level, by phase, averaged over the instant's distribution."""
    dirac, sigma = jitter
    if not dirac and not sigma:
        return below
    fine = ui / PHASES
    reach = dirac / 2 + 8 * sigma
    ticks = np.arange(-int(np.ceil(reach / fine)) - 1, int(np.ceil(reach / fine)) + 2)
    # Mass of each tick: of two Gaussians at +-dirac / 2, by their distribution functions.
    edges = np.concatenate([ticks - 0.5, [ticks[-1] + 0.5]]) * fine
    sigma = max(sigma, fine / 20)
    cumulative = 0.5 * (norm.cdf(edges, dirac / 2, sigma) + norm.cdf(edges, -dirac / 2, sigma))
    mass = np.diff(cumulative)
    # The upper tail as the mirror of the lower one: differences of numbers near 1 have lost it.
    half = len(mass) // 2
    mass[half + 1 :] = mass[:half][::-1]
    rows = len(below)
    index = np.clip(np.arange(rows)[:, None] + ticks[None, :], 0, rows - 1)
    return np.asarray(np.einsum("pt,ptl->pl", np.broadcast_to(mass, index.shape), below[index]))


def total_jitter(dirac: float, sigma: float) -> float:
    """Peak to peak at 1e-12, s."""
    return dirac - 2 * float(ndtri(BER)) * sigma
