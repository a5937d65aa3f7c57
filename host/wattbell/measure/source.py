"""An open capture that measures its phases one at a time: a suite has more commands than fit in memory."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from wattbell_spec.wire import CommandFlag

from ..capture import Capture
from ..capture.marking import marking_of
from .errormodel import error_model
from .fiojson import inside, load_jobs
from .instruments import Instruments
from .loss import LossBook, WindowLoss
from .phases import Phase, find_phases
from .rail import Rail, no_rail_reason
from .seen import seen_by
from .table import Commands, is_marker, lba_sizes, load_commands

COLUMNS = ("start_tick", "doorbell_tick", "cqe_tick", "nbytes", "slba", "opcode", "qid", "status", "flags")
IO_COLUMNS = ("start_tick", "doorbell_tick", "cqe_tick", "nbytes", "opcode", "status", "flags")
STORED = ("doorbell_tick", "fetch_tick", "cqe_tick", "blocks", "nsid", "opcode", "qid", "status", "flags")
"""Columns of commands.parquet behind ``IO_COLUMNS``."""
WHOLE_ROWS = 8_000_000
"""A phase with more commands is measured piece by piece."""
PIECE_ROWS = 1_000_000
"""Most commands in a piece."""
LONGEST_S = 60.0
"""No command takes longer; hosts give up after 30 s."""


class Source(Instruments):
    """An open capture: phases by name, rail and losses. Commands are read phase by phase."""

    def __init__(self, capture: Capture) -> None:
        reason = no_rail_reason(capture)
        model, self.seen = seen_by(capture, error_model(capture.meta))
        super().__init__(capture, model, capture.tick_ps * 1e-12, Rail(capture, model) if reason is None else None, reason)
        self.events = capture.events.collect().sort("tick", maintain_order=True)
        last = int(self.events["tick"][-1]) + 1 if len(self.events) else 0
        found = find_phases(self.events, capture.meta.get("workload") or {}, last)
        self.phases = {phase.name: phase for phase in found}
        begin = int(self.events["tick"][0]) if len(self.events) else 0
        self.losses = LossBook(capture.gaps.collect(), self.events, begin, last, self._longest)
        self._sizes, self.notes = lba_sizes(capture.meta)
        self._told = _fio_bytes(capture)

    def _longest(self) -> int:
        """Ticks of the longest command of the capture."""
        start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
        longest = self.capture.commands.select((pl.col("cqe_tick") - start).max()).collect().item()
        return int(longest or 0)

    def named(self, step: str) -> list[tuple[str, Phase]]:
        """(section, phase) of a step of the plan, in order of time; the section is "" for a step that is one phase."""
        found = []
        for name, phase in self.phases.items():
            base, _, section = name.partition("/")
            if base == step:
                found.append((section, phase))
        return sorted(found, key=lambda item: item[1].first_tick)

    def numbered(self, step: str) -> Iterator[tuple[int, str, Phase]]:
        """(number, section, phase) of the steps ``step#1``, ``step#2``, ..."""
        for name, phase in sorted(self.phases.items(), key=lambda item: item[1].first_tick):
            base, _, section = name.partition("/")
            head, mark, number = base.rpartition("#")
            if mark and head == step:
                yield int(number), section, phase

    def commands(self, phase: Phase) -> Commands:
        """The commands of a phase (only ``COLUMNS``), markers left out."""
        everything = load_commands(self._within(self.capture.commands, phase), self._sizes, COLUMNS)
        markers = is_marker(everything, marking_of(self.capture.meta))
        return everything.take(~markers) if markers.any() else everything

    def io(self, phase: Phase) -> Commands:
        """The I/O commands of a phase (only ``IO_COLUMNS``)."""
        return self._io(self.capture.commands, phase)

    def io_pieces(self, phase: Phase) -> Iterator[Commands]:
        """The same in pieces of at most about ``PIECE_ROWS``, each sorted by start."""
        for piece in self.capture.command_pieces(phase.first_tick, self._latest(phase), STORED, PIECE_ROWS):
            yield self._io(piece.lazy(), phase)

    def is_long(self, phase: Phase) -> bool:
        """Whether a phase has more than ``WHOLE_ROWS`` commands."""
        return self.capture.command_rows(phase.first_tick, self._latest(phase)) > WHOLE_ROWS

    def _latest(self, phase: Phase) -> int:
        return phase.last_tick + round(LONGEST_S / self.tick_s)

    def _within(self, frame: pl.LazyFrame, phase: Phase) -> pl.LazyFrame:
        start = pl.coalesce("doorbell_tick", "fetch_tick", "cqe_tick")
        # rows with a CQE outside are not even read: row groups are in order of arrival
        near = pl.col("cqe_tick").is_between(phase.first_tick, self._latest(phase))
        return frame.filter(near & (start >= phase.first_tick) & (start < phase.last_tick))

    def _io(self, frame: pl.LazyFrame, phase: Phase) -> Commands:
        known = (pl.col("flags") & int(CommandFlag.NO_SQE)) == 0
        return load_commands(self._within(frame, phase).filter((pl.col("qid") > 0) & known), self._sizes, IO_COLUMNS)

    def loss(self, phase: Phase) -> WindowLoss:
        """Return the losses in a phase."""
        return self.losses.between(phase.first_tick, phase.last_tick)

    def disagreement(self, phase: Phase, nbytes: int) -> int:
        """Bytes that fio says it moved in a phase less those on the wire; 0 if fio's figures are not there."""
        group = phase.described.get("fio_group")
        return self._told[group] - nbytes if group in self._told else 0


def _fio_bytes(capture: Capture) -> dict[int, int]:
    """Return bytes read and written by group of jobs, from fio's JSON; empty without the JSON. Groups with a failed job are left out."""
    path = inside(capture.workload_dir, "fio.json", "fio.json")
    jobs = load_jobs(path) if path else []
    out: dict[int, int] = {}
    for job in jobs:
        out[job.groupid] = out.get(job.groupid, 0) + sum(side.io_bytes for side in job.data)
    failed = {job.groupid for job in jobs if job.failure}
    return {group: moved for group, moved in out.items() if group not in failed}
