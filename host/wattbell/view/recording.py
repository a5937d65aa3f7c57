"""A capture that is being recorded, as far as it has come: from its live summary. The recorder does not notice."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from starlette.exceptions import HTTPException

from ..capture import meta
from ..capture.live import LiveReader
from ..jsondata import JsonObject
from ..origin import origin_of_capture
from .asked import Asked
from .plain import rounded, rounded_one

ENDED = "The capture is not being recorded."


def _reader(asked: Asked) -> LiveReader:
    live = asked.shown.live
    if live is None:
        raise HTTPException(409, ENDED)
    return live


def _span(asked: Asked, live: LiveReader) -> tuple[int, int]:
    return asked.span_from(live.begin, max(live.end, live.begin + 1), live.begin)


def capture(asked: Asked) -> JsonObject:
    """Return the same keys as for a complete capture; unknown values are empty."""
    live = _reader(asked)
    end, latest = live.end, live.latest()
    about = meta.load(asked.shown.path)
    conditions = about.get("conditions") or {}
    origin = origin_of_capture(about)
    anchor = about["clock"].get("utc_anchor")
    tick_s = live.tick_ps * 1e-12
    return {
        "name": asked.shown.name,
        "state": "recording",
        "tick_s": tick_s,
        "origin_tick": live.begin,
        "begin": 0,
        "end": max(end - live.begin, 0),
        "utc_origin_s": anchor["utc_ns"] * 1e-9 - (anchor["tick"] - live.begin) * tick_s if anchor else None,
        "has": {
            "rail": latest is not None and latest.samples > 0,
            "commands": latest is not None and latest.commands > 0,
            "events": False,
            "tlps": False,
            "link": False,
        },
        "rail": None,
        "drive": about.get("drive"),
        "origin": {"mark": origin.mark, "words": origin.words},
        "conditions": [origin.warning] * bool(origin.warning) + [str(note) for note in conditions.get("notes") or []],
        "loss": list(latest.lost) if latest else [],
        "phases": [],
        "classes": [],
        "commands": latest.commands if latest else 0,
        "live": True,
        "align": 0,
    }


def rail(asked: Asked) -> JsonObject:
    """Mean and limits of points."""
    live = _reader(asked)
    found = live.rail(*_span(asked, live), asked.points)
    rows = {
        name: {"mean": rounded(one.mean), "min": rounded(one.min), "max": rounded(one.max)}
        for name, one in (("power", found.power), ("current", found.current), ("voltage", found.voltage))
    }
    return {"raw": False, "t": found.t - live.begin, **rows}


def load(asked: Asked) -> JsonObject:
    """MB/s by direction, IOPS, mean depth, p99."""
    live = _reader(asked)
    found = live.load(*_span(asked, live), asked.points)
    return {
        "width": found.width_ticks,
        "t": found.t - live.begin,
        **{name: rounded(getattr(found, name)) for name in ("read_mb_per_s", "write_mb_per_s", "iops", "depth_mean", "p99_s")},
        "depth_max": np.full(len(found.t), np.nan),
    }


def latest(asked: Asked) -> JsonObject:
    """The figures of this moment; all null before the first data."""
    live = _reader(asked)
    found = live.latest()
    if found is None:
        names = ("t", "w", "a", "v", "read_mb_per_s", "write_mb_per_s", "iops", "p99_s", "energy_j", "left_s")
        return {**dict.fromkeys(names), "lost": [], "waiting": False}
    figures = {name: rounded_one(value) if isinstance(value, float) else value for name, value in asdict(found).items() if name != "tick"}
    return {"t": found.tick - live.begin, **figures}
