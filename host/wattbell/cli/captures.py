"""``wattbell analyze``, ``report`` and ``export``: outputs made from a capture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from . import complete, numbers, output
from .options import CaptureArgument, FromTime, Json, ToTime, Wide
from .quantities import RATE

if TYPE_CHECKING:
    from ..analysis.result import Analysis
    from ..capture import Capture

ReportArgument = Annotated[
    Path, typer.Argument(help="Capture directory, or directory of a suite's results.", autocompletion=complete.captures_and_results)
]
export_app = typer.Typer(
    no_args_is_help=True,
    help="""Write a capture for other programs.

    The capture itself is JLS, Parquet and JSON: the Joulescope UI, Polars, DuckDB and pandas read it as it is.
    """,
)


def open_with_progress(path: Path) -> Capture:
    """Open a capture, with a progress bar if it has to be rebuilt from its journal."""
    from ..capture import open_capture

    with output.bar("rebuilding from the journal") as progress:
        return open_capture(path, progress)


def computed(capture: Capture) -> Analysis:
    """The figures of a capture, with a spinner while they are computed."""
    from ..analysis import figures_of

    with output.spinner("analysing") as update:
        return figures_of(capture, lambda step: update(f"analysing: {step}"))


def show_analysis(path: Path, json: bool) -> None:
    """Analyse a capture and print the figures."""
    from ..measure.encode import tree_json
    from ..present.capture.terminal import render

    result = computed(open_with_progress(path))
    if json:
        output.print_json(tree_json(result))
    else:
        render(result, output.out)


def analyze(
    captures: Annotated[
        list[Path],
        typer.Argument(metavar="CAPTURE", help="Capture, or several, or folders that hold some.", autocompletion=complete.captures),
    ],
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=4096,
            metavar="N",
            help="Processes for many captures; 0: one after the other, in this one. \\[default: one a processor]",
        ),
    ] = None,
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", help="dask scheduler of a cluster: tls://HOST:PORT.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="The scheduler may have no TLS: others may run code on all of them.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the figures of all captures to this Parquet file, too.")] = None,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """Compute the figures of a capture: throughput, latency, queue depth, power, energy, idle power, wake-up.

    Every figure comes with its uncertainty and with the count of records lost meanwhile. If its recorder died, a
    capture is rebuilt from its journal first.

    Many captures, or a folder that holds some, give a line each. They are analysed side by side, on a cluster with the
    extra [bold]cluster[/]. If a capture fails, its line says so, the others go on, and the exit code is 1.

      wattbell analyze capture

      wattbell analyze capture --json | jq .commands.by_opcode.read

      wattbell analyze runs/ --out figures.parquet
    """
    alone = len(captures) == 1 and ((captures[0] / "meta.json").is_file() or not captures[0].is_dir())
    if alone and workers is None and scheduler is None and not insecure and out is None:
        show_analysis(captures[0], json)
        return
    show_analyses(captures, workers, scheduler, insecure, out, json)


def show_analyses(folders: list[Path], workers: int | None, scheduler: str | None, insecure: bool, out: Path | None, json: bool) -> None:
    """Analyse many captures and print a line of each. Exits with 1 when any failed."""
    from ..api.fleet import analyse_all, captures_below, figures_table, write_figures
    from ..present.terminal import drawn

    paths = captures_below(folders)
    if insecure:
        output.say("--insecure: whoever reaches the scheduler or a worker of it runs code on those machines, and on this one.")
    with output.bar(f"analysing {len(paths)} captures") as progress:
        progress(0, len(paths))
        outcomes = analyse_all(paths, workers=workers, scheduler=scheduler, insecure=insecure, progress=progress)
    if json:
        rows = [{"capture": one.path, **({"error": one.error} if one.error else {"figures": one.figures})} for one in outcomes]
        output.print_json({"captures": rows})
    else:
        output.out.print(drawn(figures_table(outcomes)))
    if out is not None:
        path = write_figures(outcomes, out)
        if not json:
            output.out.print(str(path), soft_wrap=True)
    failed = [one for one in outcomes if one.error]
    for one in failed:
        output.say(one.error if one.path in one.error else f"{one.path}: {one.error}")
    if failed:
        raise typer.Exit(1)


def report(
    capture: ReportArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file, or a folder.")] = Path("report.html"),
    plots: Annotated[bool, typer.Option(help="Write each plot as PNG and SVG too.")] = True,
    json: Json = False,
) -> None:
    """Write one self-contained HTML file with zoomable plots and the tables, of a capture or of a suite's results.

    The plots are also written as PNG and SVG, into NAME-plots beside the file. `wattbell compare` does the same for many runs.

      wattbell report capture --out report.html

      wattbell report runs/660p --out 660p.html
    """
    if (capture / "results.json").is_file():
        suite_page(capture, out, plots, json)
        return
    from ..present.pages import write_report

    opened = open_with_progress(capture)
    result = computed(opened)
    with output.spinner("drawing the report"):
        path = write_report(opened, result, out, plots)
    _written([path], json)


def suite_page(directory: Path, out: Path, plots: bool, json: bool) -> None:
    """Write the page of a suite run, with the other drives of the user's store (if there is one) in the background."""
    from ..present.pages.suite import write_run_page
    from ..results import default_path

    with output.spinner("drawing the page"):
        written = write_run_page(directory, out, default_path(), plots)
    _written([written], json)


@export_app.command("csv")
def export_csv(
    capture: CaptureArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the CSV files.")],
    start: FromTime = None,
    stop: ToTime = None,
    rail_every: Annotated[int, typer.Option(callback=numbers.between(1, 1e9), help="Average this many rail samples into a row.")] = 1,
    json: Json = False,
) -> None:
    """Write commands, rail, events and figures as CSV files.

    wattbell export csv capture --out csv/ --rail-every 100
    """
    from ..export import export_csv as write
    from ..measure.encode import tree_json

    opened = open_with_progress(capture)
    result = tree_json(computed(opened))
    with output.spinner("writing CSV"):
        paths = write(opened, out, result=result, start_s=start, stop_s=stop, rail_every=rail_every)
    _written(paths, json)


@export_app.command("sigrok")
def export_sigrok(
    capture: CaptureArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Session file (.sr).")],
    start: FromTime = None,
    stop: ToTime = None,
    rate: Annotated[
        int | None,
        typer.Option(
            metavar="RATE", parser=RATE, callback=numbers.between(1, 1e9), help="Samples a second of the session file, such as 10MHz."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write a sigrok session: the rail as analog; CLKREQ#, PERST#, link state and strobes of commands as logic; on one time base.

    PulseView and sigrok-cli read it. The decoder [bold]nvme[/] makes commands of the strobes: [bold]wattbell sigrok-decoders[/].

      wattbell export sigrok capture --out capture.sr --from 1.0 --to 1.2

      sigrok-cli -i capture.sr --show
    """
    from ..export import export_sigrok as write

    opened = open_with_progress(capture)
    options = {} if rate is None else {"samplerate_hz": rate}
    with output.spinner("writing the sigrok session"):
        made = write(opened, out, start_s=start, stop_s=stop, **options)
    if json:
        output.print_json(
            {
                "path": str(made.path),
                "samplerate_hz": made.samplerate_hz,
                "samples": made.samples,
                "start_s": made.start_s,
                "merged": made.merged,
            }
        )
        return
    output.out.print(str(made.path), soft_wrap=True)
    if made.merged:
        output.say(f"{made.merged} strobes fell into a sample that had one already; a higher --rate sets them apart.")


@export_app.command("parquet")
def export_parquet(
    capture: CaptureArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the tables.")],
    start: FromTime = None,
    stop: ToTime = None,
    json: Json = False,
) -> None:
    """Write commands and events of a window as Parquet, with names of opcodes, bytes, latencies, and the units in the files' metadata.

    Commands that were in flight at any instant of the window are in it. The rail is in [bold]wattbell export jls[/].

      wattbell export parquet capture --out tables/ --from 1.0 --to 1.2
    """
    from ..export import export_parquet as write

    opened = open_with_progress(capture)
    with output.spinner("writing Parquet"):
        paths = write(opened, out, start_s=start, stop_s=stop)
    _written(paths, json)


@export_app.command("jls")
def export_jls(
    capture: CaptureArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="JLS file.")],
    start: FromTime = None,
    stop: ToTime = None,
    json: Json = False,
) -> None:
    """Write the rail of a window as JLS, with phases and events as annotations. The Joulescope UI and pyjls read it.

    wattbell export jls capture --out wake-up.jls --from 1.0 --to 1.2
    """
    from ..export import export_jls as write

    opened = open_with_progress(capture)
    with output.spinner("writing JLS"):
        path = write(opened, out, start_s=start, stop_s=stop)
    _written([path], json)


@export_app.command("perfetto")
def export_perfetto(
    capture: CaptureArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Trace file (.pftrace).")],
    start: FromTime = None,
    stop: ToTime = None,
    json: Json = False,
) -> None:
    """Write a Perfetto trace: commands as slices by queue, the rail as counters, phases, events, link state, losses.

    Open it at ui.perfetto.dev (the file stays on this computer) or with trace_processor. Needs the extra [bold]perfetto[/].

      wattbell export perfetto capture --out capture.pftrace --from 1.0 --to 1.2
    """
    from ..export import export_perfetto as write

    opened = open_with_progress(capture)
    with output.spinner("writing the trace"):
        path = write(opened, out, start_s=start, stop_s=stop)
    _written([path], json)


@export_app.command("vcd")
def export_vcd(
    capture: CaptureArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="VCD file.")],
    start: FromTime = None,
    stop: ToTime = None,
    json: Json = False,
) -> None:
    """Write a value change dump: levels, link state, the rail as reals, and what each command in flight is at. GTKWave and Surfer read it.

    wattbell export vcd capture --out capture.vcd --from 1.0 --to 1.2
    """
    from ..export import export_vcd as write

    opened = open_with_progress(capture)
    with output.spinner("writing the VCD file"):
        path = write(opened, out, start_s=start, stop_s=stop)
    _written([path], json)


@export_app.command("as")
def export_as(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="Its name, such as vcd.", show_default=False)],
    capture: CaptureArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write; of a format with several files, a ZIP archive.")],
    start: FromTime = None,
    stop: ToTime = None,
    json: Json = False,
) -> None:
    """Write a window in a format by its name, as the page of [bold]wattbell view[/] does; also in a format of an installed plug-in.

    wattbell export as vcd capture --out capture.vcd --from 1.0 --to 1.2
    """
    from ..export import FORMATS
    from ..export.window import resolve
    from ..nearest import did_you_mean

    if form not in FORMATS:
        raise UsageError(f"There is no format {form} of export; give one of {', '.join(FORMATS)}.{did_you_mean(form, FORMATS)}")
    opened = open_with_progress(capture)
    window = resolve(opened, start, stop)
    with output.spinner("writing the file"):
        path = FORMATS[form].write(opened, window.first_tick, window.last_tick, out)
    _written([path], json)


def sigrok_decoders() -> None:
    """Print the folder of the decoders wattbell and nvme, for sigrok-cli and PulseView.

    export SIGROKDECODE_DIR=$(wattbell sigrok-decoders)

    sigrok-cli -i capture.sr -P nvme:doorbell=DOORBELL:cqe=CQE:fetch=FETCH:data=DATA:busy=BUSY:origin0=ORIGIN0:...:origin5=ORIGIN5
    """
    from ..export.sigrok import DECODERS

    typer.echo(DECODERS)


def _written(paths: list[Path], json: bool) -> None:
    if json:
        output.print_json({"written": [str(path) for path in paths]})
        return
    for path in paths:
        output.out.print(str(path), soft_wrap=True)
