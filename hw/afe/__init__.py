"""The analog front end as data, as circuits and as a model: ``PYTHONPATH=hw python -m afe``.

``parts.toml`` is read by :mod:`.parts`; :mod:`.design` derives what follows from it by hand; :mod:`.spice` runs the decks of
``decks/`` through ngspice for the studies of :mod:`.studies` and :mod:`.boards`; :mod:`.budget` and :mod:`.population` make
figures of accuracy of it, and :mod:`.report` writes them where they are shown.
"""
