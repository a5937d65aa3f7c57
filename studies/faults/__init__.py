"""Faults for drive models, put into a drive's bus trace and log pages.

No module of this package imports ``wattbell`` or ``wattbell_spec``: the judge must share no code and no table with them.
"""
