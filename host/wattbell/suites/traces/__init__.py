"""I/O traces: stand-ins for the ATSB traces (:mod:`.generate`), text of blkparse (:mod:`.blkparse`), their counts (:mod:`.statistics`)."""
