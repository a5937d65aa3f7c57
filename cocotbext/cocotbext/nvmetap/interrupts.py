"""Interrupts: messages of MSI-X and MSI, learnt vectors, INTx."""

from __future__ import annotations

import struct

from .command import Doubt
from .queue_entries import QueueEntries
from .rules import Rule
from .state import (
    Cq,
    Function,
)
from .tlp import Tlp

_LATE_PS = 50_000_000
"""A drive may send a message for each CQE. An earlier message may have made the host consume the CQE of one that waited for the link."""


class Interrupts(QueueEntries):
    """Finds the message that announces a CQE."""

    def _message(self, function: Function, time_ps: int, key: tuple[int, int]) -> bool:
        """Take a double word that may be an interrupt message. Returns whether it is one."""
        vector = function.vector_of.get(key)
        if vector is None and function.msix_table:
            for index, entry in function.msix_table.items():
                if struct.unpack_from("<QL", entry) == key:
                    vector = function.vector_of[key] = index
                    function.vector_hits[index] += 1
                    break
        if vector is not None:
            function.vector_hits[vector] += 1
            function.candidates.pop(key, None)
            queues = [cq for cq in function.cqs.values() if cq.ien and cq.vector == vector]
            owed = any(cq.owed or cq.unread for cq in queues)
            if not self._interrupt(queues, time_ps, function) and queues and not owed and not _is_late(queues, time_ps):
                self._breach(Rule.INTERRUPT_EARLY, time_ps, function, f"vector {vector}: no CQE waits")
            return True
        mapped = set(function.vector_of.values())
        waiting = {cq.vector for cq in function.cqs.values() if cq.ien and cq.waiting} - mapped
        possible = function.candidates.get(key)
        if possible is not None:
            possible = (possible & waiting) or waiting
        else:
            possible = waiting
        if not possible:
            if key in function.candidates or key[0] >> 20 == 0xFEE:
                function.stray_message = True
                if not any(cq.ien and (cq.owed or cq.unread) for cq in function.cqs.values()):
                    self._breach(Rule.INTERRUPT_EARLY, time_ps, function, f"message {key[1]:x}h to {key[0]:x}h: no CQE waits")
                self.unmatched["interrupt of an unknown vector"] += 1
                return True
            return False
        if len(possible) == 1:
            vector = next(iter(possible))
            function.vector_of[key] = vector
            function.candidates.pop(key, None)
            self._interrupt([cq for cq in function.cqs.values() if cq.ien and cq.vector == vector], time_ps, function)
            return True
        function.candidates[key] = set(possible)
        guess = min(possible, key=lambda v: min(c.waiting[0].cqe or 0 for c in function.cqs.values() if c.vector == v and c.waiting))
        for cq in function.cqs.values():
            if cq.vector in possible:
                for cmd in cq.waiting:
                    cmd.doubt(Doubt.INTERRUPT_GUESSED)
        self._interrupt([cq for cq in function.cqs.values() if cq.ien and cq.vector == guess], time_ps, function)
        return True

    def _intx(self, tlp: Tlp) -> None:
        """Assert_INTx: its requester ID has no function (2.2.8.1), so every function with waiting CQEs may have sent it."""
        functions = [f for f in self._functions.values() if any(cq.ien and cq.waiting for cq in f.cqs.values())]
        if not functions:
            self.unmatched["INTx without a CQE"] += 1
            enabled = [f for f in self._functions.values() if f.enabled]
            owed = [cq for f in enabled for cq in f.cqs.values() if cq.owed]
            for cq in owed:  # the message may have crossed the CQ head doorbell
                cq.owed = False
            if enabled and not owed and not any(cq.unread for f in enabled for cq in f.cqs.values()):
                self._breach(Rule.INTERRUPT_EARLY, tlp.time_ps, None, "INTx: no CQE waits")
        for function in functions:
            if len(functions) > 1:
                for cq in function.cqs.values():
                    for cmd in cq.waiting:
                        cmd.doubt(Doubt.INTERRUPT_GUESSED)
            self._interrupt([cq for cq in function.cqs.values() if cq.ien], tlp.time_ps, function)

    def _interrupt(self, queues: list[Cq], time_ps: int, function: Function) -> bool:
        found = False
        for cq in queues:
            for cmd in cq.waiting:
                cmd.interrupt = time_ps
                found = True
            if len(cq.waiting) > 1 and not cq.shares:
                cq.spare.extend(cmd.cqe for cmd in cq.waiting[:-1] if cmd.cqe is not None)
            _expire(cq, time_ps)
            cq.waiting = []
            cq.owed = False
            if cq.late:
                if cq.unread:  # the message may be for these CQEs alone
                    for cmd in cq.late:
                        cmd.doubt(Doubt.INTERRUPT_GUESSED)
                for cmd in cq.late:
                    self._finish(cmd)
                cq.late = []
        return found


def _is_late(queues: list[Cq], time_ps: int) -> bool:
    """Whether a message may be of a CQE that shared another one's message lately, of a drive that sends one for each CQE."""
    for cq in queues:
        _expire(cq, time_ps)
        if cq.spare and not cq.shares:
            cq.spare.popleft()
            return True
    return False


def _expire(cq: Cq, time_ps: int) -> None:
    while cq.spare and cq.spare[0] < time_ps - _LATE_PS:
        cq.spare.popleft()
        cq.shares = True
