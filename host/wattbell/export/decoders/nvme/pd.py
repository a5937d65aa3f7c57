# mypy: ignore-errors
import sigrokdecode as srd

DOORBELL, CQE, FETCH, DATA, CLKREQ, PERST, LINK0, LINK1, LINK2, BUSY = range(10)
ORIGIN = range(10, 16)
# ORIGIN beside a CQE strobe (host/wattbell/export/sigrok.py): the doorbell lies before the first sample; is not known; or was the latest
# doorbell strobe with this number, counted from 1 to 62 and again
BEFORE, UNKNOWN = 0, 63
# Value of an unconnected channel. has_channel() says the same, but makes libsigrokdecode 0.5.3 abort at the end in some cases (bug 1671).
NOT_CONNECTED = 0xFF
(
    ANN_COMMAND,
    ANN_ASSUMED,
    ANN_UNTIMED,
    ANN_SUBMIT,
    ANN_ACCESS,
    ANN_TRANSFER,
    ANN_COMPLETE,
    ANN_LINK,
    ANN_CLKREQ,
    ANN_RESET,
    ANN_WARNING,
) = range(11)
# LinkState of docs/wire-format.md
LINK_STATES = ("unknown", "L0", "L0s", "L1", "L1.1", "L1.2", "Recovery", "Detect")


class Command:
    def __init__(self, doorbell, fetch):
        self.doorbell, self.fetch = doorbell, fetch
        self.data_first = self.data_last = None


class Decoder(srd.Decoder):
    api_version = 3
    id = "nvme"
    name = "NVMe"
    longname = "NVMe command phases"
    desc = "Doorbell, fetch, data and completion of NVMe commands."
    license = "apache-2.0"
    inputs = ["logic"]
    outputs = []
    tags = ["PC", "Debug/trace"]
    channels = (
        {"id": "doorbell", "name": "DOORBELL", "desc": "Strobe: SQ tail doorbell"},
        {"id": "cqe", "name": "CQE", "desc": "Strobe: completion queue entry"},
    )
    optional_channels = (
        {"id": "fetch", "name": "FETCH", "desc": "Strobe: the drive reads a command"},
        {"id": "data", "name": "DATA", "desc": "High from a command's first data to its last"},
        {"id": "clkreq", "name": "CLKREQ#", "desc": "Sideband"},
        {"id": "perst", "name": "PERST#", "desc": "Sideband"},
        {"id": "link0", "name": "LINK0", "desc": "LinkState, bit 0"},
        {"id": "link1", "name": "LINK1", "desc": "LinkState, bit 1"},
        {"id": "link2", "name": "LINK2", "desc": "LinkState, bit 2"},
        {"id": "busy", "name": "BUSY", "desc": "High while a command is in flight"},
        *({"id": f"origin{k}", "name": f"ORIGIN{k}", "desc": f"Doorbell of what completes, bit {k}"} for k in range(len(ORIGIN))),
    )
    options = (
        {
            "id": "in_flight",
            "desc": "What you know of the load, without ORIGIN",
            "default": "unknown",
            "values": ("unknown", "one", "in-order"),
        },
    )
    annotations = (
        ("command", "Command"),
        ("assumed", "Command, order assumed"),
        ("untimed", "Completion without a latency"),
        ("submit", "Doorbell to fetch"),
        ("access", "Fetch to data or completion"),
        ("transfer", "Data"),
        ("complete", "Data to completion"),
        ("link", "Link state"),
        ("clkreq", "CLKREQ# released"),
        ("reset", "PERST# asserted"),
        ("warning", "Warning"),
    )
    annotation_rows = (
        ("commands", "Commands", (ANN_COMMAND, ANN_ASSUMED, ANN_UNTIMED)),
        ("phases", "Phases", (ANN_SUBMIT, ANN_ACCESS, ANN_TRANSFER, ANN_COMPLETE)),
        ("link-states", "Link", (ANN_LINK,)),
        ("sidebands", "Sidebands", (ANN_CLKREQ, ANN_RESET)),
        ("warnings", "Warnings", (ANN_WARNING,)),
    )

    def __init__(self):
        self.reset()

    def reset(self):
        self.rate = None
        self.bells = []  # doorbells of commands that have not been fetched
        self.last_bell = None
        self.numbered = {}  # sample of the latest doorbell strobe of each number
        self.count = 0
        self.flying = []  # commands in order of fetch
        self.busy = None  # BUSY, or its substitute, at the previous sample
        self.known = False  # whether a sample with nothing in flight was seen
        self.single = False  # the strobes since nothing was last in flight can belong to one command only
        self.data_was = 0
        self.since = {}  # start sample of each level
        self.link = None

    def metadata(self, key, value):
        if key == srd.SRD_CONF_SAMPLERATE:
            self.rate = value

    def start(self):
        self.out_ann = self.register(srd.OUTPUT_ANN)
        self.one_at_a_time = self.options["in_flight"] == "one"
        self.in_order = self.options["in_flight"] == "in-order"

    def decode(self):
        pins = self.wait({"skip": 0})
        self.there = {k for k, pin in enumerate(pins) if pin != NOT_CONNECTED}
        edges = sorted(self.there & {DATA, CLKREQ, PERST, LINK0, LINK1, LINK2, BUSY})
        strobes = sorted(self.there & {DOORBELL, FETCH, CQE})
        self.has_origin = self.there >= set(ORIGIN)
        self.levels(pins)
        self.data_was = pins[DATA] if DATA in self.there else 0
        if BUSY in self.there and pins[BUSY]:
            rest = "" if self.has_origin else ": no latency before BUSY has been low"
            self.warn("commands are in flight at the first sample" + rest)
        something = [{k: "h"} for k in strobes] + [{k: "e"} for k in edges]
        while True:
            high = any(pins[k] for k in strobes)
            if high or self.there & {DATA, BUSY}:
                self.sample(pins)
            # a level still matches at the sample where it matched: skip one sample past a strobe
            pins = self.wait({"skip": 1} if high else something)
            self.levels(pins)

    def sample(self, pins):
        """One sample, in the order in which things can happen within it.

        Strobes carry no command identifier, and whatever was in flight before the first sample left none. So, without ORIGIN, a time is
        exact only for a command that began when nothing was in flight, with one doorbell, at most one fetch, and one completion until
        nothing is again.
        """
        bell, fetch, cqe = (k in self.there and bool(pins[k]) for k in (DOORBELL, FETCH, CQE))
        if bell:
            self.numbered[self.count % (UNKNOWN - 1) + 1] = self.samplenum
            self.count += 1
        if self.one_at_a_time and self.busy and bell and cqe:
            # one at a time: the previous command ends here
            self.step(pins, False, False, True)
            cqe = False
        self.step(pins, bell, fetch, cqe)

    def step(self, pins, bell, fetch, cqe):
        busy = self.level_of_busy(pins, bell, fetch, cqe)
        ignored = BUSY in self.there and not busy and not self.busy and not cqe
        if ignored:
            # not a command that BUSY counts: an Asynchronous Event Request stays in the drive indefinitely
            bell = fetch = False
        if busy and self.busy == 0:
            self.single = bell and not cqe
        elif bell or (cqe and busy != 0):
            self.single = False
        if BUSY not in self.there or self.known:
            self.follow(pins, bell, fetch)
        if cqe:
            self.complete(pins)
        if busy == 0:
            self.known = True
            self.bells, self.flying, self.single = [], [], False
        self.busy = busy

    def level_of_busy(self, pins, bell, fetch, cqe):
        """Whether a command is in flight at the end of this sample: 0, 1, or None if unknown."""
        if BUSY in self.there:
            return pins[BUSY]
        if not self.one_at_a_time:
            return None
        if (bell and self.busy) or (cqe and self.busy == 0 and not bell) or (fetch and self.flying):
            self.warn("more than one command is in flight: from here on there are no latencies")
            self.one_at_a_time = self.known = False
            return None
        if bell and not cqe:
            self.busy = 0  # valid before the first command too
            return 1
        return 0 if cqe else self.busy

    def follow(self, pins, bell, fetch):
        """Follow a begin at this sample, and its data."""
        if bell:
            self.last_bell = self.samplenum
            if FETCH in self.there:
                self.bells.append(self.samplenum)
            else:
                self.flying.append(Command(self.samplenum, None))
        if fetch:
            if self.flying:
                self.single = False
            if self.bells or self.last_bell is not None:
                # a doorbell may announce several commands: later ones take the latest doorbell
                self.flying.append(Command(self.bells.pop(0) if self.bells else self.last_bell, self.samplenum))
        if DATA in self.there:
            self.data(pins[DATA])

    def data(self, level):
        if level == self.data_was:
            return
        self.data_was = level
        for command in self.flying:
            if level:
                if command.data_first is None:
                    command.data_first = self.samplenum
            else:
                command.data_last = self.samplenum

    def complete(self, pins):
        """A completion: with the latency of its command if that is known."""
        exact = self.single
        if exact and not self.flying:
            self.flying.append(Command(self.bells.pop(0), None))
        command = self.flying.pop(0) if self.flying else None
        if self.has_origin:
            origin = sum(pins[k] << bit for bit, k in enumerate(ORIGIN))
            bell = self.numbered.get(origin)
            if bell is None:
                self.untimed("in flight at the first sample" if origin == BEFORE else "its doorbell is not known")
                return
            self.timed(bell)
            if exact and command.doorbell == bell:
                self.phases(command)
        elif exact:
            self.timed(command.doorbell)
            self.phases(command)
        elif self.in_order and (BUSY not in self.there or self.known):
            self.assume(command)
        elif BUSY in self.there and not self.known:
            self.untimed("commands in flight at the first sample have not all completed")
        else:
            self.untimed("its doorbell is not known: connect ORIGIN, or say in_flight")

    def timed(self, bell):
        latency = self.time(self.samplenum - bell)
        self.put(bell, self.samplenum, self.out_ann, [ANN_COMMAND, ["latency " + latency, latency]])

    def untimed(self, why):
        self.put(self.samplenum, self.samplenum + 1, self.out_ann, [ANN_UNTIMED, ["completion: " + why, "completion ?", "?"]])

    def assume(self, command):
        if command is None:
            self.warn("a completion without a command: the load is not in order, or commands were in flight at the first sample")
            self.in_order = False  # whatever follows would be paired wrongly
            return
        latency = self.time(self.samplenum - command.doorbell)
        text = f"{latency} in order? {len(self.flying) + len(self.bells)} more in flight"
        self.put(command.doorbell, self.samplenum, self.out_ann, [ANN_ASSUMED, [text, latency + " ?", "?"]])

    def phases(self, command):
        if command.fetch is None:
            return
        at = command.doorbell
        ends = (
            (ANN_SUBMIT, "submit", command.fetch),
            (ANN_ACCESS, "access", command.data_first if command.data_first is not None else self.samplenum),
            (ANN_TRANSFER, "data", command.data_last if command.data_first is not None else None),
            (ANN_COMPLETE, "complete", self.samplenum if command.data_last is not None else None),
        )
        for kind, name, end in ends:
            if end is not None:
                self.put(at, end, self.out_ann, [kind, [f"{name} {self.time(end - at)}", name, name[0]]])
                at = end

    def levels(self, pins):
        """Link state and sidebands: a level is annotated when it ends."""
        if {LINK0, LINK1, LINK2} <= self.there:
            state = pins[LINK0] | pins[LINK1] << 1 | pins[LINK2] << 2
            if state != self.link:
                if self.link is not None:
                    self.span(ANN_LINK, "link", LINK_STATES[self.link])
                self.link = state
                self.since["link"] = self.samplenum
        for channel, active, kind, text in ((CLKREQ, 1, ANN_CLKREQ, "CLKREQ# released"), (PERST, 0, ANN_RESET, "reset")):
            if channel in self.there:
                if pins[channel] == active:
                    self.since.setdefault(kind, self.samplenum)
                elif kind in self.since:
                    self.span(kind, kind, text)
                    del self.since[kind]

    def span(self, kind, key, text):
        since = self.since[key]
        self.put(since, self.samplenum, self.out_ann, [kind, [f"{text} {self.time(self.samplenum - since)}", text]])

    def warn(self, text):
        self.put(self.samplenum, self.samplenum + 1, self.out_ann, [ANN_WARNING, [text]])

    def time(self, samples):
        """A number of samples as time, or as samples where the rate is unknown."""
        if not self.rate:
            return f"{samples} samples"
        return f"{samples * 1e6 / self.rate:.9g} us"
