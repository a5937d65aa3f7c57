# mypy: ignore-errors
"""
Phases of NVMe commands, from strobes: SQ tail doorbell, fetch of the command, data, completion. `wattbell export sigrok` writes
them, with the sidebands, on the time base of the rail.

A strobe is a sample that is high; two samples in a row are two strobes. Strobes carry no command identifier, and what was in flight at the
first sample has left no doorbell. A completion gets a latency only where its doorbell is known: from ORIGIN, which an exported session
has; while BUSY tells that one command is in flight; or by the user's word (option in_flight). Else it says why it has none.
"""

from .pd import Decoder as Decoder
