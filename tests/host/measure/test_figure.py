"""The one shape of a number, and the two formats in which it is published."""

from __future__ import annotations

import json
import math

import pytest
from wattbell.measure.encode import figure_json, point_json, quantity_json, score_json, tree_json
from wattbell.measure.figure import Figure, Known, absent, mean, ratio, total
from wattbell.measure.point import Point, Score


def test_a_figure_has_one_json_in_figures_json_and_another_in_results_json() -> None:
    figure = Figure(1.5, 0.25, "W", 3, {"over": "active span"})
    assert json.dumps(figure_json(figure)) == '{"value": 1.5, "u": 0.25, "unit": "W", "lost": 3, "conditions": {"over": "active span"}}'
    assert json.dumps(quantity_json(figure)) == '{"value": 1.5, "u": 0.25, "n_lost": 3}'
    assert tree_json({"a": [figure, {"b": figure}], "c": None}) == {"a": [figure_json(figure), {"b": figure_json(figure)}], "c": None}


def test_a_point_tells_amounts_only_where_it_has_them() -> None:
    rate = Figure(2.0, None, "MB/s")
    assert list(point_json(Point({"qd": 4}, {"mb_per_s": rate}, 8192, 0.5))) == ["x", "mb_per_s", "bytes", "active_s"]
    assert point_json(Point({"ps": 1}, {"idle_w": rate})) == {"x": {"ps": 1}, "idle_w": quantity_json(rate)}
    score = {"name": "whole fill", "unit": "MB/s", "value": quantity_json(rate), "reading": None}
    assert score_json(Score("whole fill", "MB/s", rate)) == score


def test_what_is_not_given_says_why_and_cannot_be_taken_for_a_number() -> None:
    missing = absent("no rail was recorded", "W", 2)
    assert (missing.value, missing.lost, missing.conditions["absent"]) == (None, 2, "no rail was recorded")
    with pytest.raises(ValueError, match="no rail was recorded"):
        assert missing.known
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="without a value"):
            Known(value)
    assert Known(3.0).known == 3.0 and isinstance(Known(3.0), Figure)


def test_losses_add_up_whatever_becomes_of_the_value() -> None:
    a, b = Figure(6.0, 0.6, "J", 1), Figure(3.0, None, "W", 2)
    assert quantity_json(ratio(a, b, "s")) == {"value": 2.0, "u": None, "n_lost": 3}
    assert ratio(a, absent("none", "W", 5), "s").lost == 6 and mean([a, absent("none", "J", 5)]).lost == 6
    assert quantity_json(total([a, a])) == {"value": 12.0, "u": pytest.approx(1.2), "n_lost": 2} and mean([]).value is None
