"""The block stream: block buffers, their fillers, and the one writer behind them (``wattbell_spec.wire``)."""
