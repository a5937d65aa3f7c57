"""The wire format, defined once, as plain data.

Gateware layouts, the Rust constants of the virtual rig, the host decoder and the table in ``docs/wire-format.md``
are all derived from this module.

A stream is a sequence of blocks. Everything is little-endian. A block is a 28-byte header, a payload whose length
is a multiple of 4, and a CRC-32 (the zlib/Ethernet polynomial) over header and payload:

========  ====  =====================================================================================
offset    size  field
========  ====  =====================================================================================
0         4     magic ``WBEL``
4         1     format version (2)
5         1     kind (:class:`BlockContent`)
6         2     payload length in bytes, a multiple of 4, at most ``MAX_PAYLOAD``
8         4     sequence number, shared by all kinds, +1 per block, modulo 2**32
12        4     dropped: records (rail: samples) of this kind lost in the rig since its previous block
16        8     first tick: the time base of the payload (see each kind)
24        4     run: identifier of the capture run, set by the host before the run began
28        n     payload
28+n      4     CRC-32 of bytes 0 .. 28+n-1
========  ====  =====================================================================================

Ticks are nanoseconds of the rig's single free-running counter (``TICK_PS``), from power-on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

MAGIC = b"WBEL"
VERSION = 2
HEADER_SIZE = 28
CRC_SIZE = 4
MAX_PAYLOAD = 2048
TICK_PS = 1000
"""Length of a tick in picoseconds. Each clock cycle adds the clock period in ticks to the counter."""
SEQUENCE_WINDOW = 4096
"""Blocks with a sequence number further off than this are not believed until a second block confirms them."""
LAST_TICK = 1 << 60
"""No counter gets this far (36 years): a tick beyond it is damage."""
FLUSH_TICKS = 10_000_000
"""An open block is closed this long after its first record, full or not (10 ms)."""


class BlockContent(IntEnum):
    """Content of a block."""

    COMMANDS = 1
    RAIL = 2
    EVENTS = 3
    TLP = 4
    STATUS = 5
    LINK = 6


@dataclass(frozen=True)
class Field:
    """One field of a record: ``bits`` wide, packed without gaps from bit 0 of byte 0 upward, little-endian.

    truth: of a command: the SSD model knows it too, and its truth is compared with it
    """

    name: str
    bits: int
    doc: str
    signed: bool = False
    truth: bool = False


def record_size(fields: tuple[Field, ...]) -> int:
    """Size in bytes of a record of ``fields``."""
    bits = sum(f.bits for f in fields)
    assert bits % 32 == 0, "records are whole 32-bit words"
    return bits // 8


HEADER = (
    Field("magic", 32, "the bytes 'WBEL'"),
    Field("version", 8, "format version, 2"),
    Field("kind", 8, "1 COMMANDS, 2 RAIL, 3 EVENTS, 4 TLP, 5 STATUS, 6 LINK"),
    Field("length", 16, "payload bytes, multiple of 4"),
    Field("sequence", 32, "block number, shared by all kinds"),
    Field("dropped", 32, "records of this kind lost in the rig since the previous block of this kind"),
    Field("first_tick", 64, "time base of the payload"),
    Field("run", 32, "identifier of the capture run, set before it began (RUN_ID); 0: none"),
)

# --- COMMANDS ---------------------------------------------------------------------------------------------------

UNKNOWN32 = 0xFFFFFFFF
"""A 32-bit age that was not observed."""
SATURATED32 = 0xFFFFFFFE
"""A 32-bit age of at least this many ticks (4.29 s or more)."""
UNKNOWN24 = 0xFFFFFF
SATURATED24 = 0xFFFFFE
NSID_BROADCAST = 0xFFFF
"""The command's NSID was FFFFFFFFh."""
NSID_LARGE = 0xFFFE
"""The command's NSID did not fit (FFFEh or more, not broadcast)."""

COMMAND = (
    Field("cqe_offset", 32, "CQE tick - block first tick (signed)", signed=True),
    Field("doorbell_before", 32, "CQE tick - tick of the SQ tail doorbell that announced the command"),
    Field("fetch_before", 32, "CQE tick - tick of the drive's read of the SQE"),
    Field("first_data_before", 32, "CQE tick - tick of the first data TLP"),
    Field("last_data_before", 32, "CQE tick - tick of the last data TLP"),
    Field("msix_after", 24, "tick of the interrupt message - CQE tick"),
    Field("cq_head_after", 24, "tick of the CQ head doorbell that released the CQE - CQE tick"),
    Field("opcode", 8, "SQE byte 0"),
    Field("qid", 7, "submission queue"),
    Field("interrupt_guessed", 1, "bit 7 of byte 27. 1: `msix_after`, or its absence, is a guess"),
    Field("cid", 16, "command identifier, as on the wire"),
    Field("status", 15, "CQE bits 127:113 (SC 7:0, SCT 10:8, CRD 12:11, M 13, DNR 14)"),
    Field("length_checked", 1, "bit 7 of byte 31. 1: the due length of the data is known, and its double words were counted"),
    Field("nsid", 16, "namespace; FFFFh broadcast, FFFEh does not fit"),
    Field("blocks", 32, "I/O: logical blocks (NLB+1; DSM: sum over its ranges; Flush: 0). Other opcodes, admin: CDW11"),
    Field("slba", 40, "I/O: starting LBA, low 40 bits (DSM: of its first range). Other opcodes, admin: CDW10"),
    Field("flags", 8, "see CommandFlag"),
)
COMMAND_SIZE = record_size(COMMAND)


class CommandFlag(IntFlag):
    """Reservations about a command record."""

    GUESS = 0x01  # a queue position was inferred (late attach, or after a loss), or addresses are of several spaces
    SHADOW = 0x02  # shadow doorbells were in use: the doorbell tick is unknown
    DATA_PARTIAL = 0x04  # data span in doubt: the data's length is not what was due, page map full, SGLs, or metadata in its own buffer
    ABORTED = 0x08  # no CQE: queue deleted or controller reset; the CQE tick is the tick of that
    NO_SQE = 0x10  # CQE without a known SQE: opcode, nsid, slba, blocks are 0
    CID_REUSED = 0x20  # the CID was fetched again while still in flight
    LOSS = 0x40  # the rig lost bus data while this command was in flight
    NO_RANGES = 0x80  # DSM whose range list was not (all) seen: blocks is a lower bound


# --- RAIL -------------------------------------------------------------------------------------------------------

RAIL_HEADER = (
    Field("interval_ticks", 32, "ticks between samples of this block: conversion period x decimation"),
    Field("count", 16, "samples in this block"),
    Field("flags", 16, "see RailFlag; a flag applies to at least one conversion of this block"),
    Field("adc_index", 64, "number of conversions accumulated in `energy` (since the rig started)"),
    Field("energy", 64, "sum of voltage x current over those conversions: bits 63:0 of a 96-bit number in two's complement", signed=True),
    Field("energy_high", 32, "bits 95:64 of it", signed=True),
)
RAIL_HEADER_SIZE = record_size(RAIL_HEADER)
"""The header is followed by `count` samples of two 24-bit numbers, and zero bytes up to a multiple of 4.

first_tick of the block is the tick of its first sample: the instant of the conversion, or with decimation the centre
of the filter's impulse response. Energy covers every conversion up to the one that completed the last sample.
"""

RAIL_SAMPLE = (
    Field("voltage", 24, "in VOLTAGE_LSB_UV", signed=True),
    Field("current", 24, "in CURRENT_LSB_NA", signed=True),
)
RAIL_SAMPLE_SIZE = 6


class RailFlag(IntFlag):
    OVERLOAD_I = 0x01  # a current conversion was at the end of the ADC's scale
    OVERLOAD_V = 0x02  # a voltage conversion was at the end of the ADC's scale
    UNCALIBRATED = 0x04  # gain and offset registers hold their reset values
    SATURATED = 0x08  # a corrected value did not fit 24 bits and was clipped
    RESTARTED = 0x10  # first block after start or after a change of period, decimation or calibration


# --- EVENTS -----------------------------------------------------------------------------------------------------

EVENT = (
    Field("tick", 64, "when"),
    Field("type", 8, "see EventType"),
    Field("arg8", 8, "see EventType"),
    Field("arg16", 16, "see EventType"),
    Field("arg32", 32, "see EventType"),
)
EVENT_SIZE = record_size(EVENT)


class EventType(IntEnum):
    """Type of an event, and its arguments."""

    LINK = 1  # arg8 LinkState
    CLKREQ = 2  # arg8 level of CLKREQ# (0 asserted, 1 released)
    PERST = 3  # arg8 level of PERST# (0 in reset)
    CC_EN = 4  # arg8 new CC.EN; arg32 CC
    SHADOW_DOORBELLS = 5  # Doorbell Buffer Config was accepted
    TRACKER_RESET = 6  # arg8 ResetCause
    MARKER = 7  # arg8 MarkerSource; arg32 value
    LOSS = 8  # arg8 LossSource; arg32 records lost since the last LOSS event of that source
    QUEUE_CREATED = 9  # arg8 0 SQ / 1 CQ; arg16 qid; arg32 size in entries
    QUEUE_DELETED = 10  # arg8 0 SQ / 1 CQ; arg16 qid
    BAR0 = 11  # arg32 address bits 43:12 of BAR0
    POWER_STATE = 12  # Set Features 02h completed without error: arg8 CDW11 7:0
    GUESSING = 13  # arg8 GuessReason; arg16 qid (of SECOND_FUNCTION and ADDRESS_SPACES the requester ID)
    MALFORMED = 14  # arg8 direction (0 host to drive, 1 drive to host), arg16 MalformedClass: a TLP was rejected, or is poisoned
    RUN = 15  # arg8 1 capture started, 0 stopped
    # Below: only from a rig that taps the lanes (LINK blocks). arg8 is the direction: 0 host to drive, 1 drive to host
    LINK_STATE = 16  # arg16 LinkState of this direction alone; LINK has the state of both together
    LINK_LANES = 17  # arg16 3:0 wires in use, 4 lane 0 is on the last wire, 5 scrambling is disabled
    LINK_SPEED = 18  # a speed change is requested; arg16 rates offered: bit 1 2.5 GT/s, 2 5 GT/s, 3 8 GT/s
    LINK_RATE = 19  # arg16 rate received from here on: 1 2.5 GT/s, 2 5 GT/s, 3 8 GT/s
    LINK_LOCK = 20  # arg16 3:0 wires with symbol or block lock, 4 lanes deskewed
    DLLP = 21  # arg16 its type (PCIe Base 2.1, table 3-1); arg32 Ack, Nak: sequence number; InitFC: the DLLP's four bytes
    LINK_TLP = 22  # arg16 11:0 sequence number, 15:12 TlpFate; arg32 TLPs missing before it
    LINK_FAULTS = 23  # errors at 2.5 and 5 GT/s; arg32 how many (docs/phy.md, FAULTS)
    BLOCK_FAULTS = 24  # errors at 8 GT/s; arg32 which (docs/phy.md, BLOCK_EVENTS)
    # From every rig
    SHUTDOWN = 25  # the host writes CC.SHN: arg8 1 normal, 2 abrupt; arg32 CC
    SHUTDOWN_STATUS = 26  # a read of CSTS shows another CSTS.SHST: arg8 SHST; arg32 ticks since the answer to the read before it


class LinkState(IntEnum):
    UNKNOWN = 0
    L0 = 1
    L0S = 2
    L1 = 3
    L1_1 = 4
    L1_2 = 5
    RECOVERY = 6
    DETECT = 7


class TlpFate(IntEnum):
    """Fate of a TLP that was not simply delivered."""

    GAP = 0  # delivered; the TLPs before it never arrived intact
    RECOVERED = 1  # delivered late: counted as missing, then arrived intact in a replay
    DUPLICATE = 2  # replayed, already delivered before
    NULLIFIED = 3
    BAD_LCRC = 4
    BAD_FRAME = 5  # truncated
    NO_ROOM = 6  # good, but the rig had no room for it


class ResetCause(IntEnum):
    POWER_ON = 0
    PERST = 1
    CC_EN = 2  # CC.EN was written 0, or rose again
    COMMAND = 3  # requested over the control port
    LINK = 4  # the link went to Detect: a hot reset, or the link was lost
    FLR = 5  # Function Level Reset
    D3HOT = 6  # from D3hot to D0, of a function without No_Soft_Reset
    UNSEEN = 7  # the host sets up the controller anew, or reads that it is disabled: its reset was not seen


class MarkerSource(IntEnum):
    IN_BAND = 0  # Get Features with FID D0h on the admin queue; value is CDW11
    CONTROL = 1  # written over the control port; by the rig itself FFFFFFFFh (trigger), FFFFFFFEh and FFFFFFFDh (test load on, off)


TRIGGER_MARK = 0xFFFF_FFFF
"""The trigger has acted."""
LOAD_ON_MARK, LOAD_OFF_MARK = 0xFFFF_FFFE, 0xFFFF_FFFD
"""An edge of the test load, at the event's tick."""


class LossSource(IntEnum):
    TLP_DOWN = 0  # TLPs host to drive, before the tracker
    TLP_UP = 1  # TLPs drive to host, before the tracker
    SLOTS = 2  # commands beyond what the tracker can hold in flight
    QUEUES = 3  # queues beyond the tracker's table, or queue pages beyond its map
    PAGES = 4  # data pages evicted while their command was in flight
    RECORDS = 5  # command records, after the tracker
    EVENTS = 6  # events
    RAIL = 7  # rail samples
    RAW = 8  # raw TLP bytes
    TAGS = 9  # read requests beyond the tag table, or completions for unknown tags


class GuessReason(IntEnum):
    LATE_ATTACH = 0  # queue table came from the host, queue positions are inferred
    AFTER_LOSS = 1  # positions inferred again after bus data was lost
    STRIDE = 2  # CAP was never read: doorbell stride taken as 0 or from the host
    SECOND_FUNCTION = 3  # the drive's TLPs of a second function were seen: that function is not followed
    SQE_PARTS = 4  # the drive reads SQEs in parts: the queues that such SQEs create are unknown
    SQES_UNREAD = 5  # the drive took SQEs without a read, as from a queue in its own memory: their commands have NO_SQE
    ADDRESS_SPACES = 6  # the drive's requests name a process's address space (PASID), where an address means another page


class MalformedClass(IntEnum):
    """Reasons why the parser rejects a TLP. If several hold, the first counts."""

    CUT = 1  # it did not come whole: another TLP began inside it, beats are missing, or the link layer rejected it
    PREFIXES = 2  # more than 4 end-to-end prefixes, more than 7 in all, a local one behind an end-to-end one, or no header behind them
    ENCRYPTED = 3  # an IDE prefix: the payload is encrypted
    FORMAT = 4  # unknown format of the header
    LENGTH = 5  # its length is not the length that its header says
    BOUNDARY = 6  # a memory request that crosses a 4 KiB boundary
    POISONED = 7  # poisoned (EP); a poisoned TLP that moves data keeps its ticks, and its content is not used


# --- TLP --------------------------------------------------------------------------------------------------------

TLP_HEADER = (
    Field("offset", 32, "TLP tick - block first tick (signed)", signed=True),
    Field("length", 16, "bytes of TLP that follow (header included), padded to a multiple of 4 in the stream"),
    Field("direction", 8, "0 host to drive, 1 drive to host"),
    Field("flags", 8, "bit 0: truncated; bit 1: captured because it carries Identify data"),
)
TLP_HEADER_SIZE = record_size(TLP_HEADER)

# --- STATUS -----------------------------------------------------------------------------------------------------

STATUS_PERIOD_TICKS = 1 << 27
"""A STATUS block is sent at start, at stop and whenever the counter crosses a multiple of this (134 ms)."""

STATUS = (
    Field("gateware_version", 32, "major 31:16, minor 15:8, patch 7:0"),
    Field("tick_ps", 32, "picoseconds per tick"),
    Field("clock_ticks", 16, "ticks per clock cycle"),
    Field("tlp_width", 16, "TLP datapath width in bits"),
    Field("queues", 16, "queue table entries"),
    Field("slots", 16, "maximum number of commands in flight"),
    Field("adc_bits", 16, "bits per conversion"),
    Field("run", 8, "1 while capturing"),
    Field("dstrd", 8, "doorbell stride exponent in use"),
    Field("voltage_lsb_uv", 32, "VOLTAGE_LSB_UV"),
    Field("current_lsb_na", 32, "CURRENT_LSB_NA"),
    Field("adc_period_ticks", 32, "ticks between conversions"),
    Field("decimation", 16, "conversions per sample"),
    Field("reserved", 16, "zero"),
    Field("tlps_down", 64, "TLPs host to drive"),
    Field("tlps_up", 64, "TLPs drive to host"),
    Field("commands", 64, "command records produced"),
    Field("in_flight", 32, "commands in flight now"),
    Field("malformed", 32, "malformed TLPs rejected"),
    Field("unmatched", 32, "memory TLPs from the drive that match no queue, no command and no host memory buffer"),
    Field("lost_tlps", 32, "TLPs lost before the tracker"),
    Field("lost_commands", 32, "commands without a record, as the tracker had no slot for them"),
    Field("lost_records", 32, "command records lost after the tracker"),
    Field("lost_events", 32, "events lost"),
    Field("lost_samples", 32, "rail samples lost"),
    Field("lost_pages", 32, "data pages evicted from the map while in use"),
    Field("bar0", 64, "BAR0; 0 while unknown"),
    Field("hmb_read_bytes", 64, "bytes that the drive asked for in the host memory buffer"),
    Field("hmb_written_bytes", 64, "bytes that the drive wrote to the host memory buffer"),
    Field("hmb_reads", 32, "TLPs of these reads"),
    Field("hmb_writes", 32, "TLPs of these writes"),
    Field("unmatched_reads", 32, "of `unmatched`: reads"),
)
STATUS_SIZE = record_size(STATUS)
STATUS_FIRST_SIZE = 104
"""Bytes of a STATUS block of gateware before 2026-11-28: it ends behind ``bar0``."""

# --- LINK -------------------------------------------------------------------------------------------------------

LINK = (
    Field("direction", 8, "0 host to drive, 1 drive to host"),
    Field("state", 8, "LinkState of this direction"),
    Field("lanes", 8, "3:0 wires in use, 4 lane 0 is on the last wire, 5 scrambling is disabled"),
    Field("rate", 8, "1: 2.5 GT/s, 2: 5 GT/s, 3: 8 GT/s, 0: unknown"),
    Field("tlps", 32, "TLPs delivered"),
    Field("dllps", 32, "DLLPs with a good CRC"),
    Field("duplicates", 32, "replayed TLPs that had already been delivered"),
    Field("lost", 32, "sequence numbers skipped"),
    Field("late", 32, "TLPs that arrived after being counted as lost"),
    Field("nullified", 32, "TLPs nullified by their sender"),
    Field("bad_lcrc", 32, "TLPs with a bad LCRC"),
    Field("bad_frames", 32, "TLPs truncated, or shorter than the minimum"),
    Field("bad_dllps", 32, "DLLPs with a bad CRC"),
    Field("headless", 32, "2.5, 5 GT/s: packet ends without a start"),
    Field("dropped", 32, "good TLPs and DLLPs dropped by the rig for lack of room; 8 GT/s: times the lanes' queues were full"),
    Field("lost_events", 32, "link events lost for lack of room"),
    Field("bad_words", 32, "2.5, 5 GT/s: words of a lane in use with an invalid symbol"),
    Field("unlocked", 32, "times a lane in use lost symbol or block lock (electrical idle causes that too)"),
    Field("bad_headers", 32, "8 GT/s: blocks of a lane with a bad sync header"),
    Field("corrected_tokens", 32, "8 GT/s: tokens with one bit error, corrected"),
    Field("lost_tokens", 32, "8 GT/s: times an expected token was missing"),
    Field("corrected_registers", 32, "8 GT/s: SKP ordered sets whose scrambler value differs from the one in use"),
    Field("damaged_skips", 32, "8 GT/s: SKP ordered sets with a bad scrambler value or end"),
    Field("bad_parity", 32, "8 GT/s: SKP ordered sets whose parity differs from that of the preceding blocks"),
    Field("lanes_differ", 32, "8 GT/s: blocks on which lanes disagreed"),
    Field("acks", 32, "Acks of this direction's TLPs (sent by the other) whose TLP was seen"),
    Field("ack_min", 32, "minimum ticks from a TLP's first symbol to the first symbol of its Ack; all ones if none"),
    Field("ack_max", 32, "their maximum"),
    Field("ack_sum", 64, "their sum"),
)
"""A LINK block holds one such record per direction. Counters run from power-on, modulo 2**32 (the sum: 2**64)."""
LINK_SIZE = record_size(LINK)
LINK_COUNTERS = tuple(f.name for f in LINK[4:25])
"""The counters of a receiver, in order."""
