"""Clocks and the maps between them: the instant of one clock for each instant of another, with a limit of error.

:mod:`.host` reads the host's clocks, :mod:`.rigtick` the rig's counter. The rest are pure functions of numbers: they read no clock, capture
or drive. All ways have the same result, a map (:mod:`.map`). ``docs/clocks.md`` has every decision.
"""
