"""The trigger on runs against one that looks at each sample."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from wattbell.serve.sump.protocol import Stage
from wattbell.serve.sump.trigger import SumpTrigger

BITS = st.integers(0, 7)
STAGES = st.lists(
    st.builds(Stage, mask=BITS, value=BITS, delay=st.integers(0, 6), level=st.integers(0, 3), start=st.booleans()), min_size=1, max_size=4
)
RUNS = st.lists(st.tuples(BITS, st.integers(1, 8)), min_size=1, max_size=15)


def sample_by_sample(stages: list[Stage], words: list[int]) -> int | None:
    """SUMP's gateware, one sample per cycle."""
    level, matched, done, awake_from = 0, {}, set(), {n: 0 for n, stage in enumerate(stages) if stage.level == 0}
    for now, word in enumerate(words):
        for n, first in awake_from.items():
            if n not in matched and now >= first and (word ^ stages[n].value) & stages[n].mask == 0:
                matched[n] = now
        fired = [n for n, at in matched.items() if n not in done and at + stages[n].delay == now]
        if any(stages[n].start for n in fired):
            return now
        done |= set(fired)
        if fired:
            level += 1
            awake_from |= {n: now + 1 for n, stage in enumerate(stages) if stage.level <= level and n not in awake_from}
    return None


@given(STAGES, RUNS, st.sets(st.integers(1, 60)))
def test_it_fires_where_the_gateware_would(stages: list[Stage], runs: list[tuple[int, int]], cuts: set[int]) -> None:
    words = [word for word, count in runs for _ in range(count)]
    trigger, found, first = SumpTrigger(stages), None, 0
    for last in [*sorted(cut for cut in cuts if cut < len(words)), len(words)]:  # in pieces, as the stream arrives
        piece = np.array(words[first:last], np.uint32)
        new = np.append(True, piece[1:] != piece[:-1])
        found = trigger.look(np.flatnonzero(new) + first, piece[new], last)
        if found is not None:
            break
        first = last
    assert found == sample_by_sample(stages, words)


def test_without_stages_the_first_sample_is_the_trigger() -> None:
    assert SumpTrigger([]).look(np.array([7]), np.array([1], np.uint32), 9) == 7
