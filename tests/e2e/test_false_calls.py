"""One pair of equal models, and a model that draws 1 % more, through the fast instrument: a small `make false-calls`."""

from __future__ import annotations

from tools.false_calls import one_pair


def test_equal_models_get_no_verdict_and_one_percent_more_power_is_seen() -> None:
    found = one_pair(0, [3], 1)
    assert found["suite"]["equal"][3]["rows"] >= 7 and found["capture"]["equal"][3]["rows"] >= 20, "enough is judged"
    assert found["suite"]["equal"][3]["verdicts"] == found["capture"]["equal"][3]["verdicts"] == 0
    assert found["suite"]["one run"]["verdicts"] > 0, "by the uncertainty within one run they would differ"
    rows, right = found["suite"]["one percent"][3]["power"]
    assert rows >= 3 and right >= 2
