"""Signals that exist in both directions of the link, written once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.lib import wiring
from amaranth.lib.wiring import Member, Out

__all__ = ["SIDES", "SideSignature", "sides"]

SIDES = ("down", "up")
"""Host to drive, drive to host. Their positions are the directions on the wire: 0, 1."""


class SideSignature(wiring.Signature):
    """Signature of one direction: the signals that a component has for each of :data:`SIDES`.

    `members` has their directions as the component sees them. :meth:`both` gives the component's ports ``down`` and ``up``.
    """

    def __init__(self, members: Mapping[str, Member]) -> None:
        super().__init__(dict(members))

    def both(self) -> dict[str, Member]:
        """Return the two ports of a component, by name."""
        return {name: Out(self) for name in SIDES}


def sides(component: Any) -> tuple[Any, ...]:
    """Return the component's members ``down`` and ``up``."""
    return tuple(getattr(component, name) for name in SIDES)
