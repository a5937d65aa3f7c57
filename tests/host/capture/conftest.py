"""Lets the tests of this folder import what they share (pytest's importlib mode adds no folder to the path)."""

from __future__ import annotations


