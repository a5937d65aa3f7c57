"""Gateware tests: Amaranth's warnings are errors."""

from __future__ import annotations

import warnings

import pytest


@pytest.fixture(autouse=True)
def _amaranth_warnings_are_errors():
    from amaranth.hdl import UnusedElaboratable

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("error", UnusedElaboratable)
        yield
