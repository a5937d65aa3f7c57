"""Faults for drive models, put into what a drive shows: its bus trace and its log pages.

No module of this package imports ``wattbell`` or ``wattbell_spec``: the judge must share no code and no table with them.
"""
