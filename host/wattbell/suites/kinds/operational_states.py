"""Operational power states."""

from __future__ import annotations

from collections.abc import Mapping

from ...measure.figure import Figure
from ...measure.judge import judge
from ...measure.phase import measure
from ...measure.point import Point
from ...measure.source import Source
from ..jobs import JobSection
from ..kind import KindOfTest, ScoreSection, kind_of_test
from ..outcome import Outcome
from ..power import declared_states, note_settling, settled_power
from ..session import StepBuilder
from ..suite import Test


@kind_of_test("operational-states")
class OperationalStatesTest(KindOfTest):
    """Each operational state that the drive has: idle, and under each load of the job file."""

    place = ScoreSection.POWER_STATES

    def steps(self, to: StepBuilder) -> None:
        job = to.job()
        for state in to.operational:
            to.settle(state)
            to.add(f"-idle#{state}", idle_s=to.idle_s, ps=state)
            to.add(f"#{state}", fio=job, ps=state)

    def score(self, source: Source, test: Test, sections: Mapping[str, JobSection], scale: float) -> Outcome:
        """Idle power, and speed and power under each load (section of the job file), in each operational state."""
        out = Outcome()
        note_settling(out, source, test)
        declared = declared_states(source)
        rows: dict[int, dict[str, Figure]] = {}
        for number, _, phase in source.numbered(f"{test.id}-idle"):
            settled = settled_power(source, phase)
            if settled.value is None and source.rail is not None:
                out.notes.append(f"PS{number}: no idle power: {settled.conditions['absent']}")
            rows[number] = {"idle_w": settled}
        for number, section, phase in source.numbered(test.id):
            measured = measure(source, phase)
            out.add_measured(source, phase, measured)
            found = measured.point({})
            row = rows.setdefault(number, {})
            load = section.replace("-", "_")
            row[f"{load}_mb_per_s"], row[f"{load}_w"] = found["mb_per_s"], found["mean_w"]
        out.points = [Point({"ps": number}, row) for number, row in sorted(rows.items())]
        for number, row in sorted(rows.items()):
            drawn = [q for key, q in row.items() if key.endswith("_w") and q.value is not None]
            limit = declared.get(number, {}).get("max_power_w")
            highest = max(drawn, key=lambda q: q.known, default=None)
            if highest is not None and judge(limit, highest).verdict == "fail":
                out.notes.append(f"PS{number} draws {highest.known:.3g} W on average, more than the declared {limit:g} W")
        return out
