"""Due length of a command's data, by its SQE. NVMe: Common Command Format, and each command's own dwords."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from wattbell_spec.nvme import FEATURE_DWS, admin, io

from . import tables
from .namespaces import Namespaces

__all__ = ["Lengths"]

_IDENTIFY_DWS = 1024


class Lengths:
    """Due lengths. Only opcodes with data need one: bits 1:0 of an opcode say whether it has any.

    none : surely no data is due; valid from the clock after :meth:`work_out` on.
    apart : metadata may go to a buffer that is not followed; valid with ``none``.
    has_metadata : metadata goes to a buffer of its own that is followed, if it is not too long; valid with ``none``.
    due : due length of the data (:data:`.tables.LEFT`), in the clock after :meth:`go_on`.
    metadata : double words of metadata in a buffer of its own, else 0; a clock after ``due``.
    long : the metadata is too long to be followed; valid with ``metadata``.
    """

    def __init__(self, *, namespaces: Namespaces) -> None:
        self.namespaces = namespaces
        self._many, self._size, self._product = Signal(17), Signal(15), Signal(32)
        self._plain, self._multiplies, self._sure = Signal(tables.DUE_BITS + 1), Signal(), Signal()
        self._each = Signal(14)  # double words of a block's metadata in a buffer of its own
        self.none, self.apart, self.has_metadata, self.due = Signal(), Signal(), Signal(), Signal(tables.LEFT)
        self.metadata, self.long = Signal(tables.METADATA_BITS), Signal()

    def connect(self, m: Module) -> None:
        m.d.sync += self._product.eq(self._many * self._size)
        m.d.comb += [
            self.due.dws.eq(Mux(self._multiplies, self._product, self._plain)),
            self.due.checked.eq(self._sure & ~(self._multiplies & (self._product[tables.DUE_BITS :] != 0))),
            self.has_metadata.eq(self._each != 0),
            self.long.eq(self.has_metadata & (self._product[tables.METADATA_BITS :] != 0)),
            self.metadata.eq(Mux(self.has_metadata & ~self.long, self._product[: tables.METADATA_BITS], 0)),
        ]

    def go_on(self, m: Module) -> None:
        """Multiply for the metadata next, in the present state after :meth:`work_out`."""
        m.d.sync += self._size.eq(self._each)

    def work_out(self, m: Module, sqe: Sequence[Value], of_admin: Value) -> None:
        """Work out what is due, in the present state, two after the NSID was looked up: `sqe` is the command's, `of_admin` its queue's."""
        spaces, opcode = self.namespaces, sqe[0][0:8]
        cdw10, cdw11, cdw12 = sqe[10:13]
        many, size, plain = Signal(17, name="due_many"), Signal(15, name="due_size"), Signal.like(self._plain, name="due_plain")
        known, multiplies, of_blocks = Signal(name="due_known"), Signal(name="due_multiplies"), Signal(name="due_of_blocks")
        protected = cdw12[29]

        def one_more(dws: Value) -> list:
            return [plain.eq(dws[: tables.DUE_BITS] + 1), known.eq(dws[tables.DUE_BITS :] == 0)]

        def times(count: Value, dws: Value | int) -> list:
            return [many.eq(count + 1), size.eq(dws), multiplies.eq(1)]

        with m.If(of_admin):
            with m.Switch(opcode):
                with m.Case(tables.CREATE_SQ, tables.CREATE_CQ):
                    m.d.comb += known.eq(1)
                with m.Case(tables.IDENTIFY, admin("namespace_attachment")):
                    m.d.comb += [plain.eq(_IDENTIFY_DWS), known.eq(1)]
                with m.Case(tables.NAMESPACE_MANAGEMENT):  # 0: create; 1: delete
                    m.d.comb += [plain.eq(Mux(cdw10[0], 0, _IDENTIFY_DWS)), known.eq(cdw10[1:4] == 0)]
                with m.Case(admin("get_log_page")):
                    m.d.comb += one_more(Cat(cdw10[16:32], cdw11[0:16]))
                with m.Case(admin("firmware_download")):
                    m.d.comb += one_more(cdw10)
                with m.Case(admin("security_send")):
                    m.d.comb += [plain.eq(cdw11[2:]), known.eq((cdw11[:2] == 0) & (cdw11[2 + tables.DUE_BITS :] == 0))]
                with m.Case(tables.SET_FEATURES, tables.GET_FEATURES):
                    sets, supported = opcode == tables.SET_FEATURES, cdw10[8:11] == 3
                    with m.Switch(cdw10[0:8]):
                        for feature, set_dws, get_dws in FEATURE_DWS:
                            with m.Case(feature):
                                # What is supported (Select 011b) is told in the CQE alone.
                                m.d.comb += [plain.eq(Mux(sets, set_dws, get_dws)), known.eq(sets | ~supported if get_dws else 1)]
        with m.Else():
            with m.Switch(opcode):
                with m.Case(*(io(name) for name in ("read", "write", "compare", "zone_append"))):
                    m.d.comb += [
                        *times(cdw12[0:16], spaces.dws),
                        of_blocks.eq(1),
                        # The drive may make and check protection information by itself; it depends on more than the format whether the
                        # host then sees it.
                        known.eq(spaces.known & ~(spaces.behind & protected)),
                    ]
                with m.Case(tables.DSM):
                    m.d.comb += [*times(cdw10[0:8], 4), known.eq(1)]
                with m.Case(io("copy")):  # formats of its source ranges: of 32 bytes, or of 40
                    m.d.comb += [*times(cdw12[0:8], Mux(cdw12[8], 10, 8)), known.eq(cdw12[10:12] == 0)]
                with m.Case(io("reservation_register"), io("reservation_acquire")):
                    m.d.comb += [plain.eq(4), known.eq(1)]
                with m.Case(io("reservation_release")):
                    m.d.comb += [plain.eq(2), known.eq(1)]
        sure = Signal(name="due_sure")
        m.d.comb += sure.eq(known & (sqe[0][14:16] != 3))
        metadata, has_pointer, usable = spaces.metadata, Signal(name="due_has_pointer"), Signal(name="due_usable")
        m.d.comb += [
            has_pointer.eq(of_blocks & ((sqe[4] | sqe[5]) != 0)),
            usable.eq((metadata[:2] == 0) & ~protected & (sqe[4][:2] == 0) & ~sqe[0][15]),
        ]
        m.d.sync += [
            self._many.eq(many),
            self._size.eq(size),
            self._plain.eq(plain),
            self._multiplies.eq(multiplies),
            self._sure.eq(sure),
            self.none.eq((opcode[0:2] == 0) | (sure & ~multiplies & (plain == 0))),
            self.apart.eq(has_pointer & ~(spaces.fits & ((metadata == 0) | usable))),
            self._each.eq(metadata[2:] & (has_pointer & spaces.fits & usable).replicate(14)),
        ]
