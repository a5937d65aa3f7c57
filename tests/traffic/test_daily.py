"""New seeds every day: 20 000 commands of kinds drawn by chance, on the fast twin."""

from __future__ import annotations

import datetime

from tests.traffic.session import Draw, run

COMMANDS = 20_000


def test_the_seeds_of_today_have_no_silent_fault() -> None:
    """The seeds follow from the date in UTC, so all runs of a day agree, and a failure names its seeds."""
    first = datetime.datetime.now(datetime.UTC).date().toordinal() * 100_000
    table = run(COMMANDS, Draw(first, size=300))
    advice = "; ".join(
        f"python -m tests.traffic --commands 1 --size 300 --show 3 --seed {seed}" for seeds in table.failed.values() for seed in seeds
    )
    assert not table.failed, advice
    assert table.commands >= COMMANDS and len(table.rows) > 20
    assert table.supported.commands > 5000 and table.flagged_share() <= 0.001
