"""Shared test code is imported by name: `from tests.host.wire import encoder`. The folders below are namespace packages."""
