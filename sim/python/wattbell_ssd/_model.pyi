"""The SSD model. Times are in picoseconds; time 0 is the instant at which the link is up."""

from typing import Literal, final

__all__ = ["Drive", "DriveError", "profile_text", "profiles"]

class DriveError(ValueError):
    """Reports in one line a call that the drive refuses: an unknown profile, a malformed TLP, a time that goes back."""

@final
class Drive:
    """An NVMe SSD with its link up, 8 GT/s with four lanes.

    The time of a TLP is the instant of its first symbol. The model keeps the time of both lanes: a TLP that is given while the host's lane
    is busy, or the link asleep, follows as soon as it can.

    profile: name of a built-in profile, or path of a .toml file
    seed: of everything random
    condition: contents before the first write
    store: keep written data and return it; otherwise reads return zeros
    rail: keep changes of the rail for `take_rail`
    ready_us: from CC.EN to CSTS.RDY; None: as the profile says

    Raises DriveError. After a defect of the model, every call raises it.
    """

    def __new__(
        cls,
        profile: str = "intel-660p-1tb",
        *,
        seed: int = 0,
        condition: Literal["test-data", "full", "empty"] = "test-data",
        store: bool = True,
        rail: bool = False,
        ready_us: int | None = None,
    ) -> Drive: ...
    def push(self, time_ps: int, tlp: bytes) -> None:
        """Give the drive a TLP of the host: prefixes, header, payload, digest. The drive's time becomes `time_ps`. Raises DriveError."""

    def advance(self, time_ps: int) -> list[tuple[int, bytes]]:
        """Do everything that is due until `time_ps`; return time and bytes of each TLP that the drive sent. Raises DriveError."""

    def next_ps(self) -> int | None:
        """Return when the drive sends or does something next; None if it does nothing until the host sends something."""

    def take_rail(self) -> list[tuple[int, int, int]]:
        """Return the new changes of the rail: time, current in nA, voltage in nV. A change is final a little later than it happens."""

    @property
    def now_ps(self) -> int:
        """Return the drive's time."""

    @property
    def energy_pj(self) -> int:
        """Return the energy since time 0 in pJ. A difference, divided by its time in ps, is a mean power in W."""

    @property
    def power_nw(self) -> int:
        """Return the present power in nW."""

    @property
    def link_state(self) -> str:
        """Return the state of the link: L0, L1, L1.2, Recovery or Detect."""

    @property
    def power_state(self) -> int:
        """Return the number of the NVMe power state that the drive is in, or on its way to."""

    @property
    def outstanding_reads(self) -> int:
        """Return the number of the drive's read requests that wait for completions."""

    @property
    def discarded_tlps(self) -> int:
        """Return the number of the host's TLPs that the drive threw away: completions of no request, writes elsewhere, poisoned writes."""

def profiles() -> list[str]:
    """Return the names of the built-in profiles."""

def profile_text(name: str) -> str:
    """Return the TOML of a built-in profile, to be changed and loaded by path. Raises DriveError."""
