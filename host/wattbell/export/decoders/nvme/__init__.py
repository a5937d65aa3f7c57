# mypy: ignore-errors
"""
Phases of NVMe commands, from strobes: SQ tail doorbell, fetch of the command, data, completion. `wattbell export sigrok` writes
them, with the sidebands, on the time base of the rail.

A strobe is a sample that is high; two samples in a row are two strobes. Strobes carry no command identifier, and a command in flight at
the first sample has left no doorbell. A completion gets a latency only if its doorbell is known; else it states why it has none. There are
three ways: ORIGIN, which an exported session has; BUSY, while one command is in flight; or the user's word (option in_flight).
"""

from .pd import Decoder as Decoder
