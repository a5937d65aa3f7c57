"""Judge whether a measured figure keeps to a limit: one decision rule and one vocabulary for everything that judges.

The rule is non-binary with a guard band (ILAC-G8:09/2019, 4.2.3; JCGM 106:2012, 8.3). The guard band ``w`` is a multiple of the figure's
expanded uncertainty ``U`` (k = 2), by default ``w = U``. Then a figure that passes is beyond its limit with a chance below 2.5 %.

| verdict | the figure, against an upper limit |
|---|---|
| pass | at most limit - w |
| conditional pass | at most the limit, but closer than w; or a pass with lost data or an unmet condition under it |
| conditional fail | above the limit, but closer than w; or a fail with lost data or an unmet condition under it |
| fail | above limit + w |
| not measured | no value, or no uncertainty; with the reason |
| not applicable | no limit; with the reason |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .figure import Figure

Verdict = Literal["pass", "conditional pass", "conditional fail", "fail", "not measured", "not applicable"]
Side = Literal["at most", "at least"]
LINK_S = 100e-6
"""Slack of an entry or exit latency: the measurement includes the link's way into and out of L1.2, and a rail sample."""
NOT_DECLARED = "not declared"
NO_U = "measured without an uncertainty"
CLOSE = "closer to the limit than the uncertainty"
CLOSE_SLACK = "closer to the limit than can be told"
LOST = "records were lost under it"


@dataclass(frozen=True)
class DecisionRule:
    """A decision rule.

    guard : width of the guard band in units of ``U``; 0 for simple acceptance, which accepts falsely in up to 50 % of cases.
    """

    guard: float = 1.0

    def __str__(self) -> str:
        if self.guard == 0:
            return "simple acceptance, w = 0 (ILAC-G8:09/2019, 4.2.1)"
        return f"guard band w = {'' if self.guard == 1 else f'{self.guard:g} '}U on both sides, k = 2 (ILAC-G8:09/2019, 4.2.3)"


GUARDED = DecisionRule()


@dataclass(frozen=True)
class Judgement:
    """A verdict. ``why``: the explanation a reader needs; empty if the verdict needs none."""

    verdict: Verdict
    why: str = ""

    def weakened(self, why: str) -> Judgement:
        """Return the verdict with a doubt: pass and fail become conditional. ``why`` is added to every verdict but those without a
        figure."""
        if self.verdict in ("not measured", "not applicable"):
            return self
        verdict: Verdict = "conditional pass" if "pass" in self.verdict else "conditional fail"
        return Judgement(verdict, "; ".join(filter(None, (self.why, why))))


def judge(
    limit: float | None,
    measured: Figure | None,
    slack: float = 0.0,
    side: Side = "at most",
    rule: DecisionRule = GUARDED,
    declared: bool = True,
) -> Judgement:
    """Judge whether ``measured`` keeps to ``limit``, both in one unit.

    limit: None is not declared.
    declared: whether a drive declares the limit. Then 0 is not declared, either: no drive declares 0 W or 0 s.
    slack: a part of the figure that the limit does not cover, such as the link's way in a latency. The figure must be beyond the limit by
        that much more to fail.
    """
    if limit is None or (declared and limit <= 0):
        return Judgement("not applicable", NOT_DECLARED)
    if measured is None or measured.value is None:
        return Judgement("not measured", str(measured.conditions.get("absent", "")) if measured is not None else "")
    if measured.u is None:
        return Judgement("not measured", NO_U)
    beyond = (measured.value - limit) * (1 if side == "at most" else -1)
    guard = rule.guard * measured.u
    times = f"{measured.value / limit:.3g} times the limit" if limit > 0 else "above a limit of 0"
    if beyond <= -guard:
        found = Judgement("pass")
    elif beyond > guard + slack:
        found = Judgement("fail", times)
    else:
        found = Judgement("conditional pass" if beyond <= 0 else "conditional fail", CLOSE_SLACK if slack else CLOSE)
    return found.weakened(LOST) if measured.lost else found
