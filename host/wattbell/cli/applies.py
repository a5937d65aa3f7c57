"""Tables of the works and benches that each option applies to. All refusals and the user's guide (``tools/options_guide.py``) come from
here.

This module imports nothing heavy.

An option is *given* if it is on the command line, whatever its value. An option that does not apply is refused if it is given. A value from
the user's own defaults (:mod:`.config`) that does not apply is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from typer.core import TyperCommand

from ..errors import UsageError

# -- the options of `wattbell run` ------------------------------------------------------------------------------------


class WorkKind(StrEnum):
    """The work of ``wattbell run``. The value names the work in a sentence."""

    suite = "a suite"
    conformance = "the suite conformance"
    plan = "a plan"
    job = "a fio job file"
    trace = "a trace"
    command = "a command"


class BenchKind(StrEnum):
    """The bench of the work: the place where it runs and the recorder of its rail. The value follows "on"."""

    model = "a drive model"
    rig = "a real drive with a rig"
    rig_as_meter = "a real drive with a rig as its meter"
    meter = "a real drive with another meter"


class Trait(StrEnum):
    """A trait that only the content of the work shows. The value describes work without the trait."""

    writes = "only reads"
    rounds = "has no test in rounds to a steady state among those to run"
    generated = "has no test with a generated trace among those to run"
    set_at_once = "has only tests that write their precondition anyway among those to run"


Works = frozenset[WorkKind]
Benches = frozenset[BenchKind]
ANY_WORK: Works = frozenset(WorkKind)
SUITE: Works = frozenset({WorkKind.suite})
CONFORMANCE: Works = frozenset({WorkKind.conformance})
SUITES: Works = SUITE | CONFORMANCE
PLAN: Works = frozenset({WorkKind.plan})
FILES: Works = frozenset({WorkKind.plan, WorkKind.job, WorkKind.trace})
WITHOUT_POWER: Works = frozenset({WorkKind.job, WorkKind.trace, WorkKind.command})
"""Work that says nothing of power management itself."""
ANY_BENCH: Benches = frozenset(BenchKind)
MODEL: Benches = frozenset({BenchKind.model})
REAL: Benches = ANY_BENCH - MODEL
RIG: Benches = frozenset({BenchKind.rig})
RIGS: Benches = ANY_BENCH - {BenchKind.meter}
BENCH_WORDS: dict[Benches, tuple[str, str]] = {
    MODEL: ("a drive model", " (--virtual)"),
    REAL: ("a real drive", " (--drive)"),
    REAL - RIG: ("a real drive", " (--drive)"),
    RIG: ("a real drive with a rig", ""),
    RIGS: ("a rig, virtual or real", ""),
}
"""Sets of benches in words, and the option that selects each."""


@dataclass(frozen=True)
class OptionScope:
    """Kinds of work and of bench. ``trait``: a further property that the work must have."""

    works: Works = ANY_WORK
    benches: Benches = ANY_BENCH
    trait: Trait | None = None


EVERYWHERE = (OptionScope(),)
OF_SUITES = (OptionScope(SUITES),)
OF_A_FREE_SUITE = (OptionScope(SUITE),)
"""For suites with tests that the user selects. In the suite conformance requirements select them."""
OF_CONFORMANCE = (OptionScope(CONFORMANCE),)
ON_A_MODEL = (OptionScope(benches=MODEL),)
ON_A_DRIVE = (OptionScope(benches=REAL),)

RUN: dict[str, tuple[OptionScope, ...]] = {
    "SUITE|FILE|-- COMMAND": EVERYWHERE,
    "--out": EVERYWHERE,
    "--virtual": ON_A_MODEL,
    "--drive": ON_A_DRIVE,
    "--serial": ON_A_DRIVE,
    "--yes": (OptionScope(SUITES, REAL), OptionScope(FILES, REAL, Trait.writes)),
    "--rig": (OptionScope(benches=RIG),),
    "--meter": (OptionScope(benches=REAL - RIG),),
    "--commands": ON_A_DRIVE,
    "--commands tap": (OptionScope(benches=RIG),),
    "--commands fio": (OptionScope(ANY_WORK - {WorkKind.command}, REAL),),
    "--link-speed": ON_A_DRIVE,
    "--governor": ON_A_DRIVE,
    "--apst/--no-apst": (OptionScope(WITHOUT_POWER, REAL),),
    "--aspm": (OptionScope(WITHOUT_POWER, REAL),),
    "--dry-run": EVERYWHERE,
    "--fidelity": ON_A_MODEL,
    "--seed": (OptionScope(benches=MODEL), OptionScope(SUITE, REAL, Trait.generated)),
    "--interval": (OptionScope(benches=RIGS),),
    "--decimation": (OptionScope(benches=RIGS),),
    "--keep-trace": ON_A_MODEL,
    "--as-direct": (OptionScope(ANY_WORK - {WorkKind.trace, WorkKind.command}, MODEL),),
    "--scale": OF_SUITES,
    "--condition": OF_A_FREE_SUITE,
    "--tests": OF_SUITES,
    "--written": (OptionScope(SUITES, MODEL, Trait.set_at_once),),
    "--rounds": (OptionScope(SUITE, trait=Trait.rounds),),
    "--repeat": OF_A_FREE_SUITE,
    "--discard-captures": OF_A_FREE_SUITE,
    "--resume": OF_SUITES,
    "--requirements": OF_CONFORMANCE,
    "--set": OF_CONFORMANCE,
    "--guard": OF_CONFORMANCE,
    "--junit": OF_CONFORMANCE,
    "--exit-codes": OF_CONFORMANCE,
    "--page/--no-page": OF_SUITES,
    "--plots/--no-plots": OF_SUITES,
    "--store": OF_SUITES,
    "--no-store": OF_SUITES,
    "--force": EVERYWHERE,
    "--keep-stream": (OptionScope(benches=RIGS),),
    "--wide": EVERYWHERE,
    "--json": EVERYWHERE,
}
"""Boxes of each option; it applies in any box.

The key is the option's long name, both names of a flag, its name and a value, or an argument's name in the help. A dry run lists every
option that its run would take, and so takes them all.
"""

_INSTEAD = {
    ("--keep-trace", REAL & RIGS): ("--keep-stream", "--keep-stream keeps the data that the rig sent"),
    ("--apst/--no-apst", SUITES): (None, "each test says that itself"),
    ("--aspm", SUITES): (None, "each test says that itself"),
    ("--apst/--no-apst", PLAN): (None, "each step says that itself"),
    ("--aspm", PLAN): (None, "each step says that itself"),
    ("--condition", CONFORMANCE): (None, "each test has the condition that its requirements need"),
    ("--discard-captures", CONFORMANCE): (None, "the captures are judged"),
    ("--repeat", CONFORMANCE): (None, "one run is judged"),
    ("--written", REAL): (None, "a real drive is always purged and filled by writing"),
}
"""Replacement for an option that does not apply, and the words for it.

The replacement is an option, not suggested to a user who gave it already, or None.
"""


def panel(label: str) -> str | None:
    """The panel of the help for an option; None for an option that stands among all others."""
    boxes = next(boxes for option, boxes in RUN.items() if _plain(option) == _plain(label))
    if all(box.works == CONFORMANCE for box in boxes):
        return "The suite conformance"
    if all(box.works <= SUITES for box in boxes):
        return "Suites"
    benches = frozenset(bench for box in boxes for bench in box.benches)
    return "On a drive model" if benches == MODEL else "On a real drive" if benches <= REAL else None


@dataclass(frozen=True)
class Kinds:
    """The kinds of one call of ``wattbell run``. ``name``: of the work, as the user gave it."""

    work: WorkKind
    bench: BenchKind
    name: str

    def within(self, box: OptionScope) -> bool:
        """Whether the box holds for these kinds."""
        return self.work in box.works and self.bench in box.benches


def any_of(names: Iterable[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def works_words(works: Works) -> str:
    """Kinds of work in a sentence."""
    words = {kind: kind.value for kind in WorkKind if kind in works}
    if works >= SUITES:
        del words[WorkKind.conformance]
    elif works >= SUITE:
        words[WorkKind.suite] = f"{WorkKind.suite.value} other than conformance"
    return any_of(words.values())


def _benches(benches: Benches, here: BenchKind | None = None) -> str:
    """``here``: where the user is already, so that nobody needs to say how to get there."""
    text, way = BENCH_WORDS[benches]
    return text if here in benches else f"{text}{way}"


def _place(box: OptionScope, kinds: Kinds | None = None) -> str:
    """Return a box in words; with ``kinds``, only the parts that they do not match."""
    work = "" if box.works == ANY_WORK or (kinds is not None and kinds.work in box.works) else works_words(box.works)
    bench = "" if box.benches == ANY_BENCH or (kinds is not None and kinds.bench in box.benches) else _benches(box.benches)
    return f"{work} on {bench}" if work and bench else work or bench


def _merged(boxes: Iterable[OptionScope]) -> list[OptionScope]:
    """Return one box for all that share their benches, whatever further trait the work must have."""
    works: dict[Benches, Works] = {}
    for box in boxes:
        works[box.benches] = works.get(box.benches, frozenset()) | box.works
    return [OptionScope(of, benches) for benches, of in works.items()]


def fits(option: str, kinds: Kinds) -> bool:
    """Whether an option (a key of :data:`RUN`) applies to these kinds."""
    return any(kinds.within(box) for box in RUN[option])


def why_not(option: str, kinds: Kinds, shown: Sequence[str], given: Iterable[str] = ()) -> str:
    """Return why an option does not apply, with advice.

    shown: its spelling, and other options that do not apply for the same reason
    given: all given options
    """
    boxes = _merged(RUN[option])
    what = "this" if kinds.work in (WorkKind.command, WorkKind.conformance) else kinds.name
    if len(boxes) > 1:
        places = any_of(
            f"{works_words(box.works)} on {_benches(box.benches, kinds.bench)}"
            if box.works != ANY_WORK
            else _benches(box.benches, kinds.bench)
            for box in boxes
        )
        is_ = f"{what} is {kinds.work}, on {kinds.bench}"
    else:
        places = _place(boxes[0], kinds)
        if kinds.bench in boxes[0].benches:
            is_ = f"{what} is {kinds.work}"
        elif kinds.work in boxes[0].works:
            is_ = f"this run is on {kinds.bench}"
        else:
            is_ = f"{what} is {kinds.work}, on {kinds.bench}"
    more = [
        words
        for (name, where), (other, words) in _INSTEAD.items()
        if name == option and (kinds.work in where or kinds.bench in where) and (other is None or other not in given)
    ]
    *first, last = shown
    named, it = (f"{', '.join(first)} and {last} are", "them") if first else (f"{last} is", "it")
    return f"{named} for {places}; {is_}. Leave {it} out{''.join(f': {words}' for words in more)}."


# -- pairs of options, of every command -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Apart:
    """Two options that exclude each other. ``command``: None for every command that has both. A flag of two names stands by the one that is
    meant, or by both; an argument by its name in the help."""

    command: str | None
    one: str
    other: str
    words: str


@dataclass(frozen=True)
class Needs:
    """An option without effect unless one of the ``others`` stands beside it."""

    command: str
    option: str
    others: tuple[str, ...]
    words: str


_BENCH = ("--virtual", "--drive", "--rig", "--meter")
"""Options that say on which bench ``wattbell run`` works."""
_RIG_ALONE = "{one} is for a rig that taps the bus, and --meter records the rail alone. Leave one of them out."
_REMOVED = "{one} keeps data in the captures that {other} removes. Leave one of them out."
APART = (
    Apart(None, "--wide", "--json", "--wide is for tables, and --json prints none. Leave one of them out."),
    Apart("compare", "--gate", "--mixed", "--gate takes runs that differ in the firmware alone. Leave --mixed out."),
    Apart("run", "--virtual", "--drive", "Give one of --virtual PROFILE and --drive /dev/nvmeXnY."),
    Apart("run", "--rig", "--meter", "Give one of --rig and --meter: one of them records the rail."),
    Apart("run", "--store", "--no-store", "Give one of --store and --no-store."),
    Apart("run", "--plots", "--no-page", "--plots draws the charts of the page, and --no-page leaves the page out. Leave one of them out."),
    Apart("run", "--resume", "--force", "--resume goes on with what is in --out, --force removes it; give one of them."),
    Apart("run", "--keep-trace", "--discard-captures", _REMOVED),
    Apart("run", "--keep-stream", "--discard-captures", _REMOVED),
    *(
        Apart("record", option, "--meter", _RIG_ALONE)
        for option in ("--rig", "--until-marker", "--decimation", "--lba-size", "--attach", "--keep-stream")
    ),
    Apart("import", "--offset", "--align", "--offset is a way to align of its own. Leave --align out."),
    Apart("import", "--offset", "--align-u", "--offset has its own uncertainty: S,U. Leave --align-u out."),
    Apart("analyze", "--scheduler", "--workers", "A cluster has the workers it has: give --scheduler or --workers, not both."),
    Apart("check", "--repair", "--seal", "--repair mends what is damaged, --seal accepts it as it is; give one of them."),
    Apart("info", "--rig", "CAPTURE", "--rig asks a rig about itself, and a capture says which rig recorded it. Give one of them."),
    Apart(
        "calibrate",
        "--prompt",
        "--dwell",
        "--prompt asks before each point, --dwell has a source step by itself: give one of them.",
    ),
    Apart(
        "calibrate",
        "--source-ppm",
        "--reference-uncertainty",
        "--source-ppm is of the source, and --reference-uncertainty of the meters that are believed in its place: give one of them.",
    ),
    Apart("calibrate", "--keep/--no-keep", "--store/--no-store", "--store is the former name of --keep: give one of them."),
    Apart("sim start", "--rig", "--serial", "--serial is the former name of --rig: give one of them."),
    Apart("sim replay", "--qemu-log", "--bus-trace", "Give one of --qemu-log LOG and --bus-trace FILE."),
)
_POINTS = "{option} is of the points that are read, and there is none: add --point VOLTS,AMPERES or --prompt, or leave it out."
_CLOCKS = "{option} places work on the clock of the rail, and no work is imported: add --fio or --trace, or leave it out."
NEEDS = (
    *(
        Needs("compare", option, ("--gate",), "{option} is of verdicts: add --gate 1%, or leave it out.")
        for option in ("--junit", "--exit-codes")
    ),
    Needs("analyze", "--insecure", ("--scheduler",), "--insecure is of a cluster's scheduler, and there is none: leave --insecure out."),
    Needs("record", "--statistics-out", ("--statistics",), "--statistics-out needs a period: add --statistics 1s."),
    *(Needs("import", option, ("--fio", "--trace"), _CLOCKS) for option in ("--align", "--align-u", "--offset")),
    Needs("import", "--align-u", ("--align utc",), "--align-u is for --align utc; the edges of the power tell their own bound."),
    *(
        Needs("calibrate", option, ("--point", "--prompt"), _POINTS)
        for option in ("--seconds", "--settle", "--dwell", "--source-ppm", "--source-offset", "--reference-uncertainty", "--zero")
    ),
)


# -- a call -----------------------------------------------------------------------------------------------------------


def name_of(context: Any) -> str:
    """The command of a context, without the program's name: ``run``, ``export csv``."""
    names = []
    while context.parent is not None:
        names.append(context.info_name)
        context = context.parent
    return " ".join(reversed(names))


def label(param: Any) -> str:
    """The name of an option here: its first long one; of an argument, its name in the help."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    return str(next(name for name in param.opts if name.startswith("--")))


def is_given(context: Any, name: str) -> bool:
    """Whether a parameter, by its name in Python, stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _param(context: Any, spelled: str) -> Any:
    """The parameter that ``--name``, ``--no-name``, ``--name/--no-name``, ``--name VALUE`` or an argument's name means; None if the
    command has none such."""
    name = _plain(spelled)
    for param in context.command.params:
        if name in (*param.opts, *param.secondary_opts) or spelled == label(param):
            return param
    return None


def _plain(spelled: str) -> str:
    """``--name`` of ``--name``, ``--name/--no-name`` or ``--name VALUE``."""
    return spelled.partition(" ")[0].partition("/")[0]


def shown_as(context: Any, param: Any) -> str:
    """Return the name of a parameter on the command line; for a flag of two names, the name that was meant."""
    off = context.params.get(param.name) is False and param.secondary_opts
    return str(param.secondary_opts[0]) if off else label(param)


def _source(context: Any, spelled: str) -> str:
    """``COMMANDLINE`` or ``DEFAULT_MAP`` where the option has the value that is meant from there, else ""."""
    param = _param(context, spelled)
    if param is None:
        return ""
    source = context.get_parameter_source(param.name)
    value = context.params.get(param.name)
    if source is None or source.name not in ("COMMANDLINE", "DEFAULT_MAP") or value is None or value == ():
        return ""
    name, _, wanted = spelled.partition(" ")
    if wanted and spelled != label(param):
        means = str(getattr(value, "value", value)) == wanted
    elif isinstance(value, bool) and "/" not in name:
        means = value is (name in param.opts)
    else:
        means = True
    return str(source.name) if means else ""


def _forget(context: Any, spelled: str) -> None:
    """Take a value of the user's own defaults back."""
    param = _param(context, spelled)
    context.default_map = {name: value for name, value in (context.default_map or {}).items() if name != param.name}
    context.params.pop(param.name, None)
    param.handle_parse_result(context, {}, [])


def _rules(context: Any, rules: Iterable[Any]) -> Iterable[Any]:
    name = name_of(context)
    return (rule for rule in rules if rule.command is None or rule.command == name)


def _keep_apart(context: Any, among: Callable[[Apart], bool] = lambda _: True) -> None:
    """Refuse options that exclude each other. The command line wins against the user's own defaults. ``among``: the rules to apply."""
    for rule in filter(among, _rules(context, APART)):
        sources = {spelled: _source(context, spelled) for spelled in (rule.one, rule.other)}
        if not all(sources.values()):
            continue
        if set(sources.values()) == {"COMMANDLINE"}:
            raise UsageError(rule.words.format(one=rule.one, other=rule.other))
        if "COMMANDLINE" in sources.values():
            _forget(context, next(spelled for spelled, source in sources.items() if source == "DEFAULT_MAP"))


def _refuse_alone(context: Any) -> None:
    """Refuse an option that has no effect by itself."""
    for rule in _rules(context, NEEDS):
        source = _source(context, rule.option)
        if not source or any(_source(context, other) for other in rule.others):
            continue
        if source == "COMMANDLINE":
            raise UsageError(rule.words.format(option=rule.option))
        _forget(context, rule.option)


def _refuse_elsewhere(context: Any, kinds: Kinds) -> None:
    """Refuse an option of ``wattbell run`` that these kinds of work and bench have no use for."""
    given = [label(param) for param in context.command.params if is_given(context, param.name)]
    strange = {option: source for option in RUN if (source := _source(context, option)) and not fits(option, kinds)}
    refused = [option for option, source in strange.items() if source == "COMMANDLINE"]
    if refused:
        alike = [option for option in refused if RUN[option] == RUN[refused[0]]]
        shown = [option if " " in option else shown_as(context, _param(context, option)) for option in alike]
        raise UsageError(why_not(refused[0], kinds, shown, given))
    for option in strange:
        _forget(context, option)


def settle(context: Any, kinds_of: Callable[[Any], Kinds] | None = None) -> None:
    """Refuse given options that do not apply to a parsed command line; leave out the user's own defaults that do not apply.

    kinds_of: called for the kinds of work and bench of ``wattbell run``, once the bench is known

    Raises UsageError with one line.
    """
    if kinds_of is not None:
        _keep_apart(context, lambda rule: rule.one in _BENCH and rule.other in _BENCH)
        _refuse_elsewhere(context, kinds_of(context))
    _keep_apart(context)
    _refuse_alone(context)
    for rule in _rules(context, APART):
        if {_source(context, rule.one), _source(context, rule.other)} == {"DEFAULT_MAP"}:
            text = rule.words.format(one=rule.one, other=rule.other)
            raise UsageError(f"Your own defaults (`wattbell config`) contradict each other. {text}")


def settle_traits(context: Any, kinds: Kinds, traits: Mapping[Trait, bool]) -> None:
    """Refuse an option that is given and has nothing to act on in this work. ``traits``: those that are known now."""
    for option, boxes in RUN.items():
        if _source(context, option) != "COMMANDLINE":
            continue
        box = next(box for box in boxes if kinds.within(box))
        if box.trait is not None and traits.get(box.trait) is False:
            raise UsageError(f"{option} has no effect: {kinds.name} {box.trait}. Leave it out.")


def told(context: Any) -> dict[str, Any]:
    """Return the options of a call that differ from their defaults, by name: for the plan of a dry run."""
    found = {}
    for param in context.command.params:
        source = context.get_parameter_source(param.name)
        if param.param_type_name == "option" and source is not None and source.name in ("COMMANDLINE", "DEFAULT_MAP"):
            value = context.params.get(param.name)
            shown = shown_as(context, param)
            if value is not None and (value is not False or shown != label(param)):
                found[shown] = True if isinstance(value, bool) else getattr(value, "value", value)
    return found


class Checked(TyperCommand):
    """A command that refuses options that do not apply, before it does anything."""

    def kinds_of(self, context: Any) -> Kinds:
        """Kinds of work and bench. Overridden by ``wattbell run``."""
        raise NotImplementedError

    def invoke(self, ctx: Any) -> Any:
        """Invoke as Click does, after checking that the options apply."""
        settle(ctx, None if type(self).kinds_of is Checked.kinds_of else self.kinds_of)
        return super().invoke(ctx)
