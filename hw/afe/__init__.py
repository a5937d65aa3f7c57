"""The analog front end as data, as circuits and as a model: ``PYTHONPATH=hw python -m afe``.

- :mod:`.parts` reads ``parts.toml``. :mod:`.design` analyses the parts by hand.
- :mod:`.spice` runs the decks of ``decks/`` through ngspice for the studies of :mod:`.studies` and :mod:`.boards`.
- :mod:`.budget` and :mod:`.population` make figures of accuracy. :mod:`.report` writes them into the pages.
"""
