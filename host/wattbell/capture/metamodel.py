"""Schema of ``meta.json``: the types, and the ranges of values that the rest of the code can work with.

Unnamed keys are accepted, so that an older wattbell can read the file of a newer one. A key without a default is read by the code, and
every capture has it. ``docs/meta.schema.json`` is generated from this file.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ..jsondata import JsonObject

TICKS = 1 << 61
"""No tick lies beyond this (73 years of nanoseconds), so that sums and differences of two fit 64 bits."""

Tick = Annotated[int, Meta(ge=-TICKS, le=TICKS)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
U32 = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
Seconds = Annotated[float, Meta(ge=-1, le=1)]
Relative = Annotated[float, Meta(ge=0, le=1)]
Apart = Annotated[float, Meta(ge=0, le=60)]
"""Seconds by which an instant of one clock may be off from another clock."""
Watt = Annotated[float, Meta(ge=0, le=1e5)]
Text = str | None
Name = Annotated[str, Meta(pattern=r"^(?!/)(?!(.*/)?\.\.?(/|$))[^\0]+$")]
"""A path relative to the capture."""
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
State = Literal["recording", "complete", "incomplete", "recovered"]
"""``recording``: not ended yet, or its recorder died. ``incomplete``: ended, but without everything the rig had to say. ``recovered``:
rebuilt from the journal."""


class UtcAnchor(Struct):
    """The time of day of a tick."""

    tick: Tick
    utc_ns: Annotated[int, Meta(ge=0, le=1 << 62)]
    utc: str


class Clock(Struct):
    """``tick_ps``: picoseconds per tick."""

    tick_ps: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    utc_anchor: UtcAnchor | None = None


class RailAbout(Struct):
    """The grid of the waveform. ``samples``: its length; ``stored_samples``: those in ``rail.jls``, which omits ``breaks`` gaps."""

    first_tick: Tick | None = None
    interval_ticks: Annotated[int, Meta(ge=1, le=0xFFFFFFFF)] | None = None
    samples: Count | None = None
    stored_samples: Count | None = None
    breaks: Count | None = None
    adc_period_ticks: U32 | None = None
    missing_samples: Count | None = None
    flags: Annotated[int, Meta(ge=0, le=0xFFFF)] = 0
    decimation: U32 | None = None

    def __post_init__(self) -> None:
        if self.samples and self.first_tick is not None:
            if self.interval_ticks is None:
                raise ValueError("samples without interval_ticks")
            if self.samples * self.interval_ticks > TICKS:
                raise ValueError("samples * interval_ticks is beyond any recording")


class RangeStated(Struct):
    """Error terms of one range of a meter."""

    gain: Relative
    offset_a: Relative


class ErrorModelStated(Struct):
    """Terms of the error model as stated by the rig itself (docs/accuracy.md)."""

    gain: Relative | UnsetType = UNSET
    offset_a: Relative | UnsetType = UNSET
    timebase: Relative | UnsetType = UNSET
    tick_resolution_s: Relative | UnsetType = UNSET
    instant_s: Relative | UnsetType = UNSET
    front_end_delay_s: Seconds | UnsetType = UNSET
    front_end_delay_u_s: Relative | UnsetType = UNSET
    ranges: Annotated[list[RangeStated], Meta(max_length=256)] | UnsetType = UNSET


class RigAbout(Struct):
    """Who recorded."""

    model: Text = None
    serial: Text = None
    gateware: Text = None
    firmware: Text = None
    data_port: Text = None
    error_model: ErrorModelStated | None = None


class Loss(Struct):
    """Counts of losses; the numbers are lower bounds."""

    lossless: bool | UnsetType = UNSET
    bytes_in: Count = 0
    missing_blocks: Count = 0
    skipped_bytes: Count = 0
    bad_crc: Count = 0
    malformed_blocks: Count = 0
    implausible_blocks: Count = 0
    unknown_kind: Count = 0
    unknown_version: Count = 0
    dropped: dict[str, Count] = {}
    gaps: dict[str, Count] = {}
    rig: dict[str, Count] = {}
    rig_events: dict[str, Count] = {}


class Namespace(Struct):
    """One namespace of the drive; ``lba_size_bytes`` is None if Identify held nonsense."""

    nsid: U32
    lba_size_bytes: Annotated[int, Meta(ge=1, le=1 << 31)] | None


class PowerState(Struct):
    """One power state as declared by the drive."""

    state: Annotated[int, Meta(ge=0, le=31)]
    max_power_w: Watt | None = None
    idle_power_w: Watt | None = None
    active_power_w: Watt | None = None
    entry_latency_s: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    exit_latency_s: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    non_operational: bool = False


class DriveAbout(Struct):
    """The drive's identity (Identify)."""

    source: Text = None
    model: Text = None
    serial: Text = None
    firmware: Text = None
    namespaces: list[Namespace] = []
    power_states: list[PowerState] = []

    def __post_init__(self) -> None:
        if self.model and (self.serial is None or self.firmware is None):
            raise ValueError("a model without serial and firmware")


class MarkerAbout(Struct):
    """Which admin command is a marker: its opcode and bits 7:0 of its CDW10."""

    opcode: Annotated[int, Meta(ge=0, le=255)]
    selector: Annotated[int, Meta(ge=0, le=255)]


class Conditions(Struct):
    """Conditions of every figure of the capture.

    virtual: None if unknown
    alignment_u_s: limit in s of the error between commands or events and the rail, if a map between two clocks placed them.
        If one clock stamps both, as our rig's does, the limit is 0
    """

    notes: list[str]
    virtual: bool | None = None
    profile: Text = None
    timing: Text = None
    fidelity: Text = None
    front_end_delay_s: Seconds | UnsetType = UNSET
    front_end_delay_u_s: Relative | UnsetType = UNSET
    front_end_delay_calibrated: bool | None = None
    alignment_u_s: Apart = 0.0
    trace_origin_tick: Tick | None = None
    marker: MarkerAbout | None = None
    """None: Get Features D0h."""

    def __post_init__(self) -> None:
        if (self.front_end_delay_s is UNSET) != (self.front_end_delay_u_s is UNSET):
            raise ValueError("one of front_end_delay_s and front_end_delay_u_s without the other")


class Settling(Struct):
    """The rail in a phase of kind ``settle``: the mean of its last ``window_s``, and how much its seconds differ. None: not completely
    received."""

    settled: bool
    after_s: Annotated[float, Meta(ge=0, le=1e9)]
    window_s: Annotated[float, Meta(ge=0, le=1e9)]
    mean_w: Annotated[float, Meta(ge=-1e5, le=1e5)] | None
    range_w: Watt | None


StateNumber = Annotated[int, Meta(ge=0, lt=32)]
IdleMs = Annotated[int, Meta(ge=0, lt=1 << 24)]


class FioPart(Struct):
    """Jobs of a phase in one of fio's JSON files: by their place in it, from 0."""

    fio: str
    jobs: list[Annotated[int, Meta(ge=0)]]


class PhaseAbout(Struct):
    """One phase of the workload; it lies between two markers of the stream. ``edge_u_s``: by how much each of its edges may be off against
    the rail, all reasons together; 0 if the tap saw the markers. Where ``conditions.alignment_u_s`` is larger, that counts.
    ``apst_table``: of a phase with APST on, as the host programmed it: rows of (from which state, into which, after ms of idle time)."""

    phase: Annotated[int, Meta(ge=0, lt=1 << 24)]
    name: Text = None
    kind: Text = None
    fio: Text = None
    fio_json: Text = None
    fio_group: int | None = None
    fio_parts: list[FioPart] | None = None
    job: Text = None
    jobs: str | list[str] | None = None
    edge_u_s: Apart = 0.0
    settling: Settling | None = None
    apst_table: Annotated[list[tuple[StateNumber, StateNumber, IdleMs]], Meta(max_length=32)] | None = None


class WorkloadAbout(Struct):
    """The workload of the capture."""

    source: Text = None
    model: Text = None
    phases: list[PhaseAbout] | None = None


class JournalAbout(Struct):
    """How the journal was read.

    cuts: byte offsets at which the line was cut
    tick_offsets: tick at which each run of the rig was placed
    pauses: sequence numbers of blocks behind a long silence of the rig that the host's clock confirmed
    rail_only: whether the records of the rig's tap are left out
    senders: serial number of the rig that answered in each epoch; null: none did
    fast: epochs in which the rig's clock ran ahead of the host's
    slow: epochs in which the rig's clock fell behind the host's, or data came later and later
    """

    cuts: list[Count]
    tick_offsets: Annotated[list[Tick], Meta(min_length=1)]
    attached_late: bool = False
    pauses: list[U32] = []
    rail_only: bool = False
    senders: list[str | None] | None = None
    fast: list[U32] = []
    slow: list[U32] = []


class FileSum(Struct):
    """Size and SHA-256 of a file of the capture."""

    bytes: Annotated[int, Meta(ge=0)]
    sha256: Sha256


class MetaModel(Struct, rename={"seal": "self"}):
    """``meta.json`` of a capture."""

    format: Literal[1]
    state: State
    clock: Clock
    rail: RailAbout
    rig: RigAbout
    conditions: Conditions
    loss: Loss
    drive: DriveAbout | None
    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")] | UnsetType = UNSET
    """A random number, also in the metadata of the tables. Captures from before it have none."""
    units: JsonObject = {}
    workload: WorkloadAbout | None = None
    software: dict[str, str] | None = None
    counts: dict[str, Count] | None = None
    """Rows of each table."""
    journal: JournalAbout | UnsetType = UNSET
    files: dict[Name, FileSum] | UnsetType = UNSET
    """Sums by path relative to the capture. A capture written before there were hashes has none."""
    seal: Sha256 | UnsetType = UNSET
    """SHA-256 of meta.json itself, with 64 zeros in the place of this value."""

    def __post_init__(self) -> None:
        if self.state == "recording":
            return
        missing = {"commands", "events"} - set(self.counts or {})
        if missing:
            raise ValueError(f"a finished capture without counts.{min(missing)}")
        if self.loss.lossless is UNSET:
            raise ValueError("a finished capture without loss.lossless")


def json_schema() -> JsonObject:
    """The JSON schema of ``meta.json``."""
    made: JsonObject = msgspec.json.schema(MetaModel)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "meta.json of a Wattbell capture", **made}
