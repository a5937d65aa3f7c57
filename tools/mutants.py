"""Single faults put into the code, and the tests that should notice: ``make mutants``.

Two sources of faults. **Kept** ones are data, ``tests/mutants/*.toml``: each is a replacement of a piece of text that occurs exactly
once, and names the tests that must fail. **Made** ones come from Cosmic Ray's operators over the Python code of the host, the board,
the guest and the tools. The tests that execute the changed line run, quickest first (coverage by test, child processes included). For
the truth of the SSD model they come from cargo-mutants, with the tests of that model.

Everything runs in a clone, ``build/mutants/clone``, at a commit. Uncommitted changes are not tried, and no fault is ever in this tree.
Of the made ones some change nothing that can be seen: ``tests/mutants/equivalent.toml`` argues which, and they are counted apart.
``build/mutants/results.jsonl`` keeps the results. A run that was broken off goes on from there, and a fault is tried anew when its file
changed. Survivors are tried anew with ``--again``, when there are new tests. Two runs at a time need two folders
(``--build``).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fcntl
import hashlib
import importlib.util
import itertools
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from rustmutants import AREA, BUILDS, TESTS, Missing, RustPlace, rust_places

ROOT = Path(__file__).parents[1]
KEPT = Path("tests/mutants")
ARGUED = KEPT / "equivalent.toml"
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- generated: tools/mutants.py --docs, {} -->", "<!-- end of generated -->"

OTHER = {"hw": "hw", "guest": "sim/guest", "studies": "studies", "tools": "tools"}
"""Areas of made faults outside the host package, with their folders; each package of the host is an area by its name."""
TOP = "wattbell"
"""Area of the modules that lie in the host package itself."""
NOT_MADE = ("host/wattbell/export/decoders/",)
"""Decoders that sigrok runs in a Python of its own: there is no coverage, so only kept faults try them."""
TESTED_BY = r"tests/((host|studies|tools|hw|docs)/(\w+/)*|sim/((guest|rig)/)?|e2e/|clients/)test_\w+\.py"
"""Tests that made faults get."""
SLOW = r"tests/(e2e/test_(real_\w+|nvme_cli|plan_steps|record_disk|late_attach|power_on|wheel)|clients/.*rig|hw/.*_load)\.py"
"""Tests left out of the map: they boot a guest or build a wheel, which takes longer than any fault's budget."""
_LONGEST_S = 1800
"""Time limit for tests that only wait and compute nothing."""
KEYS = {"file", "find", "replace", "tests", "area", "why", "equivalent"}
"""Keys of a [[fault]]; all but ``equivalent`` are required. ``equivalent`` argues why no test can notice."""

SLIPS = {"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "FloorDiv": "Div", "Mod": "Mul", "Pow": "Mul", "LShift": "RShift",
         "RShift": "LShift", "BitOr": "BitAnd", "BitAnd": "BitOr", "BitXor": "BitAnd", "Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt",
         "Eq": "NotEq", "NotEq": "Eq", "Is": "IsNot", "IsNot": "Is", "In": "NotIn", "NotIn": "In"}  # fmt: skip
"""Replacement of each operator: the one nearest to a slip of the pen.

Cosmic Ray can replace an operator by each of the others. With one replacement, a sample counts places in the code rather than alternatives
at one place, most of which any test would notice.
"""
PLAIN = (
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "ZeroIterationForLoop",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_USub_UAdd",
    "ReplaceUnaryOperator_Delete_Invert",
)

ARROW = "  ->  "
CAUGHT, TIMEOUT, SURVIVED, NO_TEST, NOT_GREEN, UNVIABLE = "caught", "timeout", "survived", "no test", "not green", "unviable"
"""NO_TEST: no test executes the line (it survived, too). NOT_GREEN: the tests fail without the fault, which proves nothing. UNVIABLE: the
fault does not compile, which no test has to notice."""
NOTHING = (NOT_GREEN, UNVIABLE)
"""Verdicts that say nothing about tests."""


class Work:
    """Folders of a run: ``build`` has its results, faults are put into ``clone`` in it. Set once, from ``--build``."""

    build = ROOT / "build" / "mutants"
    clone = build / "clone"


class Mistake(Exception):
    """The list of faults or the request is wrong."""


@dataclass(frozen=True)
class Fault:
    """``text``: the whole file with the fault in it. ``tests``: node ids of pytest and shell commands, tried in this order. ``builds``: a
    shell command that fails where the fault cannot be compiled."""

    area: str
    kept: bool
    file: str
    line: int
    key: str
    text: str
    tests: tuple[str, ...]
    what: str
    equivalent: str = ""
    operator: str = ""
    builds: str = ""


# -- where it runs -----------------------------------------------------------------------------------------------------


def git(*words: str, folder: Path = ROOT) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def clone(revision: str) -> str:
    """Updates the clone to a commit of this repository; returns the commit."""
    commit = git("rev-parse", "--verify", f"{revision}^{{commit}}")
    if not (Work.clone / ".git").exists():
        git("clone", "--quiet", "--no-checkout", str(ROOT), str(Work.clone))
    git("fetch", "--quiet", "origin", folder=Work.clone)
    git("checkout", "--quiet", "--force", "--detach", commit, folder=Work.clone)
    # by hash: by time and size, a fault of the same length written within the same second would go unnoticed
    compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "host", "gateware", "hw"]
    subprocess.run(compiled, cwd=Work.clone, check=True)
    return commit


def environment(scratch: str | None = None) -> dict[str, str]:
    """Environment of the tests: the clone's packages come before the installed ones."""
    path = os.pathsep.join(str(Work.clone / name) for name in ("spec", "host", "gateware"))
    more = {"PYTHONPATH": path, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "POLARS_MAX_THREADS": "1"}
    built = ROOT / "sim" / "target" / "release"
    if (built / "wattbell-rig").is_file() and not (Work.clone / "sim" / "target").exists():
        more["WATTBELL_SIM_BIN"] = str(built)  # of this checkout, for faults in Python; a fault in Rust is built in the clone
    if scratch:
        more |= {"TMPDIR": scratch, "HYPOTHESIS_STORAGE_DIRECTORY": f"{scratch}/hypothesis"}
    return {**os.environ, **more}


def is_node(test: str) -> bool:
    """Whether a test is one of pytest's; otherwise it is a command."""
    return re.match(r"tests(_slow)?/[\w/]+\.py(::|$)|tests(_slow)?/[\w/]+$", test) is not None


def steps(tests: Sequence[str]) -> Iterator[list[str]]:
    """All pytest tests in one run, then each command."""
    nodes = [test for test in tests if is_node(test)]
    if nodes:
        yield nodes
    yield from ([test] for test in tests if not is_node(test))


def warm_up() -> None:
    """Imports once what most tests of the host import: a process per fault is then a fork, which saves most of its time. None of these
    modules uses its threads before the fork."""
    for name in ("pytest", "hypothesis", "numpy", "polars", "pyarrow.parquet", "msgspec", "rich.console", "typer.testing"):
        importlib.import_module(name)


def child(step: Sequence[str], limit_s: float, scratch: str) -> NoReturn:
    """Runs the tests in a process of their own. The limit is CPU time, so that a busy machine does not count as catching a fault."""
    status = 70
    try:
        os.setsid()
        os.chdir(Work.clone)
        os.environ.update(environment(scratch))
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit_s), math.ceil(limit_s) + 10))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if is_node(step[0]):
            import pytest

            sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
            without = [word for name in ("cacheprovider", "xdist", "cov", "timeout") for word in ("-p", f"no:{name}")]
            status = int(pytest.main(["-qx", *without, "--hypothesis-seed=0", "--no-header", "--tb=no", *step]))
        else:
            os.execvp("bash", ["bash", "-euo", "pipefail", "-c", step[0]])
    finally:
        os._exit(status)


def run(tests: Sequence[str], limit_s: float) -> str:
    """CAUGHT by the first that fails, TIMEOUT, or SURVIVED."""
    warm_up()
    for step in steps(tests):
        with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as scratch:
            end = time.monotonic() + max(_LONGEST_S, 20 * limit_s)
            process = os.fork()
            if not process:
                child(step, limit_s, scratch)
            found, status = 0, 0
            try:
                while not found and time.monotonic() < end:
                    found, status = os.waitpid(process, os.WNOHANG)
                    time.sleep(0 if found else 0.05)
            finally:  # along with the processes that the tests started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGKILL)
                if not found:
                    os.waitpid(process, 0)
        if not found or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
            return TIMEOUT
        if status:
            return CAUGHT
    return SURVIVED


# -- faults kept as data -----------------------------------------------------------------------------------------------


def put_in(text: str, find: str, replace: str, where: str) -> str:
    if text.count(find) != 1:
        raise Mistake(f"{where}: occurs {text.count(find)} times, not once: {find!r}")
    if find == replace:
        raise Mistake(f"{where}: no fault: {find!r}")
    return text.replace(find, replace)


def kept_faults(root: Path) -> list[Fault]:
    """The faults of ``tests/mutants/*.toml``. Raises Mistake with all errors in them."""
    faults, wrong = [], []
    for path in sorted((root / KEPT).glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        for number, entry in enumerate(data.get("fault", []), 1):
            where = f"{path.name}, fault {number} ({entry.get('file')})"
            try:
                faults.append(_kept(root, entry, where))
            except (Mistake, OSError) as error:
                wrong.append(str(error))
    if wrong:
        raise Mistake("\n".join(wrong))
    return faults


def _kept(root: Path, entry: dict[str, Any], where: str) -> Fault:
    missing, other = KEYS - {"equivalent"} - entry.keys(), entry.keys() - KEYS
    if missing or other:
        raise Mistake(f"{where}: missing {sorted(missing)}, unknown {sorted(other)}")
    if not entry["tests"] and "equivalent" not in entry:
        raise Mistake(f"{where}: names no test")
    source = (root / entry["file"]).read_text(encoding="utf-8")
    text = put_in(source, entry["find"], entry["replace"], where)
    for test in entry["tests"]:
        if is_node(test) and not (root / test.partition("::")[0]).exists():
            raise Mistake(f"{where}: no such test: {test}")
    line = source[: source.index(entry["find"])].count("\n") + 1
    parts = (entry["file"], entry["find"], entry["replace"], *entry["tests"], source)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    tests = tuple(entry["tests"])
    return Fault(entry["area"], True, entry["file"], line, key, text, tests, entry["why"], entry.get("equivalent", ""))


# -- faults that are none ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Argument:
    """Why no test can notice some of the made faults: an entry of ``tests/mutants/equivalent.toml``. ``line`` and ``becomes`` are searched
    for in the line before and after the fault, ``operator`` must match the whole name in Cosmic Ray; regular expressions."""

    file: str
    line: str
    operator: str
    becomes: str
    why: str

    def holds(self, file: str, operator: str, what: str) -> bool:
        """Whether it applies to this fault; ``what`` as in :class:`Fault`."""
        before, _, after = what.partition(ARROW)
        found = re.search(self.line, before) and re.search(self.becomes, after) and re.fullmatch(self.operator, operator)
        return self.file == file and found is not None


def arguments_of(root: Path) -> list[Argument]:
    """The kept arguments. Mistake if one is incomplete or no longer matches a line."""
    found, wrong = [], []
    entries = tomllib.loads((root / ARGUED).read_text(encoding="utf-8")).get("equivalent", []) if (root / ARGUED).exists() else []
    for number, entry in enumerate(entries, 1):
        where = f"{ARGUED.name}, entry {number} ({entry.get('file')}, {entry.get('line')})"
        if {*entry, "becomes"} != {"file", "line", "operator", "becomes", "why"}:
            wrong.append(f"{where}: has {sorted(entry)}, not file, line, operator, why and perhaps becomes")
            continue
        argument = Argument(**{"becomes": "", **entry})
        path = root / argument.file
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        if not any(re.search(argument.line, line.strip()) for line in lines):
            wrong.append(f"{where}: there is no such line")
        found.append(argument)
    if wrong:
        raise Mistake("\n".join(wrong))
    return found


def argued(arguments: Iterable[Argument], file: str, operator: str, what: str) -> str:
    """Why a fault is equivalent; empty if nothing says so."""
    return next((argument.why for argument in arguments if argument.holds(file, operator, what)), "")


# -- faults made by Cosmic Ray -----------------------------------------------------------------------------------------


def operators() -> list[tuple[str, Any]]:
    from cosmic_ray.plugins import get_operator, operator_names

    chosen = []
    for name in sorted(operator_names()):
        short = name.partition("/")[2]
        pair = re.fullmatch(r"Replace(?:Binary|Comparison)Operator_(\w+?)_(\w+)", short)
        if short in PLAIN or (pair and SLIPS.get(pair[1]) == pair[2]):
            chosen.append((short, get_operator(name)))
    return chosen


def places(text: str) -> list[tuple[str, Any, int, int, int]]:
    """(name, operator, occurrence, line, column) of every fault that can be made; none in annotations, which are never evaluated."""
    from cosmic_ray.ast import ast_nodes, get_ast

    nodes = list(ast_nodes(get_ast(text)))
    silent = [(a.lineno, a.col_offset, a.end_lineno or 0, a.end_col_offset or 0) for a in _annotations(ast.parse(text))]
    found = []
    for name, kind in operators():
        operator, occurrence = kind(), 0
        for node in nodes:
            for (line, column), _ in operator.mutation_positions(node):
                if not any((a, b) <= (line, column) < (c, d) for a, b, c, d in silent):
                    found.append((name, operator, occurrence, line, column))
                occurrence += 1
    return found


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if isinstance(found, ast.expr):
                yield found


def statement_lines(tree: ast.AST, line: int) -> range:
    """Lines of the innermost statement around a line; if it has a body, of its head."""
    best = range(line, line + 1)
    width = math.inf
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            if node.lineno <= line <= max(last, node.lineno) and last - node.lineno < width:
                best, width = range(node.lineno, max(last, node.lineno) + 1), last - node.lineno
    return best


@cache
def _lines_of(blob: str | None) -> int:
    """Length of a file as git knows it; a missing file has none."""
    return git("cat-file", "blob", blob, folder=Work.clone).count("\n") if blob else -1


PLUGIN = """import json, os
import pytest

def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ["MUTANTS_REPORT"], "a") as out:
            out.write(json.dumps([report.nodeid.partition("@")[0], report.outcome, report.duration]) + "\\n")

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    os.environ["MUTANTS_TEST"] = item.nodeid.partition("@")[0] + "|setup"

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    os.environ["MUTANTS_TEST"] = item.nodeid.partition("@")[0] + "|run"
"""
"""Plugin of pytest for the map: the duration of each test, and the name under which child processes report their coverage."""

CHILD = """import os
if "MUTANTS_TEST" in os.environ:
    import coverage
    coverage.process_startup()
"""
"""Start of each Python process that a test starts."""


class TestMap:
    """The tests that execute a line, and how long each takes, from runs of the tests (``TESTED_BY``), file by file.

    A run is repeated when the file, or the length of a source that the file executes, changed.
    """

    __test__ = False

    def __init__(self) -> None:
        self.path = Work.build / "map.json"
        folders = ("spec", "host", "tests", *OTHER.values())
        try:
            data = json.loads(self.path.read_text())
        except FileNotFoundError:
            data = {"support": "", "blobs": {}, "seconds": {}, "lines": {}}
        tree = git("ls-tree", "-r", "--format=%(path)%x09%(objectname)", "HEAD", *folders, folder=Work.clone)
        blobs = dict(line.split("\t") for line in tree.splitlines())
        files = [name for name in blobs if re.fullmatch(TESTED_BY, name) and not re.fullmatch(SLOW, name)]
        helper = r"tests/((host|hw|tools|docs|sim|clients|e2e)/(\w+/)*)?(?!test_)\w+\.py"
        helpers = [name for name in sorted(blobs) if re.fullmatch(helper, name)]
        support = hashlib.sha256("".join(f"{blobs[name]}{name}" for name in helpers).encode()).hexdigest()
        if data["support"] != support:
            data = {"support": support, "blobs": {}, "seconds": {}, "lines": {}}
        other = {name for name in {*data["blobs"], *blobs} if data["blobs"].get(name) != blobs.get(name) and name.endswith(".py")}
        changed = {name for name in other if name in files or _lines_of(data["blobs"].get(name)) != _lines_of(blobs.get(name))}
        sources = {name for name in changed if area_of(name)}
        stale = set(files) & changed
        for name in sources & data["lines"].keys():
            stale |= {node.partition("::")[0] for nodes in data["lines"][name].values() for node in nodes}
        gone = {name for name in data["blobs"] if name not in blobs}
        self.seconds: dict[str, float] = {k: v for k, v in data["seconds"].items() if k.partition("::")[0] not in stale | gone}
        self._lines: dict[str, dict[str, list[str]]] = {
            name: {} if name in changed else {line: [node for node in nodes if node in self.seconds] for line, nodes in lines.items()}
            for name, lines in data["lines"].items()
        }
        if stale & blobs.keys():
            self._measure(sorted(stale & blobs.keys()))
            kept = {"support": support, "blobs": blobs, "seconds": self.seconds, "lines": self._lines}
            self.path.write_text(json.dumps(kept))

    def _measure(self, files: list[str]) -> None:
        from coverage import CoverageData

        print(f"coverage by test of {len(files)} files", flush=True)
        report, data, plugin = Work.build / "map.jsonl", Work.build / "coverage", Work.build / "plugin"
        for path in (report, *Work.build.glob("coverage*")):
            path.unlink(missing_ok=True)
        plugin.mkdir(exist_ok=True)
        (plugin / "mutants_map.py").write_text(PLUGIN)
        (plugin / "sitecustomize.py").write_text(CHILD)
        measured = "\n    ".join(["host/wattbell", *OTHER.values()])
        (plugin / "parent.ini").write_text(f"[run]\nsource =\n    {measured}\n")
        measured = "\n    ".join(str(Work.clone / folder) for folder in ("host/wattbell", *OTHER.values()))
        (plugin / "child.ini").write_text(
            f"[run]\nsource =\n    {measured}\ndata_file = {data}.child\nparallel = true\nsigterm = true\ncontext = ${{MUTANTS_TEST}}\n"
        )
        env = environment() | {"MUTANTS_REPORT": str(report), "COVERAGE_FILE": str(data)}
        env["COVERAGE_PROCESS_START"] = str(plugin / "child.ini")
        env["PYTHONPATH"] += os.pathsep + str(plugin)
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutants_map", "--hypothesis-seed=0",
                        "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder", "-o", "timeout=0",
                        "--cov", f"--cov-config={plugin / 'parent.ini'}", "--cov-context=test", "--cov-report=", *files],
                       cwd=Work.clone, env=env, stdout=subprocess.DEVNULL)  # fmt: skip
        bad = set()
        for line in report.read_text().splitlines():
            node, outcome, duration = json.loads(line)
            self.seconds[node] = self.seconds.get(node, 0.0) + duration
            if outcome != "passed":
                bad.add(node)
        for node in sorted(bad):
            print(f"left out, does not pass: {node}")
            del self.seconds[node]
        of_file: dict[str, list[str]] = {}
        for node in self.seconds:
            of_file.setdefault(node.partition("::")[0], []).append(node)
        for path in sorted(Work.build.glob("coverage*")):
            cov = CoverageData(str(path))
            cov.read()
            for file in cov.measured_files():
                self._add(file, cov.contexts_by_lineno(file), of_file)

    def _add(self, file: str, contexts_by_line: dict[int, list[str]], of_file: dict[str, list[str]]) -> None:
        """Adds the tests that executed the lines of a file. A fixture of a module or a session runs in the name of one test, and serves
        all tests of that file."""
        lines = self._lines.setdefault(str(Path(file).relative_to(Work.clone)), {})
        for number, contexts in contexts_by_line.items():
            tests: set[str] = set(lines.get(str(number), []))
            for context in contexts:
                node, _, when = context.rpartition("|")
                tests.update(of_file.get(node.partition("::")[0], []) if when == "setup" else [node])
            lines[str(number)] = sorted(tests & self.seconds.keys())

    def tests(self, file: str, lines: Iterable[int], budget_s: float) -> list[str]:
        """Tests that execute one of the lines; for a line executed at import, any line of the file, or all tests of the package. Quickest
        first, at least one, and as many as fit the budget."""
        known = self._lines.get(file, {})
        hit = [known[str(line)] for line in lines if str(line) in known]
        if hit and not any(hit):
            hit = list(known.values())
        found = {node for nodes in hit for node in nodes}
        if hit and not found:
            found = {node for node in self.seconds if node.startswith(f"tests/host/{area_of(file)}/")}
        ordered = sorted(found, key=lambda node: self.seconds[node])
        total = itertools.accumulate(self.seconds[node] for node in ordered)
        return [node for k, (node, until) in enumerate(zip(ordered, total)) if not k or until <= budget_s]


@dataclass(frozen=True)
class Place:
    """A place for a fault, and the fault; ``key`` as in :class:`Fault`."""

    area: str
    file: str
    operator: str
    occurrence: int
    line: int
    key: str

    def draw(self, seed: int) -> bytes:
        """Random key: a sample with the same seed stays the same where the code does."""
        return hashlib.sha256(f"{seed} {self.file} {self.operator} {self.occurrence}".encode()).digest()


def area_of(file: str) -> str:
    """Area of a Python file by its path from the checkout's top; empty for a file in which no faults are made."""
    if not file.endswith(".py") or file.startswith(NOT_MADE):
        return ""
    if match := re.match(r"host/wattbell/(?:(\w+)/)?\w", file):
        return match[1] or TOP
    return next((area for area, folder in OTHER.items() if file.startswith(f"{folder}/")), "")


def made_faults(areas: Sequence[str] | None) -> list[Place | RustPlace]:
    """Every fault that can be made; those in Rust only where ``areas`` names theirs, or there is cargo-mutants."""
    found: list[Place | RustPlace] = []
    try:
        found += rust_places(Work.clone, ARROW)
    except Missing as error:
        if AREA in (areas or []):
            raise Mistake(str(error)) from None
        print(f"{AREA} is left out: {error}")
    for name in git("ls-files", "*.py", folder=Work.clone).splitlines():
        if not (area := area_of(name)):
            continue
        source = (Work.clone / name).read_text(encoding="utf-8")
        for operator, _, occurrence, line, _ in places(source):
            key = hashlib.sha256("\0".join((name, operator, str(occurrence), source)).encode()).hexdigest()[:16]
            found.append(Place(area, name, operator, occurrence, line, key))
    return found


def mutated(place: Place, source: str) -> tuple[str, str]:
    """The file with the fault, and the line before and after."""
    from cosmic_ray.mutating import mutate_code

    text: str | None = mutate_code(source, dict(operators())[place.operator](), place.occurrence)
    assert text is not None
    old, new = source.splitlines(), text.splitlines()
    at = next((k for k, (a, b) in enumerate(zip(old, new)) if a != b), place.line - 1)
    return text, f"{old[at].strip()}{ARROW}{new[at].strip() if at < len(new) else ''}"


def useless(arguments: Iterable[Argument], every: Sequence[Place | RustPlace]) -> list[Argument]:
    """Arguments that match none of the faults."""
    left = []
    for argument in arguments:
        near = [place for place in every if place.file == argument.file and re.fullmatch(argument.operator, place.operator)]
        source = (Work.clone / argument.file).read_text(encoding="utf-8")
        lines = source.splitlines()
        fits = {number for number, line in enumerate(lines, 1) if re.search(argument.line, line.strip())}
        around = [place for place in near if fits & set(range(place.line - 3, place.line + 4))]
        if not any(argument.holds(place.file, place.operator, _what(place, source)) for place in around):
            left.append(argument)
    return left


def _what(place: Place | RustPlace, source: str) -> str:
    return place.what if isinstance(place, RustPlace) else mutated(place, source)[1]


def make(place: Place | RustPlace, tests: TestMap | None, budget_s: float, arguments: Iterable[Argument]) -> Fault:
    file, line = place.file, place.line
    if isinstance(place, RustPlace):
        why = argued(arguments, file, place.operator, place.what)
        return Fault(place.area, False, file, line, place.key, place.text, TESTS, place.what, why, place.operator, BUILDS)
    assert tests is not None
    source = (Work.clone / file).read_text(encoding="utf-8")
    text, what = mutated(place, source)
    named = tuple(tests.tests(file, statement_lines(ast.parse(source), line), budget_s))
    why = argued(arguments, file, place.operator, what)
    return Fault(place.area, False, file, line, place.key, text, named, what, why, place.operator)


# -- faults already tried ---------------------------------------------------------------------------------------------


class Results:
    """One line of JSON for each fault tried; a fault's last line counts."""

    def __init__(self) -> None:
        self.path = Work.build / "results.jsonl"
        self.rows: dict[str, dict[str, Any]] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["key"]] = row

    def argue(self, every: Iterable[Place | RustPlace], arguments: Sequence[Argument]) -> None:
        """The arguments for faults that were tried before."""
        for place in every:
            if row := self.rows.get(place.key):
                row["equivalent"] = argued(arguments, place.file, place.operator, row["what"])

    def add(self, fault: Fault, verdict: str, seconds: float, commit: str) -> None:
        row = {
            "key": fault.key,
            "area": fault.area,
            "kept": fault.kept,
            "file": fault.file,
            "line": fault.line,
            "what": fault.what,
            "verdict": verdict,
            "equivalent": fault.equivalent,
            "seconds": round(seconds, 1),
            "commit": commit[:7],
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }
        self.rows[fault.key] = row
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")


class Green:
    """Whether the tests pass without a fault, at this commit: a test that fails anyway would catch everything."""

    def __init__(self, commit: str) -> None:
        self.path = Work.build / "green.json"
        try:
            data = json.loads(self.path.read_text())
        except FileNotFoundError:
            data = {}
        self._data: dict[str, Any] = data if data.get("commit") == commit else {"commit": commit, "tests": {}}

    def __call__(self, tests: Sequence[str]) -> float | None:
        """Duration of the tests in seconds; None if they fail."""
        known = self._data["tests"]
        name = "\n".join(tests)
        if name not in known:
            begun = time.monotonic()
            passed = run(tests, 3600) == SURVIVED
            known[name] = time.monotonic() - begun if passed else None
            self.path.write_text(json.dumps(self._data))
        seconds: float | None = known[name]
        return seconds


def try_out(fault: Fault, limit_s: float) -> str:
    """Puts the fault into the clone, and takes it out again."""
    path = Work.clone / fault.file
    before = path.read_bytes()
    try:
        path.write_text(fault.text, encoding="utf-8")
        return run(fault.tests, limit_s)
    finally:
        path.write_bytes(before)


def one(fault: Fault, tests: TestMap | None, green: Green) -> str:
    if not fault.tests:
        return NO_TEST
    if fault.kept or fault.builds:
        found = green(fault.tests)
        if found is None:
            return NOT_GREEN
        seconds = found
        if fault.builds and try_out(replace(fault, tests=(fault.builds,)), _LONGEST_S) == CAUGHT:
            return UNVIABLE
    else:
        assert tests is not None
        seconds = sum(tests.seconds[node] for node in fault.tests)
    known = fault.kept or fault.builds
    return try_out(fault, 30 + 5 * seconds if known else 20 + 2 * seconds)  # the latter were taken with coverage, which slows them


# -- the page ----------------------------------------------------------------------------------------------------------


def interval(caught: int, tried: int) -> str:
    """Wilson's interval of a proportion, 95 %."""
    z = 1.96
    centre, half = caught + z * z / 2, z * math.sqrt(caught * (tried - caught) / tried + z * z / 4)
    low, high = (centre - half) / (tried + z * z), (centre + half) / (tried + z * z)
    return f"{low:.0%} to {high:.0%}"


def table(rows: Iterable[dict[str, Any]], of: dict[str, int], kept: bool) -> list[str]:
    """Rows by area; ``of``: the number of faults."""
    out = ["| area | faults | tried | caught | survived | no test | equivalent | share caught |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    chosen = [row for row in rows if row["kept"] == kept and row["verdict"] not in NOTHING]
    for area in [*sorted(of), "all"]:
        mine = [row for row in chosen if area in (row["area"], "all")]
        alive = [row for row in mine if row["verdict"] in (SURVIVED, NO_TEST)]
        equivalent = [row for row in alive if row["equivalent"]]
        tried = len(mine) - len(equivalent)
        caught = len(mine) - len(alive)
        untested = sum(row["verdict"] == NO_TEST for row in alive if not row["equivalent"])
        share = f"{caught / tried:.0%}" + ("" if kept or not tried else f" ({interval(caught, tried)})") if tried else "–"
        number = of[area] if area != "all" else sum(of.values())
        survived = len(alive) - len(equivalent) - untested
        out.append(f"| {area} | {number} | {len(mine)} | {caught} | {survived} | {untested} | {len(equivalent)} | {share} |")
    return out


def write_page(results: Results, current: set[str], kept: dict[str, int], made: dict[str, int]) -> None:
    """Write the table of each kind that has results; the other kind's table stays, with its day and commits."""
    page = PAGE.read_text(encoding="utf-8")
    for kind, of in (("kept", kept), ("made", made)):
        rows = [row for row in results.rows.values() if row["key"] in current and row["kept"] == (kind == "kept")]
        if not rows:
            continue
        dates = sorted({row["date"] for row in rows})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        commits = ", ".join(sorted({row["commit"] for row in rows}))
        head, begin, rest = page.partition(BEGIN.format(kind))
        _, end, tail = rest.partition(END)
        page = f"{head}{begin}\nTried {when}, commits {commits}.\n\n" + "\n".join(table(rows, of, kind == "kept")) + f"\n{end}{tail}"
    PAGE.write_text(page, encoding="utf-8")


# -- command -----------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/mutants.py", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="only see that each kept fault's text occurs once and its tests are there, and each argument's line",
    )
    parser.add_argument("--kept", action="store_true", help="only the faults kept as data")
    parser.add_argument("--made", action="store_true", help="only those that Cosmic Ray and cargo-mutants make")
    parser.add_argument(
        "--area", action="append", help="only this area (again for more): a package of the host, hw, guest, tools, or one of the lists"
    )
    number = parser.add_mutually_exclusive_group()
    number.add_argument("--sample", type=int, metavar="N", help="so many of the made faults, by chance; without it all of them")
    number.add_argument("--each", type=int, metavar="N", help="so many of the made faults of each area, by chance")
    parser.add_argument("--seed", type=int, default=1, help="of the chance (%(default)s)")
    parser.add_argument("--minutes", type=float, help="stop after so long; the next run goes on")
    parser.add_argument(
        "--budget",
        type=float,
        default=30,
        metavar="S",
        help="of the tests that execute a made fault's line, as many as take S seconds, quickest first (%(default)g)",
    )
    parser.add_argument("--again", action="store_true", help="only survivors, anew")
    parser.add_argument("--commit", default="HEAD", help="what is tried (%(default)s)")
    parser.add_argument(
        "--build",
        type=Path,
        default=Work.build,
        metavar="DIR",
        help="where it works and keeps results.jsonl: runs with different ones do not hinder each other, and their "
        "results.jsonl can be put one behind the other (build/mutants)",
    )
    parser.add_argument("--docs", action="store_true", help="write the table of docs/testing.md")
    arguments = parser.parse_args()
    Work.build = arguments.build.resolve()
    Work.clone = Work.build / "clone"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the tests stop, too
    try:
        if arguments.check:
            print(f"{len(kept_faults(ROOT))} faults, each in one place; {len(arguments_of(ROOT))} arguments, each about a line")
            return
        campaign(arguments)
    except Mistake as error:
        sys.exit(f"mutants: error: {error}")


def campaign(arguments: argparse.Namespace) -> None:
    if importlib.util.find_spec("cosmic_ray") is None:
        raise Mistake("Cosmic Ray is missing: tools/install.sh mutants, or make mutants")
    if shutil.which("git") is None:
        raise Mistake("git is missing")
    deadline = time.monotonic() + 60 * arguments.minutes if arguments.minutes else math.inf
    Work.build.mkdir(parents=True, exist_ok=True)
    lock = (Work.build / "lock").open("w")  # until the end of the process
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Mistake(f"another run is at work in {Work.build}") from None
    commit = clone(arguments.commit)
    results, green = Results(), Green(commit)
    kept = kept_faults(Work.clone)
    files = git("ls-files", "*.py", folder=Work.clone).splitlines()
    areas = sorted({AREA, *(area for name in files if (area := area_of(name)))})
    known = {*areas, *(fault.area for fault in kept)}
    if unknown := set(arguments.area or []) - known:
        raise Mistake(f"no such area: {', '.join(sorted(unknown))} (there are {', '.join(sorted(known))})")
    of_kept = {area: sum(fault.area == area for fault in kept) for area in {fault.area for fault in kept}}
    every = [] if arguments.kept else made_faults(arguments.area)
    arguments_kept = arguments_of(Work.clone)
    if every and (left := useless(arguments_kept, every)):
        raise Mistake("\n".join(f"{ARGUED.name}: about no fault: {argument.file}, {argument.line}" for argument in left))
    results.argue(every, arguments_kept)
    of_made = {area: sum(place.area == area for place in every) for area in areas}
    current = {fault.key for fault in kept} | {place.key for place in every}
    kept = [fault for fault in kept if not arguments.area or fault.area in arguments.area]
    every = [place for place in every if not arguments.area or place.area in arguments.area]
    every = sorted(every, key=lambda place: place.draw(arguments.seed))[: arguments.sample]
    if arguments.each:
        turns: Counter[str] = Counter()
        drawn, every = every, []
        for place in drawn:
            turns[place.area] += 1
            if turns[place.area] <= arguments.each:
                every.append(place)
    if arguments.again:
        alive = {key for key, row in results.rows.items() if row["verdict"] in (SURVIVED, NO_TEST)}
        kept, every = [fault for fault in kept if fault.key in alive], [place for place in every if place.key in alive]
    if arguments.made:
        kept = []
    if arguments.kept:
        every = []
    tests = TestMap() if any(isinstance(place, Place) for place in every) else None
    done: list[str] = []
    total = len(kept) + len(every)
    for number, item in enumerate([*kept, *every], 1):
        if time.monotonic() > deadline:
            print(f"time is over; {total - number + 1} were not tried")
            break
        before = results.rows.get(item.key)
        done.append(item.key)
        if before and not arguments.again and before["verdict"] != NOT_GREEN:
            continue
        if not isinstance(item, Fault):
            item = make(item, tests, arguments.budget, arguments_kept)
        begun = time.monotonic()
        verdict = one(item, tests, green)
        results.add(item, verdict, time.monotonic() - begun, commit)
        print(f"{number}/{total} {verdict:9} {item.file}:{item.line}  {item.what}", flush=True)
    tried = [results.rows[key] for key in done if key in results.rows]
    for kind, of in ((True, of_kept), (False, of_made)):
        if any(row["kept"] == kind for row in tried):
            print("\n".join(["", *table(tried, of, kind)]))
    for row in tried:
        if row["verdict"] in (SURVIVED, NO_TEST, NOT_GREEN) and not row["equivalent"]:
            print(f"{row['verdict']:9} {row['file']}:{row['line']}  {row['what']}")
        if not row["kept"] and row["equivalent"] and row["verdict"] in (CAUGHT, TIMEOUT):
            print(f"argued to be none, and caught: {row['file']}:{row['line']}  {row['what']}")
    if arguments.docs:
        write_page(results, current, of_kept, of_made)
    if any(row["kept"] and row["verdict"] in (SURVIVED, NOT_GREEN) and not row["equivalent"] for row in tried):
        sys.exit(1)


if __name__ == "__main__":
    main()
