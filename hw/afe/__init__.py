"""The analog front end as data, as circuits and as a model: ``PYTHONPATH=hw python -m afe``.

:mod:`.parts` reads ``parts.toml``, and :mod:`.design` derives gains, delays and noise by hand. :mod:`.spice` runs the decks of
``decks/`` through ngspice for the studies of :mod:`.studies` and :mod:`.boards`. :mod:`.budget` and :mod:`.population` compute the
accuracy, and :mod:`.report` writes it into the docs.
"""
