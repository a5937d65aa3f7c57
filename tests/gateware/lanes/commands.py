"""Compares the command records of a damaged link with the records of the undamaged TLPs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from tests.gateware.lanes.sender import Sender

GUESS, SHADOW, PARTIAL, ABORTED, NO_SQE, REUSED, LOSS, NO_RANGES = (1 << i for i in range(8))
UNSURE = GUESS | NO_SQE | LOSS
"""Flags that mean a field may be wrong or missing."""
FIELDS = ("opcode", "qid", "cid", "status", "nsid", "blocks", "slba")
OF_CQE = ("qid", "cid", "status")


@dataclass
class CommandTally:
    """Comparison of the damaged link's records with the undamaged link's.

    - `records`: received.
    - `equal`: every non-time field as on the undamaged link, and no flag that is absent there.
    - `flagged`: with other flags, and fields wrong or missing.
    - `aborted`: flagged as given up, because their CQE was lost.
    - `unnoticed`: a field differs and no flag says so.
    - `missing`: on the undamaged link but not received.
    - `doubtful`: flagged, and matching no command of the undamaged link, or one of another queue.
    - `phantom`: the same without such a flag.
    - `strange`: the records of the last two.
    """

    whole: int = 0
    records: int = 0
    equal: int = 0
    flagged: int = 0
    aborted: int = 0
    unnoticed: int = 0
    missing: int = 0
    doubtful: int = 0
    phantom: int = 0
    strange: list[dict[str, int]] = field(default_factory=list)

    def __iadd__(self, other: CommandTally) -> CommandTally:
        for each in fields(CommandTally):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self


def compare(got: Sequence[dict[str, int]], whole: Sequence[dict[str, int]], taken: dict[int, int], up: Sender) -> CommandTally:
    """Compare records. `taken`: tick of the copy of a drive's TLP as seen by the undamaged link's tap -> its number.

    A CQE is identified by its TLP.
    """
    came = {copy.tick: copy.serial for copy in up.copies}
    expected: dict[tuple[int, int, int], dict[str, int]] = {}
    for record in whole:
        assert not record["flags"] & (UNSURE | ABORTED), f"not without errors itself: {record}"
        expected[(taken[record["cqe_tick"]], record["qid"], record["cid"])] = record
    unknown: Counter[int] = Counter()
    known_ids = {(record["qid"], record["cid"]) for record in whole}
    tally, seen = CommandTally(whole=len(whole), records=len(got)), set()
    for record in got:
        if record["flags"] & ABORTED:  # its tick is not that of a CQE
            if record["flags"] & NO_SQE:  # its CID is unknown too: the tap has missed the SQE of a doorbell or fetch
                unknown[record["qid"]] += 1
            elif (record["qid"], record["cid"]) in known_ids:
                tally.aborted += 1
            else:
                _of_none(tally, record)
            continue
        key = (came.get(record["cqe_tick"]), record["qid"], record["cid"])
        want = expected.get(key)
        if want is None or key in seen or any(record[f] != want[f] for f in OF_CQE):
            _of_none(tally, record)
            continue
        seen.add(key)
        if all(record[f] == want[f] for f in (*FIELDS, "flags")):
            tally.equal += 1
        elif record["flags"] & UNSURE or all(record[f] == want[f] for f in FIELDS):
            tally.flagged += 1
        else:
            tally.unnoticed += 1
    tally.missing = len(expected) - len(seen)
    missing = Counter(qid for _, qid, _ in expected.keys() - seen)
    for qid, count in unknown.items():
        tally.aborted += min(count, missing[qid])
        tally.doubtful += max(0, count - missing[qid])
    return tally


def _of_none(tally: CommandTally, record: dict[str, int]) -> None:
    tally.strange.append(record)
    if record["flags"] & UNSURE:
        tally.doubtful += 1
    else:
        tally.phantom += 1
