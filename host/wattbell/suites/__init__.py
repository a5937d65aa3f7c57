"""Test suites: manifests and fio job files (``data/``), plans made of both, scores computed from captures.

:mod:`.manifest` reads a suite. :mod:`.plan` turns it into plans. The :mod:`.kinds` turn the captures into points and scores.
:mod:`.results` writes ``results.json``. :mod:`.traces` generates and converts I/O traces.
"""
