"""Figures as JSON, where a file is written: each of the two formats has its own keys, and both are published."""

from __future__ import annotations

from collections.abc import Mapping

from ..jsondata import Json, JsonObject
from .figure import Figure
from .point import Point, Score


def figure_json(figure: Figure) -> JsonObject:
    """A figure of ``wattbell analyze --json``."""
    return {
        "value": figure.value,
        "u": figure.u,
        "unit": figure.unit,
        "lost": figure.lost,
        "conditions": dict(figure.conditions),
    }


def tree_json(tree: object) -> Json:
    """The same of a whole result: mappings and lists with figures in them."""
    if isinstance(tree, Figure):
        return figure_json(tree)
    if isinstance(tree, Mapping):
        return {name: tree_json(part) for name, part in tree.items()}
    return [tree_json(part) for part in tree] if isinstance(tree, (list, tuple)) else tree


def quantity_json(figure: Figure) -> JsonObject:
    """A figure of ``results.json``: the unit is in the name of the figure, or beside it in a score."""
    return {"value": figure.value, "u": figure.u, "n_lost": figure.lost}


def point_json(point: Point[Figure]) -> JsonObject:
    """A point of ``results.json``."""
    amounts = {"bytes": point.bytes, "active_s": point.active_s}
    figures = {name: quantity_json(figure) for name, figure in point.figures.items()}
    return {"x": dict(point.x), **figures, **{name: amount for name, amount in amounts.items() if amount is not None}}


def score_json(score: Score[Figure]) -> JsonObject:
    """A score of ``results.json``."""
    return {"name": score.name, "unit": score.unit, "value": quantity_json(score.value), "reading": score.reading}
