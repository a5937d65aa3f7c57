"""Suites and verdicts as parts of other test frameworks: pytest, OpenHTF, Robot Framework (docs/adapters.md).

:mod:`.station` runs and judges for all of them, as ``wattbell run`` and ``wattbell judge`` do. Only the module of a framework imports that
framework.
"""
