"""Protocol rules of NVMe and PCI Express, and a checker that reports them by ``logging`` and as JUnit XML."""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree


class Rule(enum.Enum):
    """A protocol rule: its clause and its text. NVM Express 1.4 or PCI Express Base 5.0 have the sections."""

    clause: str
    text: str

    def __new__(cls, clause: str, text: str) -> Rule:
        """Number the rules; keep clause and text beside."""
        rule = object.__new__(cls)
        rule._value_ = len(cls.__members__) + 1
        rule.clause = clause
        rule.text = text
        return rule

    DOORBELL_RANGE = "NVMe 1.4, 5.2, invalid doorbell write value", "a doorbell's value is below the queue's size"
    DOORBELL_REPEATED = "NVMe 1.4, 5.2, invalid doorbell write value", "a doorbell's value differs from the last one"
    DOORBELL_PAST_HEAD = "NVMe 1.4, 4.1.2, full queue", "an SQ tail doorbell does not pass the SQ's head"
    DOORBELL_PAST_TAIL = "NVMe 1.4, 5.2, invalid doorbell write value", "a CQ head doorbell does not pass the CQ's tail"
    DOORBELL_NO_QUEUE = "NVMe 1.4, 5.2, write to invalid doorbell register", "a doorbell belongs to a queue that exists"
    DOORBELL_RESERVED = "NVMe 1.4, 3.1, doorbells", "bits 31:16 of a doorbell are zero"
    FETCH_PAST_TAIL = "NVMe 1.4, 7.2.1", "the drive completes no SQE past the SQ's tail"
    SQE_RESERVED = "NVMe 1.4, 4.2, command dword 0", "reserved bits of command dword 0 are zero, and PSDT is not 11b"
    CC_RESERVED = "NVMe 1.4, 3.1.5", "reserved bits of CC are zero"
    PRP_OFFSET = "NVMe 1.4, 4.3", "a PRP is aligned to 4 bytes, and only the first has an offset in its page"
    CID_REUSED = "NVMe 1.4, 4.2, command identifier", "no two commands of an SQ in flight share a CID"
    CQE_NO_COMMAND = "NVMe 1.4, 4.6", "a CQE names a command whose SQE was fetched"
    CQE_SLOT = "NVMe 1.4, 4.1", "CQEs fill the CQ's slots in order"
    CQE_PHASE = "NVMe 1.4, 4.6, phase tag", "the phase tag inverts with each pass through the CQ"
    CQE_SQHD = "NVMe 1.4, 4.6, SQ head pointer", "SQHD of a CQE lies between the SQ's last head and the fetched SQEs"
    CQE_QUEUE = "NVMe 1.4, 4.6, SQ identifier", "a CQE stands in the CQ of its SQ"
    CQ_OVERRUN = "NVMe 1.4, 4.1.2, full queue", "no CQE is written to a full CQ"
    WRITE_OUTSIDE = "NVMe 1.4, 4.3 and 4.4", "the drive writes only to memory that the host gave"
    READ_OUTSIDE = "NVMe 1.4, 4.3 and 4.4", "the drive reads only memory that the host gave"
    DATA_COUNT = "NVMe 1.4, 4.3 and NVM read, write", "a successful command moves its length in full, and no byte twice"
    INTERRUPT_EARLY = "NVMe 1.4, 7.5", "an interrupt follows a CQE, which the host may have consumed meanwhile"
    ADMIN_WHILE_ENABLED = "NVMe 1.4, 3.1.8 to 3.1.10", "AQA, ASQ and ACQ are written only while CC.EN is 0"
    TIMEOUT = "host's time limit", "a command completes within the limit"
    TLP_MALFORMED = "PCIe 2.2", "a TLP is as long as its header says"
    TLP_CROSSES_4K = "PCIe 2.2.7", "a memory request does not cross a 4 KiB boundary"
    TLP_BYTE_ENABLES = "PCIe 2.2.5", "the last byte enables are zero for one double word, and not zero for more"
    COMPLETION_UNEXPECTED = "PCIe 2.3.2", "a completion belongs to an outstanding request"
    TAG_REUSED = "PCIe 2.2.6.2", "no two outstanding requests of a requester share a tag"


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of a rule."""

    rule: Rule
    time_ps: int
    function: int | None
    detail: str


class ViolationSource(Protocol):
    """An observer that reports breaches to ``on_violation``."""

    on_violation: Callable[[Violation], None] | None


class Checker:
    """Collects breaches of the rules that are switched on, logs each, and writes them as JUnit XML."""

    def __init__(
        self,
        observer: ViolationSource,
        *,
        disabled: Iterable[Rule] = (),
        keep: int = 1000,
        logger: logging.Logger | None = None,
    ) -> None:
        """Attach to ``observer``.

        Parameters:
            disabled: Rules that are not reported.
            keep: Number of breaches to keep with their details; all are counted.
            logger: Receives a warning for each breach that is kept.

        Raises:
            ValueError: Something in ``disabled`` is no rule, or ``observer`` has a checker already.
        """
        self.disabled = frozenset(disabled)
        strange = [repr(one) for one in self.disabled if not isinstance(one, Rule)]
        if strange:
            raise ValueError(f"no rule: {', '.join(sorted(strange))}; name rules as Rule.TIMEOUT")
        if observer.on_violation is not None:
            raise ValueError("the observer has a checker already: a Monitor has made its own, monitor.checker")
        self.violations: list[Violation] = []
        self.counts: Counter[Rule] = Counter()
        self._keep = keep
        self._logger = logger or logging.getLogger("cocotbext.nvmetap.rules")
        observer.on_violation = self._take

    def _take(self, violation: Violation) -> None:
        if violation.rule in self.disabled:
            return
        self.counts[violation.rule] += 1
        if len(self.violations) < self._keep:
            self.violations.append(violation)
            where = "" if violation.function is None else f" function {violation.function:04x}"
            self._logger.warning(
                "%s at %d ps%s: %s (%s)", violation.rule.name, violation.time_ps, where, violation.detail, violation.rule.clause
            )

    @property
    def passed(self) -> bool:
        """Whether no rule was broken."""
        return not self.counts

    def write_junit(self, path: Path | str, suite: str = "nvmetap") -> None:
        """Write a JUnit file with a test case for each rule; a rule that is switched off is a skipped case."""
        root = ElementTree.Element(
            "testsuite",
            name=suite,
            tests=str(len(Rule)),
            failures=str(len(self.counts)),
            errors="0",
            skipped=str(len(self.disabled)),
        )
        for rule in Rule:
            case = ElementTree.SubElement(root, "testcase", classname=suite, name=f"{rule.name}: {rule.text}")
            if rule in self.disabled:
                ElementTree.SubElement(case, "skipped", message="switched off")
            elif self.counts[rule]:
                failure = ElementTree.SubElement(case, "failure", message=f"{self.counts[rule]} times; {rule.clause}")
                failure.text = "\n".join(f"{v.time_ps} ps: {v.detail}" for v in self.violations if v.rule is rule)
        ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
