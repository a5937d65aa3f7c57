"""A run's energies: of one command by class, of each phase by use, and of the power states that were found.

These are the types of ``energy`` in the document of a run that was made of a capture (:mod:`.from_capture`). Suites do not write it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from ..measure.figure import Figure, Known
from .limits import LARGEST, Count, Name, Number

Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Quantity(msgspec.Struct, frozen=True):
    """A figure that may be missing; the unit is in its name."""

    value: Number | None = None
    u: Amount | None = None
    n_lost: Count = 0

    def figure(self, unit: str, absent: str = "") -> Figure:
        """Return the quantity as a Figure. ``absent``: reason if it has no value."""
        return Figure(self.value, self.u, unit, self.n_lost, {} if self.value is not None else {"absent": absent})


class Joules(msgspec.Struct, frozen=True):
    """A part of a phase's energy."""

    value: Number
    u: Amount | None = None
    n_lost: Count = 0

    @property
    def known(self) -> Known:
        """The quantity in J as a Known."""
        return Known(self.value, self.u, "J", self.n_lost)


class CommandEnergy(msgspec.Struct, frozen=True):
    """Energy of one command in J.

    note: why it has no interval, or a remark that a reader needs
    depth: commands in flight
    mix: for a figure of several classes, the number of commands of each; empty if unknown
    """

    name: Name
    energy_j: Quantity
    depth: str = ""
    note: str = ""
    mix: dict[str, Count] = {}

    @property
    def classes(self) -> frozenset[str]:
        """Classes that the figure is for."""
        return frozenset(self.name.split(" + "))


class Shares(msgspec.Struct, frozen=True):
    """Uses of a phase's energy, like :class:`wattbell.analysis.result.EnergyShares`."""

    total_j: Joules
    baseline_j: Joules
    classes_j: dict[str, Joules]
    after_j: Joules
    deferred_j: Joules
    unexplained_j: Joules


class PhaseEnergy(msgspec.Struct, frozen=True):
    """A phase. ``absent``: why there are no classes."""

    name: Name
    classes: list[CommandEnergy] = []
    absent: str = ""
    shares: Shares | None = None


class StateIdlePower(msgspec.Struct, frozen=True):
    """Idle power in a state.

    link: the link's state for all but a hundredth of the time; empty if unknown, or if there were several states
    """

    power_w: Quantity
    link: str = ""


class StateFound(msgspec.Struct, frozen=True):
    """A power state by its label. ``probability``: that the label is right, over its time."""

    label: Name
    time_s: Amount
    share: Share
    probability: Share | None = None
    levels: list[StateIdlePower] = []


class Passage(msgspec.Struct, frozen=True):
    """The ways into and out of a sleeping state, woken ``by`` commands of a class.

    note: a remark that a reader of the exit's energy needs
    absent: why there is no break-even
    """

    state: Name
    by: str = ""
    count: Count = 0
    entry_s: Quantity = Quantity()
    entry_j: Quantity = Quantity()
    exit_s: Quantity = Quantity()
    exit_j: Quantity = Quantity()
    break_even_s: Quantity = Quantity()
    note: str = ""
    absent: str = ""

    NOTED: ClassVar = ("exit, energy", "break-even")
    """Names in :meth:`figures` that ``note`` is about."""

    def figures(self, run: str) -> dict[str, Figure]:
        """Return the figures by name. ``run``: its name, for the reason of a missing figure."""
        absent = f"{run}: {self.absent or 'not told'}"
        return {
            "entry": self.entry_s.figure("s", absent),
            "entry, energy": self.entry_j.figure("J", absent),
            "exit": self.exit_s.figure("s", absent),
            "exit, energy": self.exit_j.figure("J", absent),
            "break-even": self.break_even_s.figure("s", absent),
        }


class Energies(msgspec.Struct, frozen=True):
    """All of them. ``alone``: of commands that stood alone."""

    phases: list[PhaseEnergy] = []
    alone: list[CommandEnergy] = []
    states: list[StateFound] = []
    states_absent: str = ""
    passages: list[Passage] = []
