"""Any bytes as a manifest, any text as a job file: a suite, or one clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattbell.errors import UsageError, WattbellError
from wattbell.suites.drive import Drive
from wattbell.suites.jobs import DRIVE, OPTIONS, of_a_suite, scaled, sections
from wattbell.suites.kinds import KINDS
from wattbell.suites.kinds.rounds import QUANTITIES
from wattbell.suites.manifest import load_suite, parse_manifest
from wattbell.suites.outlook import expect
from wattbell.suites.plan import choose_tests, plan_sessions
from wattbell.suites.planfile import read_plan
from wattbell.suites.session import Choice
from wattbell.suites.suite import CONDITIONS, Test
from wattbell.suites.units import LARGEST, size_bytes, time_s

from tests.host.fuzzing import examples

JOB = "[global]\nfilename=${WATTBELL_DRIVE}\n[a]\nrw=randread\nbs=4k\n[b]\nstonewall\niodepth=4\n"
NUMBERS = st.one_of(
    st.integers(), st.integers(0, 100), st.floats(), st.floats(0, 1), st.sampled_from([10**400, 1 << 63, -1, 0, float("nan"), float("inf")])
)
WORDS = st.sampled_from(["a", "b", "j.fio", "../j.fio", "4k", "0", "1p", "off", "l1.2", "", ".", "light", *KINDS, *CONDITIONS, *QUANTITIES])
PLAIN = st.one_of(NUMBERS, WORDS, st.booleans(), st.text(max_size=6), st.none())
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(["a", "b", "c"]),
    "name": st.just("A"),
    "kind": st.sampled_from(sorted(KINDS)),
    "conditions": st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2),
    "jobs": st.just("j.fio"),
    "trace": st.just("light"),
    "track": st.just(["a"]),
    "quantity": st.sampled_from(QUANTITIES),
    "rounds_max": st.integers(1, 9),
    "repeat": st.integers(1, 9),
    "fill": st.fixed_dictionaries({}, optional={"span": st.floats(), "bs": WORDS, "times": NUMBERS}),
}


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """A valid test, with arbitrary values for some of its keys."""
    entry = {key: draw(value) for key, value in RIGHT.items() if key != "fill" or draw(st.booleans())}
    for key in draw(st.lists(st.sampled_from([*Test.__struct_fields__, "colour"]), max_size=3)):
        entry[key] = draw(VALUES)
    return entry


def folder(tmp_path: Path, manifest: bytes = b"") -> Path:
    (tmp_path / "manifest.toml").write_bytes(manifest)
    (tmp_path / "j.fio").write_text(JOB)
    return tmp_path


@examples(200)
@given(raw=st.dictionaries(st.sampled_from(["name", "title", "session", "x"]), VALUES, max_size=2), tests=st.lists(entries(), max_size=3))
def test_any_tables_are_a_suite_or_an_error(tmp_path: Path, raw: dict[str, Any], tests: list[dict[str, Any]]) -> None:
    where = folder(tmp_path)
    try:
        suite = parse_manifest({**raw, "test": tests}, where)
    except WattbellError as error:
        assert str(where) in str(error)
        return
    drive = Drive("d", 1 << 40, (0,), (1,))
    for condition in CONDITIONS:  # what was accepted can be planned
        for written in (False, True):
            try:
                planned = plan_sessions(suite, choose_tests(suite, (), condition), drive, Choice(0.5, written))
            except WattbellError as error:
                assert "No test of" in str(error)
                continue
            for session in planned:
                assert session.steps and session.plan
                assert (where / "out" / f"{session.name}-{session.condition}").resolve().parent == (where / "out").resolve()
    for test in suite.tests:
        for section in suite.sections(test).values():
            assert section.depth >= 1 and 0 <= section.write_share <= 1


TOML = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "[[test]]",
                "[test]",
                "test = 1",
                "id = 'a'",
                "name='A'",
                "kind = 'idle'",
                "conditions = ['empty']",
                "idle_s = nan",
                "fill = {span = inf}",
                "a = 1979-05-27",
                "b = 07:32:00",
                "x = 0x" + "f" * 50,
                "s = '''",
                "k.k.k = 1",
                "[[",
                "= = =",
            ]
        ),
        st.text(max_size=12),
    ),
    max_size=8,
)


@examples(200)
@given(content=st.one_of(TOML.map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass")), st.binary(max_size=60)))
def test_any_bytes_are_a_suite_or_an_error(tmp_path: Path, content: bytes) -> None:
    try:
        load_suite(folder(tmp_path, content))
    except WattbellError as error:
        assert "manifest.toml" in str(error)


GIVEN = st.sampled_from([DRIVE, "4k", "1", "0", "75%", "100%", "60", "500ms", "read", "4k,8k", "9" * 20, ""])
LINES = st.one_of(
    st.sampled_from(["[global]", "[a]", "[b]", "; x", "# x", "", "stonewall", "include /etc/passwd", "exec_prerun=x", "\0", "\r", "[a"]),
    st.tuples(st.sampled_from(sorted(OPTIONS)), st.one_of(GIVEN, st.text(max_size=8))).map("=".join),
    st.text(max_size=20),
)


@examples(400)
@given(lines=st.lists(LINES, max_size=8), good=st.booleans(), scale=st.floats(1e-9, 1.0))
def test_any_text_is_jobs_or_an_error(lines: list[str], good: bool, scale: float) -> None:
    text = (JOB if good else "") + "\n".join(lines)
    try:
        found = sections(text, "j.fio")
    except WattbellError as error:
        assert str(error).startswith("j.fio") and str(error).isprintable()
        with pytest.raises(WattbellError):
            of_a_suite(text, "j.fio")
        return
    for section in found:
        assert section.depth >= 1 and 0 <= section.write_share <= 1
        assert section.options.get("filename", DRIVE) == DRIVE
        assert set(section.options) <= set(OPTIONS)
    again = sections(scaled(text, scale, 1 << 40), "scaled")
    assert [(s.name, s.depth, set(s.options)) for s in again] == [(s.name, s.depth, set(s.options)) for s in found]


@examples(300)
@given(
    text=st.one_of(st.text(max_size=12), st.from_regex(r"\A[0-9]{0,25}[kmgtpKMGTP]?i?[bB]?\Z"), st.from_regex(r"\A[0-9]{0,25}[a-z]{0,4}\Z"))
)
def test_any_text_is_a_size_or_a_time_or_a_value_error(text: str) -> None:
    for parse, most in ((size_bytes, LARGEST), (time_s, 1e20)):
        try:
            assert 0 <= parse(text) <= most
        except ValueError as error:
            assert len(str(error)) < 120


STEP_KEYS = st.sampled_from(
    ["name", "fio", "trace", "idle_s", "wake", "format", "sanitize", "fill", "settle", "restart", "command", "apst", "aspm", "ps", "duty",
     "duty_idle_max_s", "measured", "write_cache", "temperature_c", "trace_idle_cut_s", "trace_iodepth", "else"]
)  # fmt: skip
STEP_WORDS = st.sampled_from(["j.fio", "off", "l1.2", "crypto", "128k", "", "\x1b[2J"])
STEP_TABLES = st.sampled_from(["idle_s", "slba", "nsid", "ses", "span", "bs", "window_s", "longest_s", "off_s"])
STEP_VALUES = st.recursive(
    st.booleans() | st.integers(-(1 << 60), 1 << 60) | st.floats() | STEP_WORDS,
    lambda inner: st.dictionaries(STEP_TABLES, inner, max_size=3),
    max_leaves=4,
)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    return repr(value) if isinstance(value, int | float) else '"' + "".join(f"\\u{ord(c):04x}" for c in str(value)) + '"'


@examples(300)
@given(st.lists(st.dictionaries(STEP_KEYS, STEP_VALUES, max_size=4), max_size=3) | st.text(max_size=40))
def test_a_plan_is_taken_with_all_its_numbers_in_range_or_refused(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    path = tmp_path_factory.mktemp("plan") / "p.toml"
    if isinstance(content, list):
        content = "".join("[[step]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in step.items()) for step in content)
    path.write_text(str(content), encoding="utf-8", errors="surrogatepass")
    try:
        plan = read_plan(path)
    except UsageError as error:
        assert str(path) in str(error)
        return
    for step in plan.steps:
        assert step.command is None and step.aspm in ("off", "l1", "l1.2") and isinstance(step.apst, bool)
        assert step.name.isprintable() and step.name
        known = expect(step, {}, 10**12) if step.trace is None else None
        assert known is None or (0 <= known.seconds < 1e7 and 0 <= known.written_bytes <= 10**12)
