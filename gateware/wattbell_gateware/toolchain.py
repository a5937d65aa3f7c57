"""Common parts of all boards' builds: tools and their versions, records of inputs, Yosys, the generated part of a page."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = [
    "END",
    "NAME",
    "ROOT",
    "BuildError",
    "HopelessError",
    "check_packages",
    "digest",
    "exit_status",
    "fresh",
    "made",
    "plain_names",
    "prepare",
    "run",
    "sources",
    "timed",
    "versions",
    "write_docs",
    "yosys",
]

ROOT = Path(__file__).parents[2]
NAME = "tap"
"""Name of the top module."""
END = "<!-- end of generated -->"

_YOSYS = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for command in sys.argv[1:]:
    ys.run_pass(command, design)
"""


class BuildError(Exception):
    """Ends the build; the message says what to do."""


class HopelessError(BuildError):
    """Reports that a tool was ended because it would not finish."""


def exit_status(work: Callable[[], None]) -> int:
    """Do `work` for a command line; return its exit status. Failures to write or to build are one line on stderr."""
    try:
        work()
    except OSError as error:
        print(f"error: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def check_packages(needed: dict[str, str]) -> None:
    """Raise BuildError with the names of all missing packages. `needed`: module -> package."""
    missing = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise BuildError(f"missing Python packages: {', '.join(missing)}. Run `make setup`, or `pip install {' '.join(missing)}`.")


def versions(packages: list[str]) -> str:
    """Return ``name==version`` of each package; only the name if the package is not installed."""
    found = []
    for package in packages:
        try:
            found.append(f"{package}=={version(package)}")
        except PackageNotFoundError:
            found.append(package)
    return ", ".join(found)


def run(command: list[str], log: Path, cwd: Path, *, hopeless: Callable[[str], str] = lambda _said: "", look_s: float = 5) -> None:
    """Run a tool with its output in ``log``; raise BuildError with the end of the output if it fails.

    `hopeless` gets the output so far and returns a reason why the tool will not finish, or nothing. It is called every `look_s`
    seconds. If it returns a reason, the tool is ended and HopelessError raised.
    """
    with log.open("w") as out, subprocess.Popen(command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT) as tool:
        try:
            while tool.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    tool.wait(look_s)
                if tool.returncode is None and (why := hopeless(log.read_text(errors="replace"))):
                    raise HopelessError(f"{Path(command[0]).name} was ended (all it said is in {log}): {why}")
        finally:
            tool.kill()
    if tool.returncode != 0:
        text = log.read_text(errors="replace")
        errors = [line for line in text.splitlines() if line.startswith("ERROR")] or text.splitlines()[-10:]
        raise BuildError(f"{Path(command[0]).name} failed (all it said is in {log}):\n" + "\n".join(errors))


def yosys(passes: list[str], log: Path, cwd: Path) -> None:
    """Run passes of the native Yosys; raises BuildError."""
    run([sys.executable, "-c", _YOSYS, *passes], log, cwd)


def digest(*inputs: object) -> str:
    """Return the SHA-256 digest of texts and of the contents of files."""
    total = hashlib.sha256()
    for item in inputs:
        total.update(item.read_bytes() if isinstance(item, Path) else str(item).encode())
        total.update(b"\0")
    return total.hexdigest()


def fresh(target: Path, *inputs: object) -> bool:
    """Return whether ``target`` was made from these inputs; :func:`made` remembers them."""
    stamp = target.with_name(f".{target.name}.digest")
    return target.exists() and stamp.exists() and stamp.read_text() == digest(*inputs)


def made(target: Path, *inputs: object) -> None:
    """Remember the inputs that ``target`` was made from."""
    target.with_name(f".{target.name}.digest").write_text(digest(*inputs))


def sources() -> list[Path]:
    """Return all our source files that a design depends on."""
    import wattbell_spec

    return sorted(path for package in (__file__, wattbell_spec.__file__) for path in Path(str(package)).parent.rglob("*.py"))


def prepare(board, tap=None, *, firmware=None, **options) -> dict[str, str | bytes]:
    """Elaborate a board; return file name -> content, as its platform writes them. Warnings raise BuildError.

    `tap`: a design in place of the whole tap.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from .boards.tap import Tap

        try:
            return board.platform().prepare(tap or Tap(board, firmware=firmware), NAME, **options).files
        except Warning as warning:
            raise BuildError(f"elaboration warns: {warning}") from warning


def plain_names(rtlil: str) -> str:
    """Replace the brackets in names.

    Yosys 0.70 stops in ``abc_ops_reintegrate`` when it takes part of a name for an index, and ``rename -unescape`` stops when two
    names become one.
    """
    return re.sub(r"(?<=\s)[\\$]\S*", lambda name: name[0].replace("[", "<").replace("]", ">"), rtlil)


def write_docs(path: Path, begin: str, text: str) -> None:
    """Put a table between its marks, `begin` and :data:`END`, in the page `path`. Raise BuildError if a mark is missing."""
    before, _, rest = path.read_text().partition(begin)
    _, found, after = rest.partition(END)
    if not found:
        raise BuildError(f"{path} has lost its marks {begin!r} and {END!r}; put them back where the table goes.")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{END}{after}")


def timed(what: str, step):
    """Do a step, print how long it took, and return its result."""
    begin = time.monotonic()
    result = step()
    print(f"{what}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return result
