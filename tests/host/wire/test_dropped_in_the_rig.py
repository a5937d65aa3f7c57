"""Drops reported by the rig in a block's header are never overlooked, whatever the kind and however busy the stream."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from wattbell.wire.decode import StreamDecoder
from wattbell_spec.wire import BlockContent

from tests.host.wire import encoder as e

MAKERS: dict[BlockContent, Callable[[int, int, int], bytes]] = {
    BlockContent.COMMANDS: lambda n, tick, dropped: e.commands(n, tick, [e.Command(tick)], dropped),
    BlockContent.RAIL: lambda n, tick, dropped: e.rail(n, tick, [(165_000, 1)] * 4, adc_index=4 * n, dropped=dropped),
    BlockContent.EVENTS: lambda n, tick, dropped: e.events(n, tick, [(tick, 1, 1, 0, 0)], dropped),
    BlockContent.TLP: lambda n, tick, dropped: e.tlps(n, tick, [(tick, 0, 0, bytes(12))], dropped),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("at", range(5))
def test_dropped_records_are_a_gap_since_the_block_before(kind: BlockContent, at: int) -> None:
    """`at`: which of five blocks reports it; the later ones come in order, all alike."""
    decoder, gaps = StreamDecoder(), []
    for n in range(5):
        gaps += [gap for batch in decoder.feed(MAKERS[kind](n, 10_000 * (n + 1), 17 if n == at else 0)) for gap in batch.gaps]
    gaps += [gap for batch in decoder.finish() for gap in batch.gaps]
    (gap,) = gaps
    assert (gap.kind, gap.count) == (kind, 17)
    assert (gap.first_tick, gap.last_tick) == (10_000 * max(at, 1), 10_000 * (at + 1))
    assert decoder.counters.dropped == {k.name: 17 if k is kind else 0 for k in BlockContent}
    assert not decoder.counters.lossless


def test_dropped_records_of_several_blocks_add_up() -> None:
    decoder = StreamDecoder()
    batches = decoder.feed(b"".join(e.commands(n, 1000 * (n + 1), [e.Command(1000 * (n + 1))], dropped=n) for n in range(6)))
    assert sum(gap.count for batch in batches + decoder.finish() for gap in batch.gaps) == 0 + 1 + 2 + 3 + 4 + 5
    assert decoder.counters.dropped["COMMANDS"] == 15
