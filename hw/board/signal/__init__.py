"""Signals and copper of the board: impedance, channel, eyes, tap, resistance, heat. ``docs/signal.md`` tells what comes out.

:mod:`.stackup` reads ``layout/stackup.toml``; :mod:`.field` is the field solver; :mod:`.lines` makes lossy lines of it;
:mod:`.channel` joins host, board, tap and drive; :mod:`.eye` makes eyes of a channel; :mod:`.margins` holds them against limits.
:mod:`.copper` solves conduction in the rail's copper; :mod:`.thermal` estimates temperatures. :mod:`.report` writes the document.
"""
