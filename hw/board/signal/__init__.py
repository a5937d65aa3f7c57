"""Signals and copper of the board: impedance, channel, eyes, tap, resistance, heat. ``docs/signal.md`` has the results.

:mod:`.stackup` reads ``layout/stackup.toml``. :mod:`.field` is the field solver, and :mod:`.lines` makes lossy lines from its
results. :mod:`.channel` joins host, board, tap and drive. :mod:`.eye` makes eyes of a channel, and :mod:`.margins` compares them
with limits. :mod:`.copper` solves conduction in the rail's copper, and :mod:`.thermal` estimates temperatures. :mod:`.report`
writes the document.
"""
