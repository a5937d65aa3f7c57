"""The register of formats. A format is one file that registers its opener with :func:`file_format`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..plugins import PartRegister
from .text import Head
from .waveform import Waveform, WaveformOptions


@dataclass(frozen=True)
class FileFormat:
    """A format.

    name: value of ``--format``
    matches: whether a file looks like the format
    open_files: opens files of the format
    takes: fields of :class:`WaveformOptions` that the format uses, besides the voltage
    several: one file a channel
    general: files of other formats look like it too, so it is tried behind them
    """

    name: str
    title: str
    matches: Callable[[Head], bool]
    open_files: Callable[[Sequence[Path], WaveformOptions], Waveform]
    takes: frozenset[str] = frozenset()
    several: bool = False
    general: bool = False


FORMATS: PartRegister[FileFormat] = PartRegister("wattbell.formats", "wattbell.formats")
FileOpener = TypeVar("FileOpener", bound=Callable[[Sequence[Path], WaveformOptions], Waveform])


def file_format(
    name: str,
    title: str,
    matches: Callable[[Head], bool],
    takes: frozenset[str] = frozenset(),
    *,
    several: bool = False,
    general: bool = False,
) -> Callable[[FileOpener], FileOpener]:
    """Register a function that opens files of a format; the parameters are fields of :class:`FileFormat`."""

    def register(opener: FileOpener) -> FileOpener:
        FORMATS.add(name, FileFormat(name, title, matches, opener, takes, several, general))
        return opener

    return register
