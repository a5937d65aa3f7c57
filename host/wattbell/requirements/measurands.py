"""Measurands: the quantities that requirements may name, and the shape of an observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..measure.figure import Figure
from ..origin import Origin
from ..results.declared import PowerStateDescriptor
from .model import Requirement


@dataclass(frozen=True)
class Measurand:
    """A measurand.

    unit : of its figures.
    text : its definition.
    needs : keys of a requirement that must be given with it.
    takes : further keys that have a meaning with it.
    """

    unit: str
    text: str
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


MEASURANDS: dict[str, Measurand] = {
    "largest-mean-power": Measurand(
        "W",
        "The largest mean of the rail's power over a moving window. With states: while the host had requested that state.",
        needs=("window_s",),
        takes=("states", "sampling_s", "duration_s"),
    ),
    "asleep-power": Measurand(
        "W",
        "The largest mean over a moving window in a non-operational state, without a command and without the permissive mode.",
        needs=("window_s", "states"),
        takes=("sampling_s", "duration_s"),
    ),
    "idle-power": Measurand("W", "The mean power of each level between commands.", takes=("duration_s",)),
    "state-maximum-power": Measurand(
        "W", "The highest mean power of work in an operational state, or the level of a state asleep.", needs=("states",)
    ),
    "state-idle-power": Measurand("W", "The mean of 30 s that begin after 10 s of idle, in one state (IDLP).", needs=("states",)),
    "state-active-power": Measurand("W", "The largest mean over 10 s under the declared workload (ACTP).", needs=("states",)),
    "state-entry-latency": Measurand("s", "The longest time from the request to the rail at the state's level (ENLAT).", needs=("states",)),
    "state-exit-latency": Measurand(
        "s", "The longest time from the first command to its fetch, or to its completion less that awake (EXLAT).", needs=("states",)
    ),
    "state-transition-time": Measurand(
        "s", "The longest time from the request of the host to the rail at the new state's level, in the worst ordered pair of states."
    ),
    "apst-early": Measurand(
        "", "The shortest idle time before a transition of APST's table, as a part of the table's (ITPT).", needs=("states",)
    ),
    "apst-late": Measurand(
        "s", "The longest time from the end of the table's idle time to the rail at the state's level.", needs=("states",)
    ),
    "admin-latency": Measurand("s", "The longest time from doorbell to CQE of an admin command.", takes=("exempt", "duration_s")),
    "io-latency": Measurand("s", "The longest time from doorbell to CQE of an I/O command.", takes=("exempt", "duration_s")),
    "slow-io-per-hour": Measurand(
        "",
        "The largest number of I/O commands slower than a threshold that began within one hour.",
        needs=("threshold_s",),
        takes=("exempt", "duration_s"),
    ),
    "lowest-voltage": Measurand(
        "V",
        "The lowest mean of the rail's voltage over windows side by side, from the first command to the last, without resets.",
        needs=("window_s",),
    ),
    "highest-voltage": Measurand("V", "The highest of these means.", needs=("window_s",)),
    "warning-temperature": Measurand("C", "The declared warning composite temperature (WCTEMP)."),
    "critical-temperature": Measurand("C", "The declared critical composite temperature (CCTEMP)."),
    "enable-to-identify": Measurand("s", "The longest time from CC.EN = 1 to the CQE of the first Identify command."),
    "enable-to-io": Measurand("s", "The longest time from CC.EN = 1 to the CQE of the first I/O command."),
    "shutdown-time": Measurand("s", "The longest time from CC.SHN = 1 to CSTS.SHST = 2, between two reads of the host."),
    "own-meter-mean": Measurand("", "Difference of the mean in the drive's log page 25h from the rail's, as a part of the rail's."),
    "own-meter-largest": Measurand("", "The same for the largest interval of one second."),
    "own-meter-count": Measurand("s", "Distance of the measuring time from the counted intervals and one second more."),
    "own-meter-histogram": Measurand("", "Intervals in a wrong bin, beyond the drive's claimed error and our uncertainty."),
    "own-meter-time": Measurand("s", "Time from the drive's stamp of the largest interval to such an interval of the rail."),
    "meter-generation": Measurand(
        "", "Difference between the generation of log page 25h and the starts on the wire, the worst pair of pages."
    ),
    "own-energy": Measurand("Wh", "Distance of the difference of two SMART energy counters from the rail's energy between them."),
    "own-second": Measurand("", "Difference of the SMART log's latest second from the nearest second of the rail, as a part of it."),
    "threshold-event-late": Measurand(
        "s", "The latest event of the power threshold, behind the middle of the times at which its second may have ended."
    ),
    "threshold-event-extra": Measurand("", "Asynchronous events that no second above the enabled power threshold explains."),
    "own-latency-count": Measurand("", "Commands that a counter of OCP's latency monitor has too many or too few, the worst counter."),
    "own-latency-value": Measurand("s", "Difference of a latency that the monitor reports from the commands that may have it, the worst."),
    "own-latency-stamp": Measurand("s", "Spread of the offsets between the monitor's time stamps and the CQEs of their commands."),
}
"""All measurands by name."""
OWN_METER, OWN_LATENCY = (tuple(name for name in MEASURANDS if name.startswith(prefix)) for prefix in ("own-meter-", "own-latency-"))
"""Measurands that compare the drive's own power meter with the rail, and its own latency monitor with the wire."""
OWN_HEALTH = ("own-energy", "own-second")
"""Measurands that compare the power and the energy in the SMART log with the rail."""
EVENTS = ("threshold-event-late", "threshold-event-extra")
"""Measurands of events of the power threshold."""


@dataclass(frozen=True)
class Observation:
    """A figure of a measurand, in one scope of one subject.

    scope : a power state or a level; empty: the whole.
    figure : absent with its reason where nothing was seen.
    state : the declared descriptor of the scope, if the scope is a power state.
    seen_s : time of observation; None where time has no meaning.
    sampling_s : interval of the samples under the figure.
    doubt : a reason that makes any verdict conditional.
    brief : a reason that makes a pass conditional. A fail stands.
    over : a reason that makes a fail conditional: the figure may be more than the drive's. A pass stands.
    remark : a reason that a reader should know, such as a maximum of few events.
    among : a name that several scopes share, so that only the worst is a row; None: the scope is a row of its own.
    limits : declared fields of the scope (:data:`SCOPE_FIELDS`), by name; an absent figure has its reason.
    """

    scope: str
    figure: Figure
    state: PowerStateDescriptor | None = None
    seen_s: float | None = None
    sampling_s: float | None = None
    doubt: str = ""
    brief: str = ""
    over: str = ""
    remark: str = ""
    among: str | None = None
    limits: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """A capture or a suite's run that is judged.

    source : its path.
    model, serial, firmware : of the drive; empty where nobody saw them.
    states : declared power states; empty where nobody saw Identify.
    declares : further fields that the drive declares (:data:`DRIVE_FIELDS`), by name.
    observe : observations for a requirement; empty where this kind of subject cannot give the measurand.
    """

    source: str
    model: str
    serial: str
    firmware: str
    origin: Origin
    states: Sequence[PowerStateDescriptor]
    observe: Callable[[Requirement], list[Observation]]
    declares: Mapping[str, float] = field(default_factory=dict)

    @property
    def drive(self) -> str:
        """The drive in words, marked where its figures are a model's."""
        return self.origin.marked(" ".join(filter(None, (self.model, self.serial, self.firmware))) or "unknown drive")


def wanted_states(requirement: Requirement, states: Sequence[PowerStateDescriptor]) -> list[PowerStateDescriptor]:
    """Return the declared states that a requirement judges one by one; empty for ``any``."""
    if requirement.states == "any":
        return []
    return [one for one in states if requirement.states == "each" or one.operational is (requirement.states == "operational")]


DECLARED: dict[str, Callable[[PowerStateDescriptor], float | None]] = {
    "max_power_w": lambda one: one.max_w,
    "idle_power_w": lambda one: one.idle_w,
    "active_power_w": lambda one: one.active_w,
    "entry_latency_s": lambda one: one.entry_s,
    "exit_latency_s": lambda one: one.exit_s,
    "operational": lambda one: float(one.operational),
    "workload": lambda one: None if one.workload is None else float(one.workload),
}
"""Fields of a power state descriptor that expressions name as ``declared.FIELD``."""
DRIVE_FIELDS = ("last_operational_power_w", "own_meter_error", "power_states", "rtd3_entry_s")
"""Further fields of the drive: maximum power of its last operational state; claimed error of its power meter, as a part of the power; the
number of its power states; and RTD3E."""
SCOPE_FIELDS = ("transition_latency_s",)
"""Declared fields of two power states: EXLAT of the old one and ENLAT of the new one together."""


def drive_fields(subject: Subject) -> dict[str, float]:
    """Return the fields of :data:`DRIVE_FIELDS` that a drive declares."""
    awake = [one.max_w for one in subject.states if one.operational]
    last = {"last_operational_power_w": awake[-1]} if awake and awake[-1] is not None else {}
    return {**subject.declares, **last, **({"power_states": float(len(subject.states))} if subject.states else {})}
