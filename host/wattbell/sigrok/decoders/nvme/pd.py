# mypy: ignore-errors
import sigrokdecode as srd

DOORBELL, CQE, FETCH, DATA, CLKREQ, PERST, LINK0, LINK1, LINK2, BUSY = range(10)
# Value of an unconnected channel. has_channel() tells the same, but makes libsigrokdecode 0.5.3 abort at the end in some cases (bug 1671).
NOT_CONNECTED = 0xFF
ANN_COMMAND, ANN_ASSUMED, ANN_SUBMIT, ANN_ACCESS, ANN_TRANSFER, ANN_COMPLETE, ANN_LINK, ANN_CLKREQ, ANN_RESET, ANN_WARNING = range(10)
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
    )
    options = (
        {"id": "in_flight", "desc": "Commands in flight at a time, without BUSY", "default": "unknown", "values": ("unknown", "one")},
    )
    annotations = (
        ("command", "Command"),
        ("assumed", "Command, order assumed"),
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
        ("commands", "Commands", (ANN_COMMAND, ANN_ASSUMED)),
        ("phases", "Phases", (ANN_SUBMIT, ANN_ACCESS, ANN_TRANSFER, ANN_COMPLETE)),
        ("link-states", "Link", (ANN_LINK,)),
        ("sidebands", "Sidebands", (ANN_CLKREQ, ANN_RESET)),
        ("warnings", "Warnings", (ANN_WARNING,)),
    )

    def __init__(self):
        self.reset()

    def reset(self):
        self.rate = None
        self.bells = []  # doorbells whose command has not been fetched
        self.last_bell = None
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

    def decode(self):
        pins = self.wait({"skip": 0})
        self.there = {k for k, pin in enumerate(pins) if pin != NOT_CONNECTED}
        edges = sorted(self.there & {DATA, CLKREQ, PERST, LINK0, LINK1, LINK2, BUSY})
        strobes = sorted(self.there & {DOORBELL, FETCH, CQE})
        self.levels(pins)
        self.data_was = pins[DATA] if DATA in self.there else 0
        if BUSY in self.there and pins[BUSY]:
            self.warn("commands are in flight at the first sample: no latency before BUSY has been low")
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

        Strobes carry no command identifier, and whatever was in flight before the first sample left none. So a time is exact only for a
        command that began when nothing was in flight, with one doorbell, at most one fetch, and one completion until nothing is again.
        """
        bell, fetch, cqe = (k in self.there and bool(pins[k]) for k in (DOORBELL, FETCH, CQE))
        if self.one_at_a_time and self.busy and bell and cqe:
            # one at a time: what ends here is the previous command
            self.step(pins, False, False, True)
            cqe = False
        self.step(pins, bell, fetch, cqe)

    def step(self, pins, bell, fetch, cqe):
        busy = self.level_of_busy(pins, bell, fetch, cqe)
        if BUSY in self.there and not busy and not self.busy and not cqe:
            # not a command that BUSY counts: an Asynchronous Event Request stays in the drive indefinitely
            bell = fetch = False
        if busy and self.busy == 0:
            self.single = bell and not cqe
        elif bell or (cqe and busy != 0):
            self.single = False
        if BUSY not in self.there or self.known:
            self.follow(pins, bell, fetch)
            if cqe:
                self.complete(exact=self.single)
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
            self.warn("more than one command is in flight: from here on the order is assumed")
            self.one_at_a_time = self.known = False
            return None
        if bell and not cqe:
            self.busy = 0  # valid before the first command too
            return 1
        return 0 if cqe else self.busy

    def follow(self, pins, bell, fetch):
        """What begins at this sample, and its data."""
        if bell:
            self.last_bell = self.samplenum
            if FETCH in self.there:
                self.bells.append(self.samplenum)
            else:
                self.flying.append(Command(self.samplenum, None))
        if fetch:
            if self.flying:
                self.single = False
            if not self.bells and self.last_bell is None:
                self.warn("a fetch without a doorbell")
            else:
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

    def complete(self, exact):
        if exact and not self.flying:
            self.flying.append(Command(self.bells.pop(0), None))
        if not self.flying:
            self.warn("a completion without a command")
            return
        command = self.flying.pop(0)
        latency = self.time(self.samplenum - command.doorbell)
        if exact:
            self.put(command.doorbell, self.samplenum, self.out_ann, [ANN_COMMAND, ["latency " + latency, latency]])
            self.phases(command)
            return
        if self.known:
            text = f"{latency} in order? {len(self.flying) + len(self.bells)} more in flight"
        else:
            text = f"{latency} in order? if none was in flight at the first sample"
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
