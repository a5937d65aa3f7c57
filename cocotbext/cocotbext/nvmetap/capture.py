"""Captures of Wattbell from a simulation: ``wattbell view`` and ``wattbell analyze`` open them. Needs the extra ``wattbell``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from wattbell.capture import CaptureWriter, blocks
from wattbell.capture.tables import rows_table
from wattbell_spec.wire import CommandFlag

from .command import Command, Doubt
from .power import SupplyRail

TICK_PS = 1000
FLAGS = {
    Doubt.NO_DOORBELL: CommandFlag.GUESS,
    Doubt.SHADOW_DOORBELL: CommandFlag.SHADOW,
    Doubt.PREFETCHED: CommandFlag.GUESS,
    Doubt.FETCHED_TWICE: CommandFlag.GUESS,
    Doubt.QUEUE_MEMORY: CommandFlag.GUESS,
    Doubt.CONTROLLER_MEMORY: CommandFlag.DATA_PARTIAL,
    Doubt.SQE_UNSEEN: CommandFlag.NO_SQE,
    Doubt.STRIDE_ASSUMED: CommandFlag.GUESS,
    Doubt.LENGTH_UNKNOWN: CommandFlag.DATA_PARTIAL,
    Doubt.SHARED_BUFFER: CommandFlag.DATA_PARTIAL,
    Doubt.LIST_UNSEEN: CommandFlag.DATA_PARTIAL,
    Doubt.DATA_INCOMPLETE: CommandFlag.DATA_PARTIAL,
    Doubt.DATA_POISONED: CommandFlag.DATA_PARTIAL,
    Doubt.DATA_SPLIT_DIRECTION: CommandFlag.DATA_PARTIAL,
    Doubt.INTERRUPT_GUESSED: CommandFlag.GUESS,
    Doubt.INTERRUPT_UNKNOWN: CommandFlag.GUESS,
    Doubt.CID_REUSED: CommandFlag.CID_REUSED,
    Doubt.SQID_WRONG: CommandFlag.GUESS,
    Doubt.NOT_COMPLETED: CommandFlag.ABORTED,
    Doubt.HEAD_UNSEEN: CommandFlag(0),
    Doubt.RESET_UNSEEN: CommandFlag.GUESS,
    Doubt.TLPS_MISSED: CommandFlag.LOSS,
}
"""Flag of a capture with the meaning of each doubt. An absent head doorbell is an empty place and needs none."""
_MOST_BLOCKS = (1 << 32) - 1
"""Largest number of blocks in a capture. The ranges of a DSM may sum up to more."""
_TICKS = {
    "doorbell_tick": "doorbell_ps",
    "fetch_tick": "fetch_ps",
    "first_data_tick": "first_data_ps",
    "last_data_tick": "last_data_ps",
    "cqe_tick": "cqe_ps",
    "msix_tick": "interrupt_ps",
    "cq_head_tick": "head_ps",
}


@dataclass(frozen=True)
class _Tap:
    """Commands in order of their CQE; a CommandSource of Wattbell."""

    commands: Sequence[Command]

    def table(self) -> Any:
        """Return rows of ``commands.parquet``."""
        columns: dict[str, list[Any]] = {
            "qid": [c.sqid for c in self.commands],
            "cid": [c.cid for c in self.commands],
            "opcode": [c.opcode or 0 for c in self.commands],
            "nsid": [c.nsid for c in self.commands],
            "slba": [c.slba or 0 for c in self.commands],
            "blocks": [min(c.blocks or 0, _MOST_BLOCKS) for c in self.commands],
            "status": [c.status or 0 for c in self.commands],
            "flags": [_flags(c) for c in self.commands],
            "interrupt_guessed": [int(Doubt.INTERRUPT_GUESSED in c.doubts) for c in self.commands],
        }
        for column, field in _TICKS.items():
            columns[column] = [None if (time := getattr(c, field)) is None else time // TICK_PS for c in self.commands]
        columns["cqe_tick"] = [_end_ps(c) // TICK_PS for c in self.commands]
        return rows_table("commands", columns)


def write_capture(
    path: Path | str,
    commands: Iterable[Command],
    rail: SupplyRail | None = None,
    *,
    block_bytes: int = 512,
    interval_ps: int = 1_000_000,
    overwrite: bool = False,
) -> int:
    """Write a capture of Wattbell; return the number of commands in it.

    A command without a CQE has the flag ABORTED, and its last instant stands for the CQE. A DSM of more blocks than a capture can hold
    has the flag NO_RANGES: its blocks are a lower bound. Commands that showed no instant are left out.

    Parameters:
        rail: Becomes samples of ``interval_ps`` each, with the mean power of the interval.
        block_bytes: Bytes of a logical block.
        interval_ps: A multiple of 1000.
        overwrite: Replaces a capture that is there.

    Raises:
        ValueError: ``interval_ps`` is no multiple of 1000, or not above 0.
        wattbell.errors.CaptureError: There is a capture already, or the disk refuses it.
    """
    if interval_ps <= 0 or interval_ps % TICK_PS:
        raise ValueError(f"interval_ps is {interval_ps}; it must be a multiple of {TICK_PS} above 0")
    seen = sorted((c for c in commands if _last_ps(c) is not None), key=_end_ps)
    with CaptureWriter(
        Path(path),
        rig={"model": "cocotbext-nvmetap"},
        conditions={"virtual": True},
        lba_size_bytes=block_bytes,
        journal=False,
        overwrite=overwrite,
        tick_ps=TICK_PS,
    ) as writer:
        if rail is not None and len(rail):
            first_ps = next(rail.changes())[0]
            last_ps = max([*(_end_ps(c) for c in seen), *(time for time, _, _ in rail.changes())])
            pairs = list(rail.samples(interval_ps, last_ps + interval_ps))
            volts, amps = (np.array(column, np.float32) for column in zip(*pairs, strict=True))
            middle = (first_ps + interval_ps // 2) // TICK_PS
            writer.add_rail_source(blocks(middle, interval_ps // TICK_PS, volts, amps))
        if seen:
            writer.add_command_source(_Tap(seen))
    return len(seen)


def _flags(command: Command) -> int:
    flags = CommandFlag(0)
    for doubt in command.doubts:
        flags |= FLAGS[doubt]
    if command.cqe_ps is None:
        flags |= CommandFlag.ABORTED
    if command.opcode is None:
        flags |= CommandFlag.NO_SQE
    if command.blocks is not None and command.blocks > _MOST_BLOCKS:
        flags |= CommandFlag.NO_RANGES
    return int(flags)


def _last_ps(command: Command) -> int | None:
    return max((time for field in _TICKS.values() if (time := getattr(command, field)) is not None), default=None)


def _end_ps(command: Command) -> int:
    last = _last_ps(command)
    assert last is not None
    return last if command.cqe_ps is None else command.cqe_ps
