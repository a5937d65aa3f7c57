"""The block stream: block buffers, their fillers, and the one writer after them (``wattbell_spec.wire``)."""
