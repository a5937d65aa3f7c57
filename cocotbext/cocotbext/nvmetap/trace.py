"""Bus traces (``.wbt``) of a simulation, which Wattbell's virtual rig plays into its gateware (``wattbell sim replay``)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .tlp import Direction

if TYPE_CHECKING:
    from .monitor import TlpSource

_RECORD = struct.Struct("<BBHQ")
_RAIL, _SIDEBAND, _END = 4, 5, 6
_PERST = 1
_LONGEST_PS = (1 << 63) - 1


class TraceWriter:
    """A bus trace being written: TLPs of both directions, the 3.3 V rail and PERST#, in the order of time.

    Use it as a context manager, or call :meth:`close`. A trace without its end cannot be played to the end.
    """

    def __init__(self, path: Path, source: TlpSource | None = None, *, note: str = "") -> None:
        """Create the file, and write every TLP of ``source`` into it.

        Parameters:
            note: A sentence for the file's header.
        """
        self._file = path.open("wb")
        self._last_ps = 0
        head = {"source": "cocotbext-nvmetap", "profile": "", "timing": "model", "notes": [note] if note else []}
        text = json.dumps(head).encode()
        self._file.write(b"WBBT" + struct.pack("<II", 1, len(text)) + text)
        if source is not None:
            source.subscribe(self._watch)

    def tlp(self, time_ps: int, direction: Direction, data: bytes) -> None:
        """Write a TLP: prefixes, header, payload and digest as on the wire."""
        self._record(direction.value, time_ps, data)

    def rail(self, time_ps: int, volts: float, amps: float) -> None:
        """Write voltage and current from an instant on."""
        self._record(_RAIL, time_ps, struct.pack("<qq", round(amps * 1e9), round(volts * 1e9)))

    def perst(self, time_ps: int, *, asserted: bool) -> None:
        """Write a level of PERST#; asserted is low."""
        self._record(_SIDEBAND, time_ps, bytes((_PERST, 0 if asserted else 1)))

    def close(self, time_ps: int | None = None) -> None:
        """End the trace at an instant, or at its last record; later calls do nothing."""
        if not self._file.closed:
            self._record(_END, self._last_ps if time_ps is None else time_ps, b"")
            self._file.close()

    def __enter__(self) -> TraceWriter:
        """Return the writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the trace."""
        self.close()

    def _watch(self, time_ps: int, direction: Direction, data: bytes) -> None:
        """Write a TLP of the source; the simulation may go on after the trace's end."""
        if not self._file.closed:
            self.tlp(time_ps, direction, data)

    def _record(self, kind: int, time_ps: int, body: bytes) -> None:
        """Append a record.

        Raises:
            ValueError: The time is earlier than the last record, or the file is closed.
        """
        if not self._last_ps <= time_ps <= _LONGEST_PS:
            raise ValueError(f"a record at {time_ps} ps behind one at {self._last_ps} ps: a bus trace is in the order of time")
        self._last_ps = time_ps
        self._file.write(_RECORD.pack(kind, 0, len(body), time_ps) + body)
