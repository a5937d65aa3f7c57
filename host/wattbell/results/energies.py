"""What a run says of energy: of one command by class, of where the joules of each phase went, and of the power states that were found.

These are the types of ``energy`` in the document of a run that was made of a capture (:mod:`.from_capture`); suites do not write it.
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
        """As everywhere else; ``absent``: why there may be none."""
        return Figure(self.value, self.u, unit, self.n_lost, {} if self.value is not None else {"absent": absent})


class Joules(msgspec.Struct, frozen=True):
    """A part of a phase's energy."""

    value: Number
    u: Amount | None = None
    n_lost: Count = 0

    @property
    def known(self) -> Known:
        """As everywhere else."""
        return Known(self.value, self.u, "J", self.n_lost)


class CommandEnergy(msgspec.Struct, frozen=True):
    """Energy of one command in J. ``note``: why it has no interval, or what it must be read with. ``depth``: commands in flight. ``mix``:
    of a figure of several classes, how many commands of each there were; empty where that is not known."""

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
    """Where a phase's joules went, as :class:`wattbell.analysis.result.EnergyShares` has them."""

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


class Level(msgspec.Struct, frozen=True):
    """Idle power in a state. ``link``: the state that the link was in for all but a hundredth of the time; empty where that is not known,
    or was more than one."""

    power_w: Quantity
    link: str = ""


class StateFound(msgspec.Struct, frozen=True):
    """A power state by its label. ``probability``: that the label is right, over its time."""

    label: Name
    time_s: Amount
    share: Share
    probability: Share | None = None
    levels: list[Level] = []


class Passage(msgspec.Struct, frozen=True):
    """Into a sleeping state and out of it, woken ``by`` commands of a class. ``note``: what the energy of the exit must be read with;
    ``absent``: why there is no break-even."""

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
    """Of :meth:`figures`, those that ``note`` is about."""

    def figures(self, run: str) -> dict[str, Figure]:
        """By name. ``run``: its name, for the reason why one is missing."""
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
