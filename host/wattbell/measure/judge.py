"""Judge whether a measured figure keeps to a declared limit: one rule and one vocabulary for every table that judges.

A verdict needs an uncertainty: *pass* if the figure is below the limit by more than its uncertainty, *fail* if it is above by more. A
closer figure is *undecided*. A figure without value or uncertainty is *not measured*, with the reason; without a limit it is *not
applicable*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .figure import Figure

Verdict = Literal["pass", "fail", "undecided", "not measured", "not applicable"]
LINK_S = 100e-6
"""Slack of an entry or exit latency: the measurement includes the link's way into and out of L1.2, and a rail sample."""
NOT_DECLARED = "not declared"
NO_U = "measured without an uncertainty"


@dataclass(frozen=True)
class Judgement:
    """A verdict. ``why``: the explanation a reader needs; empty if the verdict needs none."""

    verdict: Verdict
    why: str = ""


def judge(limit: float | None, measured: Figure | None, slack: float = 0.0) -> Judgement:
    """Judge whether ``measured`` is at most ``limit``, both in one unit.

    slack: a part of the figure that the limit does not cover, such as the link's way in a latency. The figure must exceed the limit by that
        much more to fail.
    """
    if limit is None or limit <= 0:
        return Judgement("not applicable", NOT_DECLARED)
    if measured is None or measured.value is None:
        return Judgement("not measured", str(measured.conditions.get("absent", "")) if measured is not None else "")
    if measured.u is None:
        return Judgement("not measured", NO_U)
    if measured.value + measured.u < limit:
        return Judgement("pass")
    if measured.value - measured.u - slack > limit:
        return Judgement("fail", f"{measured.value / limit:.3g} times the declared")
    return Judgement("undecided", "closer to the limit than the uncertainty" if not slack else "closer to the limit than can be told")
