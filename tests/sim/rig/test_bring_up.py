"""docs/bring-up.md against the real parts: its commands run on a virtual rig, its readings come from the netlist, and its udev
rules are applied to the USB descriptors of the gateware.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from board import bringup
from board.bringup import page, rails
from board.design import design
from board.powertree import Tree, load
from typer.main import get_command
from typer.testing import CliRunner
from wattbell.cli.app import app
from wattbell.rig import discovery
from wattbell.rig.calibration.bench import standard_points
from wattbell.rig.calibration.plan import COARSE_FROM_A, FINE_UP_TO_A
from wattbell_gateware.boards.ecp5.build import NAME, OUT
from wattbell_gateware.boards.ecp5.platform import Ecp5TapPlatform
from wattbell_gateware.boards.usb import PRODUCT, PRODUCT_ID, VENDOR_ID, descriptors

from tests.sim.rig.rig_process import ROOT, Rig
from tests.sim.rig.rig_trace import encode, end, rail

TEXT = bringup.PAGE.read_text()
RULES = ROOT / "host/wattbell/rig/70-wattbell.rules"
IDCODES = {"LFE5U-85F": "0x41113043", "LFE5UM-85F": "0x01113043", "LFE5UM5G-85F": "0x81113043"}
"""JTAG ids from openFPGALoader v1.1.1 src/part.hpp; Debian 12's 0.10.0 has the same (--list-fpga)."""
LOADER_OPTIONS = {"--cable", "--detect", "--write-flash", "--verify", "--list-cables", "--freq"}
"""Options that openFPGALoader 0.10.0 lists with --help."""


def blocks(language: str) -> list[list[str]]:
    """Return the lines of each fenced block of a language."""
    return [found.strip().splitlines() for found in re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)]


def shell(program: str) -> list[list[str]]:
    """Return the page's commands that begin with a word, without the word; also commands within a line."""
    lines = [line for block in blocks("sh") for line in block] + re.findall(r"`([^`\n]+)`", TEXT)
    return [shlex.split(line)[1:] for line in lines if re.match(rf"{re.escape(program)}(\s|$)", line)]


# ---- readings


def test_the_table_is_the_netlists() -> None:
    assert page(TEXT, Tree(design(), load())) == TEXT, "run: python -m board --write"


def test_every_test_point_of_a_rail_is_in_the_table_after_what_it_waits_for() -> None:
    tree = Tree(design(), load())
    order = [net for _, net, *_ in rails(tree)]
    points = {p.pins["1"] for p in design().parts.values() if p.symbol == "Connector:TestPoint"}
    assert set(order) == points & tree.links.keys() and len(order) == 15
    for net in order:
        for before in (tree.table["after"].get(net), tree.links[net].input):
            if before in order:
                assert order.index(before) < order.index(net)


def test_another_resistor_makes_another_page() -> None:
    from tests.hw.board.test_broken_copies import changed

    (ref,) = (p.ref for p in design().parts.values() if p.symbol == "Device:R" and set(p.pins.values()) == {"+3V3", "fb_1305"})
    assert page(TEXT, Tree(changed(ref, value="442k"), load())) != TEXT


def test_parts_that_the_page_names_exist() -> None:
    parts, nets = design().parts, design().nets
    for ref in set(re.findall(r"\b(?:TP|FB|[UDJYRC])\d{3,4}\b", TEXT)):
        assert ref in parts, ref
    for net in set(re.findall(r"`([+-]\d+V\d*[A-Z0-9_]*)`", TEXT)):
        assert net in nets or net == "-5VA", net
    for ref, net in (("D500", "led0"), ("D501", "led1"), ("D502", "led2"), ("D503", "led3"), ("D1301", "usb_1a5_n")):
        assert net in parts[ref].pins.values()
    assert {ref: parts[ref].value for ref in ("U1006", "U1007", "U1008", "U1102", "U1100")} == {
        "U1006": "AD4003",
        "U1007": "AD4003",
        "U1008": "AD4002",
        "U1102": "TPS3808G33",
        "U1100": "TPS22990",
    }
    for converter, net in (("U1006", "coarse_sdo"), ("U1007", "fine_sdo"), ("U1008", "volt_sdo")):
        assert net in parts[converter].pins.values()


def test_what_an_uncalibrated_board_reads() -> None:
    model = tomllib.loads((ROOT / "hw/afe/model.toml").read_text())
    current = 2 * math.hypot(model["common"]["offset_sigma"], model["fine"]["offset_sigma"])
    assert 0.2e-3 < current < 0.305e-3 and "the current 0 within 0.3 mA" in TEXT
    voltage = 2 * math.hypot(model["voltage"]["gain_sigma"], model["voltage"]["offset_sigma"] / 3.3)
    assert 0.3e-3 < voltage < 1e-3 and "within 0.1 %" in TEXT


def test_lights_as_the_gateware_drives_them() -> None:
    source = (ROOT / "gateware/wattbell_gateware/boards/tap.py").read_text()
    assert "enumerate((1, aligned[0], aligned[1], lost))" in source, "docs/bring-up.md says what the four lights mean"


# ---- programs


def test_the_part_and_its_idcode() -> None:
    (fitted,) = {p.value for p in design().parts.values() if p.value.startswith("LFE5")}
    assert fitted.startswith(Ecp5TapPlatform.device + "-")
    assert f"must say **{IDCODES[Ecp5TapPlatform.device]}**" in TEXT
    told = set(re.findall(r"0x[0-9a-fA-F]{8}\b", TEXT)) - {"0xFFFFFFFF"}
    assert told <= set(IDCODES.values())


def test_the_loader_and_others() -> None:
    commands = shell("openFPGALoader")
    assert len(commands) >= 4
    for words in commands:
        assert {word for word in words if word.startswith("-")} <= LOADER_OPTIONS
        assert not [word for word in words if word.endswith(".bit") and word != "build/bitstream/tap.bit"]
    assert ["--cable", "ft2232", "build/bitstream/tap.bit"] in commands
    assert f"{OUT}/{NAME}.bit" == "bitstream/tap.bit"
    targets = (ROOT / "Makefile").read_text()
    for words in shell("make"):
        assert re.search(rf"^{words[0]}:", targets, re.MULTILINE), words
    assert [words for words in shell("lsusb") if words] == [["-d", f"{VENDOR_ID:04x}:{PRODUCT_ID:04x}"]]


def test_every_command_line_is_one() -> None:
    """The real parser takes every command, including those that do not run below."""
    commands = [words for words in shell("wattbell") if words]
    assert {words[0] for words in commands} >= {"rigs", "info", "bridge", "record", "check", "analyze", "report", "calibrate"}
    group = get_command(app)
    for words in commands:
        name, command, rest = group.resolve_command(group.make_context("wattbell", list(words)), list(words))  # type: ignore[attr-defined]
        command.make_context(name, list(rest), resilient_parsing=False)


def test_points_of_the_calibration() -> None:
    """The page gives no points, so the tool's own count: within the scale and the load switch's supply, two for each path."""
    (words,) = (words for words in shell("wattbell") if "--prompt" in words)
    assert "--point" not in words
    points = [(point.voltage, point.current) for point in standard_points(True)]
    least = load()["load"]["tps22990"]["VBIAS"]["low"]
    assert least == 2.5 and all(least < volts < 5.0 for volts, _ in points)
    assert sum(amps <= FINE_UP_TO_A for _, amps in points) >= 2 and sum(amps >= COARSE_FROM_A for _, amps in points) >= 2


# ---- the virtual rig


@pytest.fixture
def one(rig: type[Rig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Rig:
    """Start a board fresh from assembly (or calibrated, by parameter), with 3.3 V at the edge and nothing in the connector."""
    monkeypatch.setenv("WATTBELL_RUNTIME", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "supply.wbt"
    trace.write_bytes(encode([rail(0, 3.3, 0.0), end(120e6)]))
    model = ROOT / "hw/afe/model.toml"
    return rig(trace, "--afe", model, "--seed", 3, "--fidelity", "fast", *getattr(request, "param", ("--calibration", "none")), ports=False)


def test_what_is_typed_to_the_controller(one: Rig) -> None:
    """Each line gives the answer that the page states, or none and no error."""
    one.send("SENS:APER 1E-3")  # a second of this rig takes longer than a real second
    asked = 0
    for line in (line for block in blocks("scpi") for line in block):
        command, arrow, wanted = (part.strip() for part in line.partition("->"))
        assert bool(arrow) == ("?" in command), line
        if arrow:
            answer = one.ask(command)
            assert re.fullmatch(wanted, answer), (command, answer)
            asked += 1
        else:
            one.send(command)
            assert one.ask("SYST:ERR?") == '0,"No error"', command
    assert asked >= 15


def test_refused_without_perst_as_the_page_says(one: Rig) -> None:
    one.send("OUTP OFF;*WAI;:INIT;:DIAG:LOAD COAR,20")
    assert one.ask("SYST:ERR?").startswith("-221,")


def test_delay_comes_behind_the_points(one: Rig) -> None:
    one.control.close()
    done = CliRunner().invoke(app, ["calibrate", "--delay"])
    assert "-221" in str(done.exception) and "`--delay` ends with -221" in TEXT


@pytest.mark.parametrize("one", [()], indirect=True)
def test_what_is_typed_in_a_shell(one: Rig) -> None:
    """The commands run in the page's order, unchanged except for the ten seconds. The prompted calibration needs a person
    (test_calibrate_prompted.py).
    """
    one.control.close()
    lines = [shlex.split(line)[1:] for block in blocks("sh") for line in block if line.startswith("wattbell ")]
    left = [words for words in lines if words[0] != "bridge" and "--prompt" not in words]
    assert [words[0] for words in left] == ["rigs", "info", "calibrate", "info", "record", "info", "check", "analyze", "report"]
    for words in [[word if word != "10" else "0.02" for word in words] for words in left]:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output, done.exception)
    assert Path("first.html").is_file()
    assert "VR0003" in CliRunner().invoke(app, ["rigs"]).output


# ---- udev


MATCHES = {"SUBSYSTEM", "ENV", "ATTR", "ATTRS", "ACTION", "KERNEL"}
SETS = {"GROUP", "MODE", "TAG", "ENV", "SYMLINK", "GOTO", "LABEL"}


def parsed(text: str) -> list[list[tuple[str, str, str, str]]]:
    """Return (key, attribute, operator, value) of each line, by the grammar of udev(7)."""
    lines = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        tokens = []
        for token in line.split(", "):
            found = re.fullmatch(r'([A-Z]+)(?:\{(\w+)\})?(==|!=|\+=|=)"([^"]*)"', token)
            assert found, f"not a rule: {token}"
            key, attribute, operator, value = found.groups(default="")
            assert key in (MATCHES if operator in ("==", "!=") else SETS), token
            tokens.append((key, attribute, operator, value))
        lines.append(tokens)
    return lines


def applied(text: str, subsystem: str, device: dict[str, str], interface: str = "") -> dict[str, str]:
    """Return the settings of the rules for a node of a USB device: its own attributes for ``usb``, its parent's for ``tty``."""
    found: dict[str, str] = {}
    environment = {"ID_USB_INTERFACE_NUM": interface, "DEVTYPE": "usb_device" if subsystem == "usb" else ""}
    skipped = ""
    for tokens in parsed(text):
        if skipped:
            skipped = "" if ("LABEL", "", "=", skipped) in tokens else skipped
            continue
        for key, attribute, operator, value in tokens:
            if operator in ("==", "!="):
                own = subsystem == "usb"
                seen = {
                    "SUBSYSTEM": subsystem,
                    "ENV": environment.get(attribute, ""),
                    "ATTR": device.get(attribute, "") if own else "",
                    "ATTRS": device.get(attribute, ""),
                }[key]
                if (seen == value) != (operator == "=="):
                    break
            elif key == "ENV":
                environment[attribute] = found[attribute] = value
            elif key == "GOTO":
                skipped = value
            elif key != "LABEL":
                found[key] = value
    return found


def plugged_in() -> tuple[dict[str, str], list[str]]:
    """Return the gateware's device as sysfs shows it, and the numbers of the interfaces that become serial ports in the kernel."""
    raw = {(kind, index): bytes(data) for kind, index, data in descriptors("ECP5-0001")}
    device = raw[1, 0]
    texts = {index: data[2:].decode("utf-16-le") for (kind, index), data in raw.items() if kind == 3 and index}
    numbers, configuration, at = [], raw[2, 0], 0
    while at < len(configuration):
        length, kind = configuration[at], configuration[at + 1]
        if kind == 4 and configuration[at + 5 : at + 7] == b"\x02\x02":  # an interface of CDC-ACM
            numbers.append(f"{configuration[at + 2]:02d}")
        at += length
    about = {"idVendor": f"{device[8] | device[9] << 8:04x}", "idProduct": f"{device[10] | device[11] << 8:04x}"}
    return about | {"product": texts[device[15]], "serial": texts[device[16]]}, numbers


def test_the_rules_fit_the_gatewares_device() -> None:
    text = RULES.read_text()
    device, ports = plugged_in()
    assert device["product"] == PRODUCT == discovery.PRODUCT and ports == ["00", "02"]
    assert applied(text, "usb", device) == {"ID_MM_DEVICE_IGNORE": "1"}
    for number, name in zip(ports, ("wattbell-data", "wattbell-control"), strict=True):
        found = applied(text, "tty", device, number)
        assert (found["GROUP"], found["MODE"], found["TAG"], found["SYMLINK"]) == ("dialout", "0660", "uaccess", name)
        assert found["ID_MM_PORT_IGNORE"] == "1" and f"`/dev/{name}`" in TEXT
    assert re.search(r"interface 0 is the data \(`/dev/wattbell-data`\), interface 2 the control", TEXT)


@pytest.mark.parametrize("change", [{"product": "Another test"}, {"idProduct": "0002"}, {"idVendor": "0403"}])
def test_the_rules_leave_others_alone(change: dict[str, str]) -> None:
    device, ports = plugged_in()
    for node in ("usb", "tty"):
        assert not applied(RULES.read_text(), node, device | change, ports[0])
    assert applied(RULES.read_text(), "net", device, ports[0]) == {}


def test_the_rules_ship_and_come_in_time(tmp_path: Path) -> None:
    """The rules sort after those that find the interface's number and before those that read the tag, and are found as the page
    says.
    """
    assert "60-serial.rules" < RULES.name < "73-seat-late.rules"
    ((snippet,),) = [re.findall(r"python -c '([^']+)'", line) for block in blocks("sh") for line in block if "python -c" in line]
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert Path(done.stdout.strip()) == RULES
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["wattbell"]
    assert any(RULES.relative_to(ROOT / "host/wattbell").match(pattern) for pattern in packaged)
    udevadm = shutil.which("udevadm")
    if udevadm and "verify" in subprocess.run([udevadm, "--help"], capture_output=True, text=True, check=False).stdout:
        subprocess.run([udevadm, "verify", RULES], check=True)  # from systemd 254 on; Debian 12 has 252
