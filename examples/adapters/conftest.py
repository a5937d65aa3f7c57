"""Loads Wattbell's plugin of pytest."""

pytest_plugins = ["wattbell.adapters.pytest_plugin"]
