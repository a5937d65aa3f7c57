# Wattbell. Two commands matter: `make demo` and `make test`. Both set up what they need (Debian 12, root or sudo).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH)
PY := .venv/bin/python
# without make's job server, which only sub-makes may use
CARGO := MAKEFLAGS= cargo --config net.retry=5
OUT ?= build/demo
# what is set up and built: `dev` all that tests need, `run` what the demo needs
LEVEL ?= dev
only_run = $(if $(filter run,$(LEVEL)),$(1))

.PHONY: help setup sim controller rtl verilog litex rtl-all rtl-tests wheels wheels-check guest openhtf demo test long bare test-python test-rust lint lint-rtl lint-javascript docs box bench-page compare formal tap alignments gates load false-calls firmware-gate verdicts tracker bitstream kintex7 afe board board-files calibrate firmware firmware-core fuzz seeds-check reference bench energy traffic soak requirements mutants clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

.PHONY: debian
debian:
	@tools/setup.sh $(LEVEL) debian

setup: debian  ## Debian packages, Python packages, Verilator
	@tools/setup.sh $(LEVEL)

# Two programs of the whole workspace: with other features of its crates, the next target would build them again.
sim: debian  ## SSD model, virtual rig and guest tools (Rust, release)
	@cd sim && $(CARGO) build --release --quiet $(call only_run,--workspace --bin wattbell-ssd --bin wattbell-rig)
	@$(if $(filter run,$(LEVEL)),,cd sim && $(CARGO) build --release --quiet -p wattbell-bus --examples)

controller: setup firmware  ## the controller Verilated for the virtual rig, and its firmware: all that fast fidelity needs
	@$(PY) -m wattbell_gateware.generate --out build/rtl --variant controller
	@sim/rig/build-rtl.sh controller
	@cmp -s build/firmware/firmware.bin build/rtl/firmware.bin || cp build/firmware/firmware.bin build/rtl/

# The demo's is built soon rather than fast: 64 s less, for 22 s more in its run. Any other target builds the fast one.
rtl: setup controller  ## the gateware as Verilog, and Verilated for the virtual rig
	@$(PY) -m wattbell_gateware.generate --out build/rtl $(call only_run,--variant instrument_x4_word)
	@sim/rig/build-rtl.sh $(call only_run,--quick) x4_word

verilog: setup  ## the tap as Verilog for other designs, in build/tap: docs/tap-in-a-design.md
	@$(PY) -m wattbell_gateware.tap --out build/tap

rtl-all: rtl  ## the same with the ADC's serial pins simulated as well (benchmarks compare the two)
	@sim/rig/build-rtl.sh all

rtl-tests: setup controller  ## the same, built soon rather than fast, for the tests
	@$(PY) -m wattbell_gateware.generate --out build/rtl
	@sim/rig/build-rtl.sh --quick x4_word x4_serial

litex: setup  ## examples/litex: the tap behind LitePCIe's PHY, simulated with LiteX in an environment of its own (docs/tap-in-a-design.md)
	@tools/setup-beside.sh litex
	@PATH="$(CURDIR)/.venv/bin:$$PATH" build/litex/bin/python examples/litex/run.py

wheels: setup sim rtl  ## the wheels of docs/install.md and docs/ssd-in-a-design.md in build/wheels; tools/try-wheels.sh tries them
	@$(PY) -m tools.wheels

wheels-check: wheels  ## the wheels installed and used where neither a compiler nor the checkout is to be seen
	@tools/try-wheels.sh

guest: setup sim  ## QEMU, a Linux kernel, fio and nvme-cli, unpacked into build/guest (nothing is installed)
	@sim/guest/fetch.sh

openhtf: setup  ## OpenHTF in an environment of its own, build/openhtf: it wants another tornado than the tests (docs/adapters.md)
	@tools/setup-beside.sh openhtf

.PHONY: demo-takes
demo-takes:
	@if [ -f build/rtl/lib_x4_word.so ] && [ -x sim/target/release/wattbell-rig ]; then \
	  echo "demo: about 1 minute on two cores (more where something is to be built again)"; \
	else echo "demo: about 4 minutes on two cores: packages and builds take 3, once; the measurement takes less than 1"; fi

# Cargo builds while pip downloads.
demo: demo-takes  ## virtual rig, Intel 660p, short suite, report
	@$(MAKE) --no-print-directory -j2 LEVEL=run sim rtl
	@.venv/bin/wattbell run sim/plans/demo.toml --virtual intel-660p-1tb --out $(OUT)/capture --force
	@.venv/bin/wattbell report $(OUT)/capture --out $(OUT)/report.html

test:  ## everything CI runs
	@$(MAKE) --no-print-directory -j2 sim rtl-tests guest openhtf
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint test-rust
	@$(MAKE) --no-print-directory test-python

long: setup sim rtl-tests guest  ## the tests marked `long`, which `make test` leaves out for time: a drive's bench in a guest, slow builds (20 minutes)
	@$(PY) -m pytest -n 2 -m long --dist loadgroup --no-loadscope-reorder

bare:  ## demo, test, a short soak and wheels as a newcomer runs them, in a bare Debian 12 root: all that CI runs (36 minutes; root; BARE="--load 2")
	@python3 tools/bare.py $(BARE)

test-rust: setup
	@cd sim && $(CARGO) test --release --quiet

test-python: setup sim rtl-tests guest openhtf
	@$(PY) -m pytest -n 3 -m "not long" --dist loadgroup --no-loadscope-reorder --durations 40 --durations-min 10

lint: setup lint-rtl lint-javascript  ## ruff (rules and format), mypy --strict, import contracts, kept faults still in place, commit messages, clippy, rustfmt, Verilator -Wall, ESLint, tsc
	@.venv/bin/ruff check . && .venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy
	@MYPYPATH=spec:host:gateware:hw .venv/bin/mypy --follow-imports silent --ignore-missing-imports -p board
	@.venv/bin/lint-imports --no-logo --no-cache
	@$(PY) tools/mutants.py --check
	@$(PY) tools/commit_messages.py
	@cd sim && $(CARGO) fmt --check && $(CARGO) clippy --release --all-targets --quiet -- -D warnings

lint-rtl: setup
	@$(PY) -m wattbell_gateware.generate --out build/rtl
	@tools/lint-rtl.sh

lint-javascript: setup
	@tools/lint-javascript.sh

docs: setup  ## the pages as a site with search, all commands and the Python API: build/docs/index.html; any warning is an error (half a minute)
	@$(PY) -m tools.docsite

box: setup sim controller guest  ## quick by real Linux in one guest, over a rig without a tap; and as one with a tap sees it (minutes)
	@$(PY) -m pytest -q tests/slow/test_bench_in_a_box.py

bench-page: setup sim controller guest  ## docs/bench.md typed line by line on real Linux in one guest, with the virtual rig for a meter (minutes)
	@$(PY) -m pytest -q -s tests/slow/test_bench_page.py

compare: setup sim rtl  ## the demo's trace, and ten drawn for the day, through the gateware and through the fast instrument: every byte (minutes)
	@mkdir -p build
	@sim/target/release/wattbell-ssd run --profile intel-660p-1tb --plan sim/plans/demo.toml --trace build/demo.wbt >/dev/null
	@sim/target/release/wattbell-rig compare build/demo.wbt
	@$(PY) -m pytest -q tests/sim/rig/test_day.py

formal: setup  ## every proof, the long ones too (minutes)
	@WATTBELL_FORMAL=all $(PY) -m pytest -q --timeout 3600 tests/gateware/formal

tap: setup  ## the tap of lanes over a million packets with bit errors, replays, retraining, at every width and speed (20 minutes)
	@WATTBELL_TAP_TLPS=$${TLPS:-1000000} $(PY) -m pytest -q -n 2 tests/slow/test_lanes.py
	@WATTBELL_TAP_TLPS=$${RANDOM_TLPS:-20000} $(PY) -m pytest -q -n 2 tests/slow/test_tap.py

alignments: setup sim rtl  ## a hundred random offsets and drifts of a Joulescope-like recording against fio's JSON (minutes; ALIGNMENTS=100)
	@WATTBELL_ALIGNMENTS=$${ALIGNMENTS:-100} $(PY) -m pytest -q -s tests/slow/test_alignments.py

gates: setup sim rtl  ## the instrument as the ECP5's gates gives the RTL's bytes on Linux traces, and a faulty LUT does not (an hour of a core; FAULTS=16)
	@WATTBELL_GATES=$${FAULTS:-16} $(PY) -m pytest -q -s tests/slow/test_gates.py

load: setup  ## how many commands a second the gateware takes before it loses one, with the stream at 42 MB/s and without a limit
	@$(PY) -m tests.bench.load

tracker: setup  ## the tracker alone on the ECP5: cells, and the clock it closes at (half an hour; with NEXTPNR=a native nextpnr-ecp5, minutes)
	@$(PY) -m studies.tracker_alone $(if $(NEXTPNR),--nextpnr $(NEXTPNR))

bitstream: setup  ## the ECP5 build: synthesis, three placements, the .bit and the table of docs/bitstream.md (hours; with NEXTPNR=a native nextpnr-ecp5, an hour)
	@tools/install.sh board
	@$(PY) -m wattbell_gateware.build --board ecp5 --seeds 1,3,5 --docs $(if $(NEXTPNR),--nextpnr $(NEXTPNR))

kintex7: setup  ## the 8 GT/s x4 target: a Vivado project in build/kintex7, and what it takes by Yosys' mapping (half an hour): docs/target-8gt.md
	@tools/install.sh board
	@$(PY) -m wattbell_gateware.build --board kintex7 --resources --docs

board: setup  ## the board: KiCad's files, and every check of them (KiCad in a root of its own, 2 GB, made once)
	@PYTHONPATH=hw:gateware:spec:host tools/kicad.sh true
	@PYTHONPATH=hw:gateware:spec:host $(PY) -m board

board-files: setup  ## what a fab and an assembler get, in build/board-files: gerbers, drills, netlist, places, BOM, drawings, STEP, renders
	@PYTHONPATH=hw:gateware:spec:host tools/kicad.sh true
	@PYTHONPATH=hw:gateware:spec:host $(PY) -m board.production

afe: setup  ## the analog front end's ngspice decks against formulas, and hw/afe/model.toml against both (`--docs` writes it: docs/front-end.md)
	@PYTHONPATH=hw:spec:host $(PY) -m afe --quick

firmware: setup  ## the controller's firmware for its soft core: build/firmware
	@$(MAKE) --no-print-directory -C firmware

firmware-core: setup  ## the firmware's tests on its soft core in Verilator, and 10 000 bad lines (20 minutes)
	@WATTBELL_FIRMWARE=core WATTBELL_LINES=10000 $(PY) -m pytest -q tests/firmware

calibrate: setup sim controller  ## `wattbell calibrate` on 200 random boards of the virtual rig (half an hour): the histogram of docs/accuracy.md
	@mkdir -p build/calibrate && rm -f build/calibrate/boards.jsonl
	@status=0; WATTBELL_BOARDS=$${BOARDS:-200} WATTBELL_BOARDS_FILE=$(CURDIR)/build/calibrate/boards.jsonl \
	  $(PY) -m pytest -q tests/sim/rig/test_calibrate.py -k goals || status=$$?; \
	  $(PY) tools/boards_page.py build/calibrate/boards.jsonl && exit $$status

fuzz: setup  ## a million lines into the firmware's parser, natively, with sanitizers (clang; an hour)
	@command -v clang >/dev/null || { echo "fuzz: error: clang is missing: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }
	@$(MAKE) --no-print-directory -C firmware fuzz RUNS=70000

seeds-check: setup sim controller  ## every quantitative statement of the seed reviews, unscaled, on the models (an hour): docs/seeds-check.md
	@$(PY) -m studies.seeds.runs

reference: setup sim controller  ## the suite `quick` on every modelled drive: what a page of one drive is drawn among (minutes)
	@$(PY) tools/reference.py

.PHONY: picture
picture: setup  ## README's picture of power against rate, out of the reference set; fails where its names overlap
	@$(PY) -m tools.power_picture

energy: setup sim  ## 200 random workloads on models of all drives: do the intervals of energy per class of command hold the truth? 60 for power states: are they found, do the probabilities hold? (20 minutes of a core; WORKLOADS=20): docs/energy.md
	@$(PY) -m studies.energy_coverage --workloads $${WORKLOADS:-200} --check
	@$(PY) -m studies.energy_coverage --kinds $${KINDS:-5} --first 3001 --check
	@$(PY) -m studies.energy_alone --workloads $${WORKLOADS:-50} --first 401 --check
	@$(PY) -m studies.state_coverage --workloads $${WORKLOADS:-60} --check

traffic: setup sim rtl-all  ## random legal hosts and drives: 10 million commands on the fast twin, 200 000 on the gateware (hours; COMMANDS=100000 RTL=2000; goes on where it ended): docs/testing.md
	@$(PY) -m tests.traffic --commands $${COMMANDS:-10000000} --size 3000 --jobs $$(nproc) --record build/traffic
	@$(PY) -m tests.traffic --commands $${RTL:-200000} --size 300 --jobs $$(nproc) --fidelity rtl --record build/traffic

false-calls: setup sim controller  ## 100 pairs of equal models: how often does compare call them different, and does it see 1 %? (20 minutes; PAIRS=10): docs/results.md
	@$(PY) -m studies.false_calls --pairs $${PAIRS:-100} --check $(FALSE_CALLS)

firmware-gate: setup sim controller  ## pairs of firmwares on drive models: whom does `compare --gate` accuse, and what does it find? (an hour; SAMPLES=10; goes on where it ended): docs/regressions.md
	@$(PY) -m studies.firmware_gate --samples $${SAMPLES:-100} --check $(FIRMWARE_GATE)

verdicts: setup sim controller  ## 200 drives with one fault each, and 200 good ones: does `judge` find the faults, and whom does it accuse? (six minutes; DRIVES=20; goes on where it ended): docs/verdicts-study.md
	@$(PY) -m studies.verdicts --drives $${DRIVES:-200} --good $${DRIVES:-200} --check $(VERDICTS)

soak: setup sim rtl-tests  ## 100 000 faults on the line, every fault of a recorder and its host, attacks, 100 GB, fuzzing (hours; SOAK=--short: four minutes, in CI): docs/reliability.md
	@$(PY) -m tools.soak $(SOAK)

requirements: setup  ## requirements/*.txt: the version of every Python package, and the hash of every file of it (REQUIREMENTS=--upgrade: the newest)
	@tools/install.sh requirements
	@$(PY) -m tools.requirements $(REQUIREMENTS)

mutants: setup  ## single faults put into the code, in a clone: which of them a test notices (many hours; MUTANTS="--sample 200 --minutes 60"): docs/testing.md
	@tools/install.sh mutants
	@test -x build/cargo-tools/bin/cargo-mutants || cargo install --quiet --locked --root build/cargo-tools cargo-mutants@27.1.0
	@$(PY) tools/mutants.py --docs $(MUTANTS)

bench: setup sim rtl-all  ## speed, as ratios
	@$(PY) -m tests.bench.run

clean:  ## removes what was built (not the set-up)
	rm -rf build/rtl build/demo sim/target
