"""``wattbell trace``: I/O traces are generated, converted and described."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SimError
from ..suites.traces.composition import COMPOSITIONS
from ..text import count, si
from . import complete, numbers, output
from .options import Json

app = typer.Typer(no_args_is_help=True, help="I/O traces: generate, convert, describe.")
_Out = Annotated[Path, typer.Option("--out", "-o", help="Trace to write (fio iolog, version 3).")]
_Replace = Annotated[bool, typer.Option("--force", help="Replace the file that is there.")]


def _refuse(out: Path, force: bool) -> None:
    if out.exists() and not force:
        raise SimError(f"{out} exists already; choose another name, or add --force to replace it.")


@app.command("make")
def make(
    name: Annotated[str, typer.Argument(help="Whose statistics: " + ", ".join(COMPOSITIONS) + ".", autocompletion=complete.traces)],
    out: _Out,
    scale: Annotated[float, typer.Option(callback=numbers.share, help="Fraction of the I/Os, bytes and address range.")] = 1.0,
    seed: Annotated[int, typer.Option(callback=numbers.seed, help="Seed of the generator.")] = 1,
    force: _Replace = False,
) -> None:
    """Generate a trace with the published statistics of an ATSB trace. It is a stand-in, not that trace.

    wattbell trace make heavy --scale 0.1 --out heavy-like.iolog
    """
    from ..suites.traces.generate import make_trace

    _refuse(out, force)
    n = make_trace(name, out, scale, seed)
    output.say(f"{out}: {count(n)} I/Os.")


@app.command("convert")
def convert(
    text: Annotated[Path, typer.Argument(help="Text that blkparse printed.")],
    out: _Out,
    device: Annotated[str | None, typer.Option(help="major,minor, if the text has several devices.")] = None,
    force: _Replace = False,
) -> None:
    """Convert the text of blkparse to fio's iolog.

    blktrace -d /dev/nvme0n1 -w 60; blkparse -i nvme0n1 > trace.txt

    wattbell trace convert trace.txt --out mine.iolog
    """
    from ..hostlog.iolog import write_iolog
    from ..suites.traces.blkparse import read_blkparse

    _refuse(out, force)
    entries = read_blkparse(text, device)
    write_iolog(out, entries)
    output.say(f"{out}: {count(len(entries))} entries.")


@app.command("show")
def show(
    trace: Annotated[Path, typer.Argument(help="fio iolog of version 2 or 3.")],
    json: Json = False,
) -> None:
    """Counts, bytes, block sizes, depths and sequential share of a trace.

    wattbell trace show mine.iolog
    """
    from ..analysis.names import size_text
    from ..hostlog.iolog import read_iolog
    from ..suites.traces.statistics import statistics

    found = statistics(read_iolog(trace))
    if json:
        output.print_json(found)
        return
    table = output.table("", ">reads", ">writes")
    table.add_row("I/Os", count(found["reads"]), count(found["writes"]))
    table.add_row("data", si(found["read_bytes"], "B"), si(found["write_bytes"], "B"))
    output.out.print(table)
    if found["ios"]:
        output.out.print(f"sequential {found['sequential']:.1%}, {si(found['duration_s'], 's')}, mean depth {found['mean_depth']:.2f}")
        _shares("block size", {size_text(k): v for k, v in found["sizes"].items()})
        _shares("depth", found["depth"])


def _shares(title: str, shares: dict[Any, float]) -> None:
    table = output.table(f">{title}", ">share")
    for key, share in shares.items():
        if share >= 0.0005:
            table.add_row(str(key), f"{share:.1%}")
    output.out.print(table)
