"""Experiments behind the figures of the pages in docs/, run by hand or by ``make``; no part of the installed packages."""
