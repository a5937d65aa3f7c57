# mypy: ignore-errors
import sigrokdecode as srd

DOORBELL, CQE, FETCH, DATA, CLKREQ, PERST, LINK0, LINK1, LINK2 = range(9)
# Value of a channel without a pin. has_channel() says the same, but libsigrokdecode 0.5.3 may abort at its end for it (bug 1671).
NOT_CONNECTED = 0xFF
ANN_COMMAND, ANN_ASSUMED, ANN_SUBMIT, ANN_ACCESS, ANN_TRANSFER, ANN_COMPLETE, ANN_LINK, ANN_CLKREQ, ANN_RESET, ANN_WARNING = range(10)
# LinkState of docs/wire-format.md
LINK_STATES = ('unknown', 'L0', 'L0s', 'L1', 'L1.1', 'L1.2', 'Recovery', 'Detect')


class Command:
    def __init__(self, doorbell, fetch, alone):
        self.doorbell, self.fetch = doorbell, fetch
        self.alone = alone  # no other command was in flight since its doorbell
        self.data_first = self.data_last = None


class Decoder(srd.Decoder):
    api_version = 3
    id = 'nvme'
    name = 'NVMe'
    longname = 'NVMe command phases'
    desc = 'Doorbell, fetch, data and completion of NVMe commands.'
    license = 'apache-2.0'
    inputs = ['logic']
    outputs = []
    tags = ['PC', 'Debug/trace']
    channels = (
        {'id': 'doorbell', 'name': 'DOORBELL', 'desc': 'Strobe: SQ tail doorbell'},
        {'id': 'cqe', 'name': 'CQE', 'desc': 'Strobe: completion queue entry'},
    )
    optional_channels = (
        {'id': 'fetch', 'name': 'FETCH', 'desc': 'Strobe: the drive reads a command'},
        {'id': 'data', 'name': 'DATA', 'desc': "High from a command's first data to its last"},
        {'id': 'clkreq', 'name': 'CLKREQ#', 'desc': 'Sideband'},
        {'id': 'perst', 'name': 'PERST#', 'desc': 'Sideband'},
        {'id': 'link0', 'name': 'LINK0', 'desc': 'LinkState, bit 0'},
        {'id': 'link1', 'name': 'LINK1', 'desc': 'LinkState, bit 1'},
        {'id': 'link2', 'name': 'LINK2', 'desc': 'LinkState, bit 2'},
    )
    annotations = (
        ('command', 'Command'),
        ('assumed', 'Command, order assumed'),
        ('submit', 'Doorbell to fetch'),
        ('access', 'Fetch to data or completion'),
        ('transfer', 'Data'),
        ('complete', 'Data to completion'),
        ('link', 'Link state'),
        ('clkreq', 'CLKREQ# released'),
        ('reset', 'PERST# asserted'),
        ('warning', 'Warning'),
    )
    annotation_rows = (
        ('commands', 'Commands', (ANN_COMMAND, ANN_ASSUMED)),
        ('phases', 'Phases', (ANN_SUBMIT, ANN_ACCESS, ANN_TRANSFER, ANN_COMPLETE)),
        ('link-states', 'Link', (ANN_LINK,)),
        ('sidebands', 'Sidebands', (ANN_CLKREQ, ANN_RESET)),
        ('warnings', 'Warnings', (ANN_WARNING,)),
    )

    def __init__(self):
        self.reset()

    def reset(self):
        self.rate = None
        self.bells = []  # doorbells whose command was not fetched
        self.last_bell = None
        self.flying = []  # commands, in the order of their fetches
        self.data_was = 0
        self.since = {}  # of a level, the sample since which it holds
        self.link = None

    def metadata(self, key, value):
        if key == srd.SRD_CONF_SAMPLERATE:
            self.rate = value

    def start(self):
        self.out_ann = self.register(srd.OUTPUT_ANN)

    def decode(self):
        pins = self.wait({'skip': 0})
        self.there = {k for k, pin in enumerate(pins) if pin != NOT_CONNECTED}
        edges = sorted(self.there & {DATA, CLKREQ, PERST, LINK0, LINK1, LINK2})
        strobes = sorted(self.there & {DOORBELL, FETCH, CQE})
        self.levels(pins)
        self.data_was = pins[DATA] if DATA in self.there else 0
        something = [{k: 'h'} for k in strobes] + [{k: 'e'} for k in edges]
        while True:
            high = any(pins[k] for k in strobes)
            if high or DATA in self.there:
                self.sample(pins)
            # a level is met again at the sample where it was met: a strobe is left by one sample
            pins = self.wait({'skip': 1} if high else something)
            self.levels(pins)

    def sample(self, pins):
        """One sample, in the order in which things can happen within it."""
        if pins[DOORBELL]:
            self.last_bell = self.samplenum
            if FETCH in self.there:
                self.bells.append(self.samplenum)
            else:
                self.begin(self.samplenum, None)
        if FETCH in self.there and pins[FETCH]:
            if not self.bells and self.last_bell is None:
                self.warn('a fetch without a doorbell')
            else:
                # a doorbell may announce several commands: the later ones take the latest bell
                self.begin(self.bells.pop(0) if self.bells else self.last_bell, self.samplenum)
        if DATA in self.there:
            self.data(pins[DATA])
        if pins[CQE]:
            self.complete()

    def begin(self, bell, fetch):
        for other in self.flying:
            other.alone = False
        self.flying.append(Command(bell, fetch, alone=not self.flying))

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

    def complete(self):
        if not self.flying:
            self.warn('a completion without a command')
            return
        command = self.flying.pop(0)
        # one that was announced while this one flew was in flight with it
        alone = command.alone and not any(bell < self.samplenum for bell in self.bells)
        latency = self.time(self.samplenum - command.doorbell)
        if alone:
            self.put(command.doorbell, self.samplenum, self.out_ann, [ANN_COMMAND, ['latency ' + latency, latency]])
            self.phases(command)
        else:
            text = f'{latency} in order? {len(self.flying) + len(self.bells)} more in flight'
            self.put(command.doorbell, self.samplenum, self.out_ann, [ANN_ASSUMED, [text, latency + ' ?', '?']])

    def phases(self, command):
        at = command.doorbell
        ends = (
            (ANN_SUBMIT, 'submit', command.fetch),
            (ANN_ACCESS, 'access', command.data_first if command.data_first is not None else self.samplenum),
            (ANN_TRANSFER, 'data', command.data_last if command.data_first is not None else None),
            (ANN_COMPLETE, 'complete', self.samplenum if command.data_last is not None else None),
        )
        for kind, name, end in ends:
            if end is not None:
                self.put(at, end, self.out_ann, [kind, [f'{name} {self.time(end - at)}', name, name[0]]])
                at = end

    def levels(self, pins):
        """Link state and sidebands: a level is annotated when it ends."""
        if {LINK0, LINK1, LINK2} <= self.there:
            state = pins[LINK0] | pins[LINK1] << 1 | pins[LINK2] << 2
            if state != self.link:
                if self.link is not None:
                    self.span(ANN_LINK, 'link', LINK_STATES[self.link])
                self.link = state
                self.since['link'] = self.samplenum
        for channel, active, kind, text in ((CLKREQ, 1, ANN_CLKREQ, 'CLKREQ# released'), (PERST, 0, ANN_RESET, 'reset')):
            if channel in self.there:
                if pins[channel] == active:
                    self.since.setdefault(kind, self.samplenum)
                elif kind in self.since:
                    self.span(kind, kind, text)
                    del self.since[kind]

    def span(self, kind, key, text):
        since = self.since[key]
        self.put(since, self.samplenum, self.out_ann, [kind, [f'{text} {self.time(self.samplenum - since)}', text]])

    def warn(self, text):
        self.put(self.samplenum, self.samplenum + 1, self.out_ann, [ANN_WARNING, [text]])

    def time(self, samples):
        """Samples as time; as samples where the rate is not known."""
        if not self.rate:
            return f'{samples} samples'
        return f'{samples * 1e6 / self.rate:.9g} us'
