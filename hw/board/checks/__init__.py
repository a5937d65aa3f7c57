"""Checks of the board, a module each subject. ``quick()`` of a module needs no KiCad; ``slow()`` does."""
