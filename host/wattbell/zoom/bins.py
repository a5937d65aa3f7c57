"""Bins of load that are kept only where something happens, and how they add up to wider ones."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CommandBins:
    """``n`` bins in order of ``bin`` (bin b is ticks ``[b * width, (b + 1) * width)``).

    Between two bins in the list nothing begins or ends, so the depth is the first one's ``depth_end``.

    count: I/O commands completed without error
    read, write: bytes of these commands
    depth_ticks: sum over commands in flight of their ticks within the bin
    depth_max: most at once
    depth_end: in flight at the end of the bin
    """

    bin: Int64
    count: Int64
    read: Int64
    write: Int64
    depth_ticks: Int64
    depth_max: Int64
    depth_end: Int64

    def __len__(self) -> int:
        return len(self.bin)

    def take(self, where: npt.NDArray[np.bool_] | slice | Int64) -> CommandBins:
        """Some of them."""
        return CommandBins(*(getattr(self, field.name)[where] for field in fields(self)))

    @staticmethod
    def none() -> CommandBins:
        """No bin."""
        return CommandBins(*(np.empty(0, np.int64) for _ in fields(CommandBins)))

    @staticmethod
    def joined(parts: list[CommandBins]) -> CommandBins:
        """Return all parts as one, in their order."""
        if len(parts) == 1:
            return parts[0]
        return (
            CommandBins(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(CommandBins)))
            if parts
            else CommandBins.none()
        )


def of_events(ticks: Int64, delta: Int64, count: Int64, read: Int64, write: Int64, width: int, before: int) -> CommandBins:
    """The bins of events in order: at each tick ``delta`` commands more in flight; ``before``: in flight before the first."""
    if not len(ticks):
        return CommandBins.none()
    place = ticks // width
    first = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    depth = before + np.cumsum(delta)
    at_begin = np.concatenate(([before], depth[first[1:] - 1]))
    number = place[first]
    integral = np.add.reduceat(delta * ((place + 1) * width - ticks), first) + at_begin * width
    most = np.maximum(at_begin, np.maximum.reduceat(depth, first))
    done, moved_in, moved_out = (np.add.reduceat(values, first) for values in (count, read, write))
    return CommandBins(number, done, moved_in, moved_out, integral, most, depth[np.concatenate((first[1:] - 1, [len(ticks) - 1]))])


def merged(bins: CommandBins, width: int, factor: int, before: int) -> CommandBins:
    """Bins ``factor`` times as wide; ``before``: in flight before the first."""
    if not len(bins) or factor == 1:
        return bins
    parent = bins.bin // factor
    first = np.flatnonzero(np.concatenate(([True], parent[1:] != parent[:-1])))
    last = np.concatenate((first[1:] - 1, [len(bins) - 1]))
    number = parent[first]
    at_begin = np.concatenate(([before], bins.depth_end[last[:-1]]))
    # the stretch behind each bin up to the next one, or to the end of its parent; and before the first bin of a parent
    following = np.concatenate((bins.bin[1:], [0]))
    following[last] = (number + 1) * factor
    behind = (following - bins.bin - 1) * width * bins.depth_end
    ahead = (bins.bin[first] - number * factor) * width * at_begin
    integral = np.add.reduceat(bins.depth_ticks + behind, first) + ahead
    most = np.maximum(np.maximum.reduceat(bins.depth_max, first), np.where(bins.bin[first] > number * factor, at_begin, 0))
    count, read, write = (np.add.reduceat(values, first) for values in (bins.count, bins.read, bins.write))
    return CommandBins(number, count, read, write, integral, most, bins.depth_end[last])


def with_first_of_tiles(bins: CommandBins, width: int, tile: int, before: int) -> CommandBins:
    """Return the bins with the first bin of every tile (``tile`` bins) added, so that a tile shows the commands in flight at its begin.

    Tiles without any bin stay empty.
    """
    if not len(bins):
        return bins
    number = bins.bin // tile
    first = np.flatnonzero(np.concatenate(([True], number[1:] != number[:-1])))
    lacking = first[bins.bin[first] % tile != 0]
    if not len(lacking):
        return bins
    depth = np.concatenate(([before], bins.depth_end))[lacking]
    zero = np.zeros(len(lacking), np.int64)
    added = CommandBins(number[lacking] * tile, zero, zero, zero, depth * width, depth, depth)
    both = CommandBins.joined([bins, added])
    return both.take(np.argsort(both.bin, kind="stable"))
