# mypy: ignore-errors
"""
Phases of NVMe commands, from strobes: SQ tail doorbell, fetch of the command, data, completion. `wattbell export sigrok` writes
them, with the sidebands, on the time base of the rail.

A strobe is a sample that is high; two samples in a row are two strobes. Strobes carry no command identifier. While one command is in
flight its phases and latency are what they are, to one sample; while several are, completions are taken in the order of the fetches, and
the annotation says so ("in order?").
"""

from .pd import Decoder as Decoder
