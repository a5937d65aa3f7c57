"""How a capture shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from ..capture import Capture
from ..measure.phases import Phase
from ..origin import origin_of_capture
from ..text import count, duration, printable
from .span import Bounds

_MOST = 40
"""Phases that are listed."""


def card(capture: Capture, bounds: Bounds, phases: Sequence[Phase]) -> str:
    """Return a summary of the recording, its losses, and the phases, as HTML. Everything that comes from the capture is text."""
    meta = capture.meta
    drive, conditions, counts = meta.get("drive") or {}, meta.get("conditions") or {}, meta.get("counts") or {}
    rail = meta.get("rail") or {}
    origin = origin_of_capture(meta)
    title = origin.marked(str(drive.get("model") or capture.path.name))
    parts = [f"{duration(bounds.duration_s)} recorded", f"{count(int(counts.get('commands') or 0))} commands"]
    if rail.get("samples"):
        parts.append(f"rail every {duration(rail['interval_ticks'] * bounds.tick_s)}")
    parts.append(origin.warning or "measured at the drive's connector")
    parts += [f"profile {conditions['profile']}"] if conditions.get("profile") else []
    parts += [capture.state] if capture.state != "complete" else []
    lossless = (meta.get("loss") or {}).get("lossless")
    loss = Markup("nothing lost") if lossless else Markup("<b style='color:#b3261e'>data were lost: see <code>.gaps</code></b>")
    rows = Markup("").join(
        Markup("<tr><td>{}</td><td style='text-align:left'>{}</td><td style='text-align:left'>{}</td><td>{}</td><td>{}</td></tr>").format(
            p.number,
            printable(p.name),
            printable(p.kind),
            f"{bounds.seconds(p.first_tick):.6f}",
            duration((p.last_tick - p.first_tick) * bounds.tick_s),
        )
        for p in phases[:_MOST]
    )
    more = f"and {len(phases) - _MOST} more: see phases" if len(phases) > _MOST else ""
    table = (
        Markup(
            "<table><thead><tr><th>phase</th><th style='text-align:left'>name</th><th style='text-align:left'>kind</th><th>begin, s</th>"
            "<th>lasts</th></tr></thead><tbody>{}</tbody></table>{}"
        ).format(rows, more)
        if phases
        else Markup("")
    )
    return str(
        Markup("<div><b>{}</b> {}<br>{}<br>{}<br><small>{}</small>{}</div>").format(
            printable(title),
            printable(f"firmware {drive['firmware']}" if drive.get("firmware") else ""),
            escape(printable(" · ".join(parts))),
            loss,
            printable(str(capture.path)),
            table,
        )
    )
