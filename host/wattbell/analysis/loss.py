"""Losses in words."""

from __future__ import annotations

from wattbell.analysis.result import LossAccount
from wattbell.text import count

LOSS_TEXT = {
    "tlp_down": "TLPs from host to drive",
    "tlp_up": "TLPs from drive to host",
    "slots": "commands for which no slot was free",
    "queues": "queues beyond its table",
    "pages": "data pages evicted while in use",
    "records": "command records",
    "events": "events",
    "rail": "rail samples",
    "raw": "bytes of raw TLPs",
    "raw_tlps": "raw TLPs",
    "status": "reports of its counters",
    "link": "reports of the link",
    "tags": "read requests or completions it could not match",
}
"""Losses in words, by the sources of LOSS events."""


def lost_parts(loss: LossAccount) -> list[str]:
    """``17 commands``, ``3 TLPs from host to drive``: everything that ``loss`` of a result says is missing, with its number. Empty only
    where nothing is known to be missing and the recorder says so too."""
    found = [f"{count(n)} {text}" for text, n in lost_counts(loss).items()]
    if not found and loss["lossless"] is not True:
        found = ["the recorder does not say that nothing was, see `wattbell info`"]
    return found


def lost_counts(loss: LossAccount) -> dict[str, int]:
    """Return the losses as numbers, by the thing lost; a recorder's doubt alone is no number."""
    parts = {
        "commands": loss["commands"],
        "rail samples": loss["rail_samples"],
        "blocks of unknown kind": loss["missing_blocks"],
        "gaps of unknown size": loss["gaps_of_unknown_size"],
        **{LOSS_TEXT.get(source, source): n for source, n in loss["rig"].items() if source != "slots"},
    }
    return {text: int(n) for text, n in parts.items() if n}
