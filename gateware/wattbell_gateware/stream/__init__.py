"""Block stream: block buffers, the builders that fill them, and the one writer after them (``wattbell_spec.wire``)."""
