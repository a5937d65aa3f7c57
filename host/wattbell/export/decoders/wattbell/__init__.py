# mypy: ignore-errors
"""
The stream of a Wattbell rig (docs/wire-format.md): blocks of command records, rail samples, events, raw TLPs and status.

Its input is the stream's bytes on eight lines. Without the clock every sample is a byte, as in a stream read from a file
(sigrok-cli -I binary:numchannels=8). With the clock, a byte is taken at each rising edge.
"""

from .pd import Decoder as Decoder
