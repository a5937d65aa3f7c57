"""Whether a measured figure keeps to a declared limit: the one rule, in the one vocabulary, of every table that judges.

A verdict needs an uncertainty: *pass* where the figure is below the limit by more than that, *fail* where it is above it by more. What lies
closer is *undecided*. What has no value or no uncertainty is *not measured*, with the reason; without a limit it is *not applicable*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .figure import Figure

Verdict = Literal["pass", "fail", "undecided", "not measured", "not applicable"]
LINK_S = 100e-6
"""Slack of an entry or exit latency: the link's way into L1.2 and out of it, and a rail sample, are in what is measured."""
NOT_DECLARED = "not declared"
NO_U = "measured without an uncertainty"


@dataclass(frozen=True)
class Judgement:
    """``why``: what a reader must know of the verdict; empty where it says all."""

    verdict: Verdict
    why: str = ""


def judge(limit: float | None, measured: Figure | None, slack: float = 0.0) -> Judgement:
    """Whether ``measured`` is at most ``limit``, both in one unit. ``slack``: what the figure may hold besides what the limit is of (of a
    latency, the link's way): by so much more must it be above to fail."""
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
