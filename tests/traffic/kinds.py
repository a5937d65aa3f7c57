"""The kinds of traffic by name, and what each means for a drawn set-up."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.traffic.kernel import NS, US

GIB = 1 << 30

KINDS = {
    "base": "Linux-like host: MSI-X, PRP, 512-byte blocks",
    "one_queue": "the same with one I/O queue: each message is the only one of its time",
    "stornvme": "StorNVMe-like host: MSI-X, SQs that share a CQ, CQs before SQs",
    "msi": "messages of the MSI capability, one or several",
    "remapped": "VT-d: messages with data 0 and the handle in address bits 19:5 (VT-d 5.1.2.2)",
    "intx": "INTx messages (PCIe 2.2.8.1)",
    "polled": "some CQs with IEN = 0 beside others with interrupts (NVMe, Create I/O Completion Queue)",
    "spdk": "SPDK-like host: every queue polled, no CC.EN = 0 first",
    "lba4096": "blocks of 4096 bytes",
    "lba8192": "blocks of 8192 bytes",
    "extended": "4096+8 bytes: metadata behind each block (NVM Command Set, End-to-end Data Protection)",
    "mptr": "4096+8 bytes: metadata in a buffer of its own",
    "formats": "namespaces of different formats",
    "format_nvm": "Format NVM changes a namespace's format (NVMe, Format NVM)",
    "list_pool": "PRP lists in a pool of blocks of 256 bytes that keep their old entries",
    "list_overread": "the drive reads more of a PRP list than the command needs",
    "list_chain": "PRP lists that end at a page's end and go on elsewhere (NVMe, Physical Region Page)",
    "unaligned": "PRP1 with an offset of dwords",
    "sgl_block": "one SGL data block descriptor in the SQE (NVMe, Scatter Gather List)",
    "sgl_segments": "SGL segments in a chain",
    "sgl_bit_bucket": "SGL bit buckets in reads",
    "hmb_1dw": "host memory buffer: single dwords written and read (NVMe, Host Memory Buffer)",
    "hmb_bulk": "host memory buffer: 64 to 4096 bytes at a time",
    "opcodes": "Compare, Verify, Dataset Management, Copy, Zone Append, Write Uncorrectable and others",
    "admin": "Identify, Get Log Page, Features with and without data, Abort, AER amid I/O",
    "queues": "queues deleted with commands in flight and created anew (NVMe, Create and Delete I/O Queue)",
    "deep": "more than 1024 commands in flight",
    "reset_en": "CC.EN 1 to 0 amid traffic (NVMe, Controller Level Reset)",
    "reset_shn": "CC.SHN, CSTS.SHST, then CC.EN 1 to 0 (NVMe, Shutdown)",
    "reset_flr": "function level reset (PCIe 6.6.2); the next driver writes CC.EN = 1 at once",
    "reset_d3hot": "PMCSR D3hot and D0 without No_Soft_Reset (PM 5.4)",
    "reset_nssr": "NVM subsystem reset (NVMe, NVM Subsystem Reset): the link goes down",
    "reset_hot": "hot reset (PCIe 6.6.1): Recovery, Detect, L0",
    "reset_link": "the link goes down without warning",
    "reset_perst": "PERST#",
    "late": "the trace begins amid traffic",
    "fetch_ur": "reads of SQEs answered by Unsupported Request, and repeated",
    "data_ca": "reads of data answered by Completer Abort; status 04h",
    "poisoned": "data with EP = 1 (PCIe 2.7.2)",
    "ats": "address translation requests, then translated addresses (PCIe 10.2)",
    "pasid": "data of every other queue in the address space of a process (PCIe 6.20)",
    "zero_read": "reads of zero bytes to flush (PCIe 2.2.5)",
    "two_doorbells": "a write of 8 bytes to an SQ's tail and its CQ's head; NVMe, Property Access, allows 4 bytes at a time",
    "byte_enables": "doorbells written as 2 bytes, the disabled bytes random; NVMe, Property Access, allows 4 bytes at a time",
    "second_function": "a second controller at function 1 with tags, queues and CIDs of its own",
    "prefetch": "the drive reads SQEs beyond the tail, and again after the doorbell",
    "sqe128": "CC.IOSQES = 7",
    "cmb_sq": "SQs in the controller memory buffer (NVMe, Controller Memory Buffer)",
    "cqe_merged": "several CQEs in one write",
    "cqe_halves": "a CQE in two writes of 8 bytes",
    "sqe_halves": "an SQE read as two reads of 32 bytes",
    "decoys": "user data that looks like CQEs and pointers to pages",
    "coalescing": "the drive holds messages back for up to 20 us (Set Features 08h, NVMe, Interrupt Coalescing)",
    "same_buffer": "several commands in flight on one host buffer",
}
"""Name and meaning."""

FLAGGED = {
    "queues": "commands in flight when their queue is deleted",
    "deep": "commands beyond the tracker's slots",
    "late": "messages that were set up before the trace",
    "fetch_ur": "SQEs that were read twice",
    "data_ca": "data that did not come",
    "poisoned": "SQEs and pointers whose content is not to be used",
    "ats": "data at translated addresses",
    "pasid": "data in another address space",
    "opcodes": "data of unknown length behind its first page",
    "prefetch": "SQEs that were read before and after their doorbell",
    "cmb_sq": "SQEs in the controller memory buffer",
    "sqe_halves": "SQEs in parts",
    "same_buffer": "several commands on one host buffer",
    "second_function": "commands of the second function",
} | {name: "commands around a reset" for name in KINDS if name.startswith("reset_")}
"""Kinds with commands that the tracker flags or counts by design, and these commands. All commands of the other kinds are right."""
SEVERAL = "several"
"""Row of the traces of more than one kind that were drawn one by one."""


@dataclass
class Setup:
    """All that is drawn for a trace. Times in ps."""

    seed: int
    kinds: tuple[str, ...]
    row: str
    """Row in which a table counts the trace."""
    commands: int
    generation: int = 3
    lanes: int = 4
    mps: int = 256
    mrrs: int = 512
    rcb: int = 64
    completions: str = "most"
    """How the host cuts completions: ``most`` (up to MPS), ``rcb`` (one RCB each) or ``random``."""
    interleaved: bool = True
    """Whether completions of different tags mix."""
    tags: str = "next"
    """Order of tags: ``next``, ``last`` (the one freed last) or ``random``."""
    tag_count: int = 32
    attr: int = 0
    zones: tuple[tuple[int, int], ...] = ((GIB, 3 * GIB),)
    bar: int = 0xF000_0000
    dstrd: int = 0
    host: str = "linux"
    """``linux``, ``spdk`` or ``stornvme``."""
    interrupts: str = "msix"
    """``msix``, ``msi`` or ``intx``."""
    remapped: bool = False
    polled: float = 0.0
    """Share of CQs without interrupts."""
    queues: int = 2
    share_cq: bool = False
    entries: int = 64
    """Entries of an I/O SQ."""
    cq_entries: int = 0
    """Entries of an I/O CQ; 0: enough for all commands in flight."""
    depth: int = 8
    """Commands in flight that a queue aims for."""
    batch: int = 4
    """Most commands of one doorbell."""
    cids: str = "tag"
    """``tag`` (Linux: a generation above bit 12), ``lifo`` (SPDK), ``next`` or ``random``."""
    fetch_burst: int = 8
    """Most SQEs of one read."""
    media: int = 20 * US
    """Mean time of the media."""
    think: int = US
    """Mean pause of the host between submissions."""
    irq_delay: int = 2 * US
    """Mean time from a message to its handler."""
    coalescing: int = NS
    """Longest time for which the drive holds a message back."""
    chunk: int = 4
    """Data TLPs of a command that go back to back."""
    burst: int = 4
    """Reads of a command that are outstanding at once."""
    parallel: int = 8
    """Commands that the drive works at at once, a queue."""
    lengths: tuple[int, ...] = (4096,)
    """Bytes of user data of a transfer, drawn evenly."""
    payload: str = "none"
    """``none`` (omitted), ``random`` or ``decoys`` (bytes that look like CQEs, SQEs and pointers)."""
    formats: tuple[str, ...] = ("512",)
    """Format of each namespace: a name of ``tests.traffic.namespaces.FORMATS``."""
    list_step: int = 0
    """Bytes in which the drive reads lists, rounded up within the page; 0: exactly the list."""
    small_lists: bool = False
    chained: bool = False
    unaligned: bool = False
    sgl: str = ""
    """``block``, ``segments`` or ``bucket``; empty: PRP."""
    hmb: str = ""
    """``word`` or ``bulk``; empty: off."""
    opcodes: str = "plain"
    admin_mix: bool = False
    aers: int = 1
    reset: str = ""
    late: bool = False
    faults: tuple[str, ...] = ()
    """Number of ``fetch_ur``, ``data_ca``, ``poisoned``."""
    ats: bool = False
    pasid: bool = False
    zero_reads: bool = False
    doorbells: str = "plain"
    """``plain``, ``two`` (in one TLP) or ``enables`` (two bytes)."""
    functions: int = 1
    prefetch: bool = False
    sqe_bytes: int = 64
    cmb: bool = False
    cqe_merge: int = 1
    cqe_halves: bool = False
    sqe_halves: bool = False
    same_buffer: bool = False
    delete_queues: bool = False
    format_nvm: bool = False
    notes: dict[str, object] = field(default_factory=dict)


def draw(seed: int, kinds: tuple[str, ...] = (), commands: int = 0) -> Setup:
    """The set-up of `seed`. ``kinds``: those to draw from (all by default); ``a+b`` means both at once. ``commands``: I/O commands of
    the trace (drawn by default).

    Three traces in four have one kind, the others two or three that agree.
    """
    rng = random.Random(seed)
    units = kinds or tuple(KINDS)
    chosen = [rng.choice(units)]
    while len(chosen) < 3 and rng.random() < (0.25 if len(chosen) == 1 else 0.4):
        extra = rng.choice(units)
        if extra not in chosen and _agree({name for unit in (*chosen, extra) for name in unit.split("+")}):
            chosen.append(extra)
    row = chosen[0] if len(chosen) == 1 else SEVERAL
    names = [name for name in KINDS if any(name in unit.split("+") for unit in chosen)]
    count = commands or rng.choice((100, 300, 600, 1000))
    setup = Setup(seed, tuple(names), row, count)
    _draw_link(rng, setup)
    _draw_host(rng, setup)
    _draw_drive(rng, setup)
    for name in names:
        _apply(rng, setup, name)
    return setup


_EXCLUSIVE = (
    {"stornvme", "spdk"},
    {"msi", "remapped", "intx", "spdk"},
    {"polled", "spdk"},
    {"lba4096", "lba8192", "extended", "mptr", "formats", "format_nvm"},
    {"list_pool", "list_chain"},
    {"sgl_block", "sgl_segments", "sgl_bit_bucket", "list_pool", "list_chain", "list_overread", "mptr", "unaligned"},
    {"hmb_1dw", "hmb_bulk", "late"},
    {name for name in KINDS if name.startswith("reset_")} | {"late", "second_function", "queues", "deep"},
    {"two_doorbells", "byte_enables", "cmb_sq"},
    {"cqe_merged", "cqe_halves"},
    {"prefetch", "sqe_halves", "sqe128", "cmb_sq"},
    {"ats", "hmb_1dw", "hmb_bulk"},
    {"ats", "pasid"},
    {"sgl_block", "sgl_segments", "sgl_bit_bucket", "same_buffer", "pasid"},
    {"fetch_ur", "prefetch", "sqe_halves", "cmb_sq"},
    {"stornvme", "queues"},
    {"late", "format_nvm"},
    {"one_queue", "polled"},
    {"one_queue", "stornvme"},
    {"one_queue", "remapped"},
    {"one_queue", "deep"},
    {"one_queue", "cmb_sq"},
    {"one_queue", "coalescing"},
)
"""Sets; a trace has at most one kind of each."""


def _agree(names: set[str]) -> bool:
    return all(len(names & exclusive) < 2 for exclusive in _EXCLUSIVE)


def _draw_link(rng: random.Random, setup: Setup) -> None:
    setup.generation, setup.lanes = rng.choice(((2, 2), (3, 2), (3, 4), (3, 4)))
    setup.mps = rng.choice((128, 256, 256, 512))
    setup.mrrs = rng.choice((128, 256, 512, 512, 1024, 2048, 4096))
    setup.rcb = rng.choice((64, 64, 128))
    setup.completions = rng.choice(("most", "rcb", "random"))
    setup.interleaved = rng.random() < 0.7
    setup.tags = rng.choice(("next", "last", "random"))
    setup.tag_count = rng.choice((32, 32, 256, 768))
    setup.attr = rng.choice((0, 0, 1, 2, 3))


def _draw_host(rng: random.Random, setup: Setup) -> None:
    low, high = (GIB // 4, 3 * GIB), (4 * GIB, 64 * GIB)
    remapped = (0xF000_0000, 0xFE00_0000)
    setup.zones = rng.choice(((low,), (high,), (low, high), (high,), (remapped,)))
    setup.bar = rng.choice((0xDF00_0000, 0x9000_0000, 0x60_0000_0000))
    setup.dstrd = rng.choice((0, 0, 0, 0, 1, 2))
    setup.queues = rng.choice((1, 1, 2, 4, 8))
    setup.entries = rng.choice((16, 64, 128, 256, 1024))
    setup.depth = min(rng.choice((1, 1, 4, 8, 16, 32)), setup.entries - 1)
    setup.batch = rng.choice((1, 1, 2, 8))
    setup.cids = rng.choice(("tag", "tag", "lifo", "next", "random"))
    setup.think = int(10 ** rng.uniform(4.5, 7.5))
    setup.irq_delay = int(10 ** rng.uniform(5.5, 7))
    block = 512
    short = tuple(block << k for k in range(5))
    setup.lengths = rng.choice(((4096,), short, (4096, 8192, 16384), (512, 4096, 65536), (4096, 4096, 4096, 131072)))


def _draw_drive(rng: random.Random, setup: Setup) -> None:
    setup.fetch_burst = rng.choice((1, 1, 2, 4, 8, 16))
    setup.media = int(10 ** rng.uniform(5.5, 8))
    setup.coalescing = rng.choice((NS, 100 * NS, 300 * NS))
    setup.chunk = rng.choice((1, 2, 4, 16))
    setup.burst = rng.choice((1, 2, 8, 16))
    setup.parallel = rng.choice((1, 4, 16, 64))
    setup.payload = rng.choice(("none", "none", "none", "random"))
    setup.aers = rng.choice((0, 1, 1, 4))


def _apply(rng: random.Random, setup: Setup, name: str) -> None:
    """Change a drawn set-up into one of kind `name`."""
    meta = {"lba4096": "4096", "lba8192": "8192", "extended": "4096+8x", "mptr": "4096+8"}
    long = (4096, 16384, 65536, 131072)
    if name == "stornvme":
        setup.host, setup.share_cq, setup.queues = "stornvme", True, max(2, setup.queues)
    elif name == "msi":
        setup.interrupts = "msi"
    elif name == "remapped":
        setup.remapped = True
        setup.queues = rng.choice((4, 8, 16))
        setup.interrupts = rng.choice(("msix", "msix", "msi"))
    elif name == "intx":
        setup.interrupts = "intx"
    elif name == "polled":
        setup.polled, setup.queues = rng.choice((0.5, 1.0)), max(2, setup.queues)
    elif name == "spdk":
        setup.host, setup.polled, setup.cids = "spdk", 1.0, "lifo"
    elif name in meta:
        setup.formats = (meta[name],)
    elif name == "formats":
        setup.formats = tuple(rng.sample(("512", "4096", "8192", "4096+8x", "4096+8", "512+8"), rng.choice((2, 3))))
    elif name == "format_nvm":
        setup.formats, setup.format_nvm = ("512",), True
    elif name == "list_pool":
        setup.small_lists, setup.list_step, setup.lengths = True, rng.choice((64, 256)), long
        setup.formats = (rng.choice(("512", "4096")),)
        setup.depth = min(setup.entries - 1, max(4, setup.depth))
    elif name == "list_overread":
        setup.list_step, setup.lengths = rng.choice((64, 256, 512, 4096)), long
    elif name == "list_chain":
        setup.chained, setup.lengths = True, long
    elif name == "unaligned":
        setup.unaligned = True
    elif name.startswith("sgl_"):
        setup.sgl = {"sgl_block": "block", "sgl_segments": "segments", "sgl_bit_bucket": "bucket"}[name]
    elif name.startswith("hmb_"):
        setup.hmb = {"hmb_1dw": "word", "hmb_bulk": "bulk"}[name]
    elif name == "opcodes":
        setup.opcodes = "all"
    elif name == "admin":
        setup.admin_mix, setup.aers = True, 4
    elif name == "queues":
        setup.delete_queues = True
    elif name == "deep":
        setup.queues, setup.entries, setup.depth, setup.batch, setup.media = 4, 1024, 400, 16, 500 * US
        setup.parallel, setup.lengths, setup.commands = 1000, (512,), 2400
    elif name.startswith("reset_"):
        setup.reset = name.removeprefix("reset_")
    elif name == "late":
        setup.late = True
    elif name in ("fetch_ur", "data_ca", "poisoned"):
        setup.faults = (*setup.faults, name)
    elif name == "ats":
        setup.ats = True
    elif name == "pasid":
        setup.pasid = True
    elif name == "zero_read":
        setup.zero_reads = True
    elif name == "two_doorbells":
        setup.doorbells, setup.dstrd = "two", 0
    elif name == "byte_enables":
        setup.doorbells = "enables"
    elif name == "second_function":
        setup.functions = 2
    elif name == "prefetch":
        setup.prefetch = True
    elif name == "sqe128":
        setup.sqe_bytes = 128
    elif name == "cmb_sq":
        setup.cmb, setup.queues = True, max(2, setup.queues)
    elif name == "cqe_merged":
        setup.cqe_merge, setup.cq_entries = 4, rng.choice((0, 6))
        setup.depth = min(setup.entries - 1, max(8, setup.depth))
    elif name == "cqe_halves":
        setup.cqe_halves = True
    elif name == "sqe_halves":
        setup.sqe_halves = True
    elif name == "decoys":
        setup.payload = "decoys"
    elif name == "one_queue":
        setup.queues = 1
    elif name == "coalescing":
        setup.coalescing, setup.queues = 20 * US, max(2, setup.queues)
    elif name == "same_buffer":
        setup.same_buffer = True
        setup.depth = min(setup.entries - 1, max(4, setup.depth))
