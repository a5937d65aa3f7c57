"""Which instant of one clock is which of another, and by how much that may be off.

Pure functions of numbers: nothing here reads a clock of its own, a capture or a drive. :mod:`.map` is the result that all ways have in
common. ``docs/clocks.md`` has every decision.
"""
