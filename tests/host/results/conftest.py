"""The maker of sample runs, for the tests of this folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    """samples.py beside this file (tests are imported by path, so it cannot be imported by name)."""
    spec = importlib.util.spec_from_file_location("wattbell_result_samples", Path(__file__).with_name("samples.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
