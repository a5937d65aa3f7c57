"""Limits of error of a waveform from a file.

Terms that the user states win over terms known of the instrument. For the rest, an assumption is made and named.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..errors import UsageError
from ..formats import ppk2, ppk2session
from ..formats.waveform import About, Accuracy
from ..meters import ppk2 as ppk2_meter

ASSUMED = Accuracy(
    gain=0.05,
    offset_a=1e-3,
    timebase=100e-6,
    source="assumed, since the file states none: gain 5 %, offset 1 mA, timebase 100 ppm; state yours with --accuracy",
)
_PPK2 = Accuracy(ppk2_meter.GAIN, ppk2_meter.OFFSET_A, ppk2_meter.TIMEBASE, ppk2_meter.ACCURACY)
KNOWN = {ppk2.TITLE: _PPK2, ppk2session.TITLE: _PPK2}
"""Terms by format, for formats that identify an instrument with figures published by its maker."""
_TERMS = {"gain": "gain", "offset": "offset_a", "timebase": "timebase"}


def parse_accuracy(text: str) -> dict[str, float]:
    """``gain=0.003,offset=2e-5,timebase=5e-5`` as terms of :class:`Accuracy`. Raises UsageError."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if name.strip() not in _TERMS or not 0 <= number <= 1:
            raise UsageError(f"--accuracy {text}: give gain=, offset= (A) and timebase= from 0 to 1, such as gain=0.003,offset=2e-5.")
        found[_TERMS[name.strip()]] = number
    return found


def accuracy_of(about: About, stated: dict[str, float]) -> Accuracy:
    """Return the accuracy of an open file. The uncertainty of a voltage stated by the user is added to the gain of the power."""
    base = about.accuracy or KNOWN.get(about.title, ASSUMED)
    if stated:
        rest = "" if len(stated) == len(_TERMS) else f"; the rest: {base.source}"
        names = ", ".join(name for name, term in _TERMS.items() if term in stated)
        base = replace(base, **stated, source=f"stated by the user: {names}{rest}")
    if about.volts is not None:
        share = about.volts.u / abs(about.volts.value)
        told = f"the voltage is stated, {about.volts.value:g} V within {about.volts.u:g} V"
        base = replace(base, gain=min(1.0, math.hypot(base.gain, share)), source=f"{base.source}; {told}")
    return base
