"""The block stream: block buffers, their fillers, and the one writer behind them (``wattbell.wire.spec``)."""
