"""In which order the simulator's parts are looked up."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import wattbell
from wattbell.errors import SimError
from wattbell.virtual import simulator


class Places:
    """A checkout, a wheel, a folder of programs and one on PATH, all below `root` and empty."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checkout, self.site, self.given, self.path = (root / name for name in ("checkout", "site", "given", "path"))
        for folder in (self.checkout, self.site, self.given, self.path):
            folder.mkdir()
        monkeypatch.setattr(simulator, "_CHECKOUT", self.checkout)
        monkeypatch.setattr(sys, "path", [str(self.site), *sys.path])
        monkeypatch.setenv("PATH", str(self.path))
        for name in ("WATTBELL_SIM_BIN", "WATTBELL_PROFILES"):
            monkeypatch.delenv(name, raising=False)

    @property
    def wheel(self) -> Path:
        return self.site / "wattbell_sim"

    def install(self, version: str = wattbell.__version__) -> None:
        for file in ("__init__.py", "bin/prog", "profiles/a.toml", "plans/p.toml"):
            put(self.wheel / file)
        put(
            self.site / f"wattbell_sim-{version}.dist-info" / "METADATA", f"Metadata-Version: 2.4\nName: wattbell_sim\nVersion: {version}\n"
        )
        simulator._wheel.cache_clear()

    def check_out(self) -> None:
        for file in ("sim/Cargo.toml", "sim/profiles/b.toml", "sim/plans/p.toml"):
            put(self.checkout / file)


def put(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    simulator._wheel.cache_clear()
    yield Places(tmp_path, monkeypatch)
    simulator._wheel.cache_clear()


def test_programs(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SimError, match=r"no simulator .* wattbell_sim-.*\.whl.* `make sim rtl`"):
        simulator.find_program("prog")
    on_path = put(places.path / "prog")
    assert simulator.find_program("prog") == on_path
    places.install()
    assert simulator.find_program("prog") == places.wheel / "bin" / "prog"
    built = put(places.checkout / "sim" / "target" / "release" / "prog")
    assert simulator.find_program("prog") == built
    monkeypatch.setenv("WATTBELL_SIM_BIN", str(places.given))
    with pytest.raises(SimError, match="WATTBELL_SIM_BIN"):
        simulator.find_program("prog")
    assert simulator.find_program(put(places.given / "prog").name) == places.given / "prog"


def test_in_a_checkout_without_programs_make_is_named(places: Places) -> None:
    places.check_out()
    assert simulator.without_simulator() == ""
    with pytest.raises(SimError, match="run `make sim` in the checkout"):
        simulator.find_program("prog")


def test_profiles_and_plans(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert simulator.profile_files() == [] and simulator.find_plan("p.toml") == Path("p.toml")
    places.install()
    assert [file.stem for file in simulator.profile_files()] == ["a"] and simulator.find_plan("p.toml") == places.wheel / "plans" / "p.toml"
    places.check_out()
    assert [file.stem for file in simulator.profile_files()] == ["b"]
    assert simulator.find_plan("p.toml") == places.checkout / "sim" / "plans" / "p.toml"
    monkeypatch.setenv("WATTBELL_PROFILES", str(put(places.given / "c.toml").parent))
    assert [file.stem for file in simulator.profile_files()] == ["c"]
    put(tmp_path / "p.toml")
    assert simulator.find_plan("p.toml") == Path("p.toml")
    for name in ("elsewhere/p.toml", "quick", os.fspath(tmp_path / "q.toml")):
        assert simulator.find_plan(name) == Path(name)


def test_a_wheel_of_another_version_is_refused_where_it_would_be_used(places: Places) -> None:
    places.install("9.9")
    for use in (lambda: simulator.find_program("prog"), simulator.profiles_dir, lambda: simulator.find_plan("p.toml")):
        with pytest.raises(SimError, match=r"version 9\.9 \(wattbell_sim\).*the two wheels of one version"):
            use()
    places.check_out()
    assert simulator.find_program(put(places.checkout / "sim/target/release/prog").name).is_file()


def test_a_folder_that_is_only_called_so_is_no_wheel(places: Places) -> None:
    put(places.site / "wattbell_sim" / "bin" / "prog")
    simulator._wheel.cache_clear()
    with pytest.raises(SimError, match="no simulator"):
        simulator.find_program("prog")
