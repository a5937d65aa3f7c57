"""Maps between clocks: the instant of one clock for each instant of another, with a limit of error.

Pure functions of numbers: nothing here reads a clock of its own, a capture or a drive. All ways have the same result,
a map (:mod:`.map`). ``docs/clocks.md`` has every decision.
"""
