"""Builds controller.v, runs its bench on the controller and on each of its three seeded bugs, and makes a coverage page.

    python run.py icarus                # or verilator; results are in build/icarus
    python run.py icarus --bug 2        # only the controller with bug 2; exit code 1 if the bench fails

Without --bug, the exit code is 0 if the bench passes on the controller, and fails on each bug with the rule that the bug breaks.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

from cocotb_tools.runner import Runner, get_runner
from cocotbext.nvmetap.coverage import Coverage

HERE = Path(__file__).resolve().parent
BUGS = {0: None, 1: "CQE_PHASE", 2: "WRITE_OUTSIDE", 3: "INTERRUPT_EARLY"}
"""Rule that each bug breaks."""
TIMESCALE = ("1ns", "1ps")


def build(simulator: str, folder: Path) -> Runner:
    """Return the runner of a simulator, with controller.v built in `folder`."""
    runner = get_runner(simulator)
    options = ["-Wno-fatal", "-CFLAGS", "-O1"] if simulator == "verilator" else []
    runner.build(sources=[HERE / "controller.v"], hdl_toplevel="controller", build_dir=folder, build_args=options, timescale=TIMESCALE)
    return runner


def run(runner: Runner, folder: Path, bug: int) -> tuple[bool, list[str]]:
    """Run the bench; return whether it passed, and the rules that were broken."""
    out = folder / f"bug{bug}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    results = out / "results.xml"
    with contextlib.suppress(SystemExit):  # under pytest, the runner ends the program where a test fails
        runner.test(
            test_module="bench",
            hdl_toplevel="controller",
            build_dir=folder,
            test_dir=out,
            results_xml=str(results),
            plusargs=[f"+bug={bug}"],
            timescale=TIMESCALE,
            extra_env={"OUT": str(out), "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)])},
            log_file=out / "run.log",
        )
    if not (out / "rules.xml").is_file():
        sys.exit(f"bug {bug}: the bench broke off before its end: see {out / 'run.log'}")
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    passed = bool(cases) and all(case.find("failure") is None and case.find("error") is None for case in cases)
    rules = ElementTree.parse(out / "rules.xml").getroot()
    return passed, [case.get("name", "").partition(":")[0] for case in rules.iter("testcase") if case.find("failure") is not None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulator", choices=["icarus", "verilator"])
    parser.add_argument("--bug", type=int, choices=list(BUGS), help="run only the controller with this bug; 0 is none")
    parser.add_argument("--out", type=Path, default=HERE / "build", help="where the results go (default %(default)s)")
    options = parser.parse_args()
    folder = options.out.resolve() / options.simulator
    folder.mkdir(parents=True, exist_ok=True)
    runner = build(options.simulator, folder)
    wrong = 0
    for bug in BUGS if options.bug is None else [options.bug]:
        passed, broken = run(runner, folder, bug)
        as_expected = passed if not bug or options.bug is not None else not passed and BUGS[bug] in broken
        wrong += not as_expected
        print(f"bug {bug}: the bench {'passes' if passed else 'fails'}, rules broken: {', '.join(broken) or 'none'}")
    coverage = Coverage.merged(folder.glob("bug*/coverage.json"))
    coverage.write_page(folder / "coverage.html", "Coverage of controller.v")
    print(f"coverage: {folder / 'coverage.html'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
