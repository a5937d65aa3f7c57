"""What tests share is imported by its name: `from tests.host.wire import encoder`. The folders below are no packages of their own."""
