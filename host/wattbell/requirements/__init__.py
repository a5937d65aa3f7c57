"""Numbered requirements as data, and verdicts of captures and suites' runs against them (docs/verdicts.md).

Import from the modules: :mod:`.model` (the files' shape), :mod:`.files` (reading them), :mod:`.judging` (verdicts), :mod:`.junit`.
"""
