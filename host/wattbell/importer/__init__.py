"""From files of other instruments and of the host to a capture."""
