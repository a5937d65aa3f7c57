"""A suite run on a drive: session after session on a bench, each scored as it is recorded, until its results are stored and shown.

:mod:`.runner` is the one way through; :mod:`.virtual` and :mod:`.real` are its benches.
"""
