"""The shape of the result of ``analyze`` (docs/methodology.md): JSON, except for the figures, which
:func:`wattbell.measure.encode.tree_json` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from wattbell.measure.depth import DepthSummary
from wattbell.measure.figure import Figure
from wattbell.measure.latency import Distribution
from wattbell.measure.loss import LossCounts
from wattbell.measure.rail import Power, RailSampling

from .rates import Rates

Meta = Mapping[str, Any]
"""A part of ``meta.json``, unchanged."""
_From = TypedDict("_From", {"from": str}, total=False)
_Class = TypedDict("_Class", {"class": str}, total=False)
_Pass = TypedDict("_Pass", {"pass": bool}, total=False)


class Absent(TypedDict):
    """A part that cannot be given, and why."""

    absent: str


class CommandLatency(_From, Distribution, total=False):
    """``from`` (doorbell, fetch; of a host's log: set-up, issue, submission) to CQE. ``without_start``: commands left out. ``saturated``:
    ages that are lower bounds."""

    without_start: int
    shadow_doorbells: int
    saturated: int
    lower_bound: bool


class Group(TypedDict):
    """Commands of one kind. ``count``: with a CQE, failed ones included. ``status``, ``error_bytes``: where some failed."""

    count: int
    bytes: int
    errors: int
    aborted: int
    latency_s: CommandLatency
    flags: NotRequired[dict[str, int]]
    status: NotRequired[dict[str, int]]
    error_bytes: NotRequired[int]
    splits_s: NotRequired[dict[str, Distribution]]


class Admin(TypedDict):
    """Admin commands."""

    count: int
    by_opcode: dict[str, Group]


class CommandTable(TypedDict):
    """I/O commands by name of the opcode, by bytes as text, and by both."""

    all: Group
    by_opcode: dict[str, Group]
    by_size: dict[str, Group]
    by_opcode_size: dict[str, dict[str, Group]]
    admin: Admin
    lost: NotRequired[int]
    flags: NotRequired[dict[str, int]]


class Consistency(TypedDict):
    """Spread of the completions in each second."""

    seconds: int
    iops_mean: float
    iops_std: float
    mean_over_std: float | None


class Efficiency(TypedDict, total=False):
    """Rate and power of the same time. ``absent``: why there is none."""

    absent: str
    mb_per_j: Figure
    iops_per_w: Figure
    j_per_gb: Figure
    j_per_gb_whole: Figure


class EnergyShares(TypedDict, total=False):
    """Energy of a window by its use.

    baseline_j: idle energy, less where the drive slept
    classes_j: by class of command; ``after_j`` lies behind the window's end
    deferred_j: work put off, above idle long after the last command
    total_j: all energy of the window
    unexplained_j: the rest of ``total_j``
    by_accounting: the class has by definition all energy above idle while commands were in flight
    """

    absent: str
    total_j: Figure
    baseline_j: Figure
    classes_j: dict[str, Figure]
    after_j: Figure
    deferred_j: Figure
    unexplained_j: Figure
    by_accounting: bool


class EnergyPerCommand(TypedDict, total=False):
    """``classes``: J by class of command, or by classes that the data do not tell apart; ``shares``: of the window."""

    absent: str
    method: str
    classes: dict[str, Figure]
    shares: EnergyShares


class AloneClass(TypedDict, total=False):
    """Energy of commands of one class that stood alone, in J above the baseline.

    count: number of such commands
    measured: number of commands measured
    refused: number that could not be measured, by reason
    mean_j: holds even if single commands are not resolved, which ``median_j`` states
    each_u_j: k = 2 of one command, the median over the commands
    p10_j, p90_j: spread from command to command
    back_s: from the CQE until the rail is back at the baseline
    """

    count: int
    measured: int
    refused: dict[str, int]
    pattern: str
    mean_j: Figure
    median_j: Figure
    p10_j: Figure
    p90_j: Figure
    each_u_j: float
    back_s: Figure


class Alone(TypedDict, total=False):
    """Energy of lone commands by class.

    quiet_s: time without any other command before and after
    absent: why there are none
    """

    absent: str
    quiet_s: float
    classes: dict[str, AloneClass]


class Owed(TypedDict, total=False):
    """Energy owed by commands: in J above the drive's baseline after the last CQE, until the drive is ``back`` there.

    back_s: time after the last CQE until then
    rest_s: time observed; ``energy_j`` is a lower bound if the drive does not come ``back``
    mb_per_j, j_per_gb: efficiency including the owed energy
    share: owed energy as a share of both together
    absent: why there is none
    """

    absent: str
    energy_j: Figure
    back: bool
    back_s: float
    rest_s: float
    share: Figure
    mb_per_j: Figure
    j_per_gb: Figure


class Window(TypedDict, total=False):
    """Figures of a window of the capture. ``consistency``: in windows of ten seconds and more with I/O."""

    commands: CommandTable
    rates: Rates
    queue_depth: DepthSummary
    loss_here: LossCounts
    consistency: Consistency
    power: Power
    efficiency: Efficiency
    energy_per_command: EnergyPerCommand
    owed: Owed


class LossAccount(LossCounts):
    """Losses of the whole capture. ``lossless``: the recorder's statement; ``meta``: its own counters that are not 0."""

    lossless: bool | None
    meta: Meta


class PhaseResult(Window):
    """A phase. ``described``: further keys of the phase in ``workload.phases``."""

    phase: int
    name: str
    kind: str
    first_tick: int
    last_tick: int
    duration_s: float
    notes: list[str]
    described: Meta


class CaptureAbout(TypedDict):
    """The thing recorded, and how it was recorded."""

    path: str
    state: str | None
    rig: Meta
    drive: Meta | None
    conditions: Meta
    software: Meta
    utc_anchor: Meta | None
    tick_s: float
    first_tick: int
    last_tick: int
    duration_s: float
    rail: RailSampling
    notes: list[str]


class Schema(TypedDict):
    """``k``: coverage factor of every ``u``."""

    name: str
    version: int
    k: int


class Side(TypedDict):
    """One direction of the link. ``counters``: by their names in :data:`wattbell_spec.wire.LINK_COUNTERS`."""

    direction: str
    state: str
    lanes: int
    reversed: bool
    rate_gt_s: float | None
    counters: dict[str, int]
    ack_mean_s: Figure


class IdleSegment(TypedDict):
    """A steady stretch of idle time; ``gap``, ``level``: which, counted from 0."""

    first_tick: int
    last_tick: int
    mean_w: float
    level: int
    gap: int
    after_idle_s: float


class IdleLevel(TypedDict):
    """A level of idle power. ``link``, ``clkreq``: share of its time by state; None if it was never seen."""

    label: str
    state: int | None
    how: str
    probability: float | None
    mean_w: Figure
    declared_max_w: float | None
    duration_s: float
    segments: int
    first_reached_s: float
    phases: list[str]
    link: dict[str, float] | None
    clkreq: dict[str, float] | None


class Idle(TypedDict, total=False):
    """Gaps of ``threshold_s`` and more without a command, and their levels by falling power. ``absent``: why there are none."""

    threshold_s: float
    gaps: int
    idle_s: float
    absent: str | None
    bin_s: float
    levels: list[IdleLevel]
    unsettled_s: float
    segments: list[IdleSegment]


class Span(TypedDict):
    """A stretch of one state.

    state: its number, if the label is a state
    probability: of the label being right, None without a claim
    shares: of the states that were weighed
    from_u_s: limit of error of the begin in s, 0 if the wire shows it
    """

    first_tick: int
    last_tick: int
    duration_s: float
    label: str
    state: int | None
    probability: float | None
    shares: dict[str, float]
    mean_w: float | None
    link: str | None
    from_u_s: float
    why: str


class Judged(TypedDict):
    """``verdict``: of :mod:`~wattbell.measure.judge`, and ``why``."""

    declared: float | None
    measured: Figure
    verdict: str
    why: str


class StateRow(TypedDict):
    """A declared power state. ``mean_w``: idle in it, whatever the link did; ``judged``: by the keys of ``drive.power_states``."""

    state: int
    operational: bool
    time_s: float
    mean_w: Figure
    judged: dict[str, Judged]


class StatesSeen(TypedDict):
    """The evidence for the states. ``commands``: wire, host or None."""

    rail_interval_s: float | None
    link: bool
    commands: str | None
    identify: bool
    requests: bool


class PowerStates(TypedDict, total=False):
    """Spans in order, time and share of the capture's time by label, and declared states beside measured ones.

    spans_total: number of all spans; at most 2000 are listed
    """

    absent: str
    seen: StatesSeen
    bin_s: float
    spans_total: int
    spans: list[Span]
    time_s: dict[str, float]
    share: dict[str, float]
    states: list[StateRow]


class LinkPart(TypedDict):
    """None if not seen."""

    link_exit_s: float | None
    from_clkreq_s: float | None


class Wakeup(_From, _Class, LinkPart, total=False):
    """The first command after an idle time."""

    start_tick: int
    idle_s: float
    state: str
    how: str
    latency_ticks: int
    lost: int
    latency_s: float
    extra_s: float | None
    to_fetch_s: float | None
    to_first_data_s: float | None


class Summary(TypedDict):
    """Summary of ``n`` times in s."""

    median: float
    max: float
    n: int


class WakeupGroup(_Class, total=False):
    """Wake-ups from one state by commands of one class."""

    state: str
    how: str
    count: int
    lost: int
    latency_s: Distribution
    idle_s_min: float
    idle_s_max: float
    extra_s: Summary | None
    to_fetch_s: Summary | None
    to_first_data_s: Summary | None
    link_exit_s: Summary | None
    from_clkreq_s: Summary | None


class TransitionPart(TypedDict):
    """Time and energy of one part of a wake-up.

    name: ``clkreq`` (from CLKREQ# asserted), ``link`` (recovering), ``to_doorbell`` (in L0), ``fetch`` (from the doorbell), ``controller``
        (from the SQE's fetch), ``data`` (from the first), or ``settling`` (from the CQE)
    """

    name: str
    s: Figure
    j: Figure


class Transition(_Class, total=False):
    """Ways into and out of a sleeping state.

    entry_j: energy above the state's level, from the moment at which the rail leaves operational idle
    exit_j: energy above operational idle, from the first sign of waking until the rail is at rest, less ``command_j``
    break_even_s: time asleep beyond which sleep saves energy
    parts: of the wake-ups, nothing subtracted
    """

    state: str
    how: str
    count: int
    idle_w: Figure
    state_w: Figure
    entry_s: Figure
    entry_j: Figure
    exit_s: Figure
    exit_j: Figure
    command_j: Figure
    break_even_s: Figure
    parts: list[TransitionPart]


class Wakeups(TypedDict):
    """All wake-ups (at most 1000), and by state and class. ``transitions``: of those from a sleeping state, with energies."""

    threshold_s: float
    definition: str
    events: list[Wakeup]
    by_state: list[WakeupGroup]
    transitions: list[Transition]


class TruthPhase(_Pass, total=False):
    """Energy and mean power of a phase beside those that the model emitted."""

    phase: int
    name: str
    start_ticks_off: int
    end_ticks_off: int
    absent: str | None
    energy_truth_j: float
    energy_error: float
    energy_limit: float
    mean_truth_w: float
    mean_error_w: float
    mean_limit_w: float


class TruthInstant(TypedDict):
    """One of the seven instants, over the commands that have it."""

    compared: int
    max_ticks: int
    missing: int
    extra: int
    saturated: int
    after_release: int


class TruthCommands(_Pass, total=False):
    """Records beside the commands that the model played."""

    truth: int
    records: int
    paired: int
    wrong_opcode: int
    wrong_address: int
    wrong_status: int
    instants: dict[str, TruthInstant]
    max_ticks: float
    limit_ticks: float
    instants_missing_or_extra: int


class TruthWake(_Pass, total=False):
    """A waking read beside the model's."""

    phase: int
    name: str
    true_state: int | None
    limit_s: float
    truth_s: float | None
    absent: str
    measured_s: float
    error_s: float
    state: str
    state_right: bool


class Truth(_Pass, total=False):
    """The comparison with the model's own record of its work; virtual rigs only."""

    definition: str | None
    phases: list[TruthPhase]
    missing_phases: list[int]
    commands: TruthCommands | None
    wakeups: list[TruthWake]


class FioRow(TypedDict):
    """One opcode on the wire and in fio's account; ``mixed`` for all data if fio gives only the sum.

    equal, bytes_equal: None if a job had an error
    latency_ok: None if it cannot be judged
    """

    opcode: str
    wire_count: int
    fio_count: int
    wire_bytes: int
    fio_bytes: int
    equal: bool | None
    bytes_equal: bool | None
    latency_ok: bool | None
    wire_latency_s: NotRequired[dict[str, float]]
    fio_latency_s: NotRequired[dict[str, float]]


class FioSection(TypedDict):
    """A phase, or the whole capture. ``void``: why fio's figures do not count, if so."""

    phase: int | None
    name: str
    rows: list[FioRow]
    void: NotRequired[str]


class FioComparison(TypedDict):
    """The wire beside fio. ``equal``: None if a row cannot be judged and no row differs."""

    source: str
    sections: list[FioSection]
    equal: bool | None
    latency_ok: bool
    commands_lost: int


class FioAccount(TypedDict):
    """A phase by fio's own account, if nobody saw its commands: rates over the phase, and with the rail's mean power over it.

    void: why the figures do not count and are absent, if so
    """

    phase: int
    name: str
    mb_per_s: Figure
    iops: Figure
    mean_latency_s: Figure
    mb_per_j: Figure
    iops_per_w: Figure
    j_per_gb: Figure
    void: NotRequired[str]


class Analysis(Window):
    """Every figure of a capture: of the whole capture, and phase by phase."""

    schema: Schema
    capture: CaptureAbout
    uncertainty: dict[str, float | str]
    loss: LossAccount
    warnings: list[str]
    link: list[Side]
    phases: list[PhaseResult]
    idle: Idle
    power_states: PowerStates
    alone: Alone
    wakeup: Wakeups
    truth: Truth | None
    fio: FioComparison | None
    fio_account: NotRequired[list[FioAccount]]
    """Instead of ``fio``, where nobody saw commands."""
