//! Second pass over a log: puts every event onto the bus, in the order of its lines.

use super::clock::Clock;
use super::command::{Command, Context};
use super::event::Event;
use super::merge::Merge;
use super::queues::{InFlight, Queues};
use super::registers::Registers;
use super::sqe::{Cqe, Sqe};
use super::survey::Survey;
use super::wire::{Delay, Wire};
use super::{intake, Error};
use serde_json::{json, Value};
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;
use wattbell_bus::{Result as BusResult, SortingWriter, TraceHeader, TraceWriter};
use wattbell_spec::nvme::{admin, io};

/// Pause after an added Identify: a driver takes time, and the rig's buffer holds a single such structure.
pub(super) const ADDED_PS: u64 = 20_000_000;
/// Time from power-on to the log's first event: room for enumeration,
const LEAD_PS: u64 = 1_000_000_000;
/// plus this for each namespace: room for its Identify.
const LEAD_PER_NAMESPACE_PS: u64 = 2 * ADDED_PS;
/// The trace continues this long after the last event, so that the rig closes its blocks.
const MARGIN_PS: u64 = 20_000_000_000;
/// Time from the last event of a truncated log to the reset that ends the commands in flight.
const RESET_PS: u64 = 1_000_000_000;
const PS_PER_US: u64 = 1_000_000;
const MSI_ADDRESS: u64 = 0xFEE0_0000;
/// QEMU's MSI-X table lies in BAR0 after the doorbells.
const MSIX_TABLE: u64 = 0x2000;

/// Counts of additions by the converter, and of events that it could not place.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)] // the names are those of `stats_json`
pub struct Tally {
    pub commands: u64,
    pub commands_added: u64,
    pub queues_added: u64,
    pub brought_up: u64,
    pub doorbells_added: u64,
    pub doorbells_elided: u64,
    pub completions: u64,
    pub completions_unmatched: u64,
    pub completions_deferred: u64,
    pub unsized_commands: u64,
}

/// The rebuilt bus while the log is being read.
pub struct Converter<'s, W: Write> {
    pub(super) survey: &'s Survey,
    pub(super) wire: Wire<W>,
    pub(super) registers: Registers,
    pub(super) queues: Queues,
    pub(super) vectors: BTreeSet<u16>,
    pub(super) tally: Tally,
    context: Context<'s>,
    command: Option<Command>,
    doorbell_index: usize,
    dsm_index: usize,
    orphan_index: usize,
    owner: u64,
    clock: Clock,
    lead_ps: u64,
}

/// Figures of a conversion, for `--stats`.
pub struct Outcome {
    /// Counts of additions, and of events without a place.
    pub tally: Tally,
    /// TLPs written: host to drive, drive to host.
    pub tlps: [u64; 2],
    /// How far events were moved.
    pub delay: Delay,
}

/// Writes the log at `path`, already surveyed, as a bus trace to `out`. `phases` goes into the trace's header.
pub fn convert<W: Write>(path: &Path, survey: &Survey, phases: Option<Value>, out: W) -> Result<Outcome, Error> {
    let writer = SortingWriter::new(TraceWriter::new(out, &header(survey, phases))?);
    let context = Context { survey, page_size: 4096, next_page: 0, unsized_commands: 0, lba_sizes: HashMap::new() };
    let mut c = Converter {
        survey,
        wire: Wire::new(writer),
        registers: Registers::default(),
        queues: Queues::default(),
        vectors: BTreeSet::new(),
        tally: Tally::default(),
        context,
        command: None,
        doorbell_index: 0,
        dsm_index: 0,
        orphan_index: 0,
        owner: 0,
        clock: Clock::default(),
        lead_ps: LEAD_PS + LEAD_PER_NAMESPACE_PS * survey.namespaces.len() as u64,
    };
    c.prelude()?;
    let mut merge = survey.second_controller.then(Merge::default);
    intake::read(path, |time_us, event| {
        let event = merge.as_mut().map_or(Some(event), |m| m.pass(&event));
        event.map_or(Ok(()), |event| Ok(c.event(time_us, &event)?))
    })?;
    c.close_command(None)?;
    c.cut_short()?;
    c.tally.unsized_commands = c.context.unsized_commands;
    let tally = c.tally;
    let (_, tlps, delay) = c.wire.finish(MARGIN_PS)?;
    Ok(Outcome { tally, tlps, delay })
}

/// Returns the trace's JSON header, with the notes that a report must carry.
fn header(survey: &Survey, phases: Option<Value>) -> TraceHeader {
    let mut notes: Vec<String> = [
        "rebuilt from QEMU's NVMe trace log: order, doorbell and completion times are the log's (1 us resolution)",
        "not in the log and rebuilt: raw SQEs, PRP lists, TLP boundaries, data transfer times, Identify data",
        "no power: a QEMU drive has no rail, so there are no rail figures",
        "the link is shown as L0 throughout: QEMU's has no power states",
    ]
    .map(String::from)
    .to_vec();
    let seen = survey.seen;
    let mut note = |when: bool, text: &str| {
        if when {
            notes.push(text.into());
        }
    };
    note(!seen.sq_doorbell, "SQ doorbells were not logged: taken to be at the fetch, so latency starts there");
    note(
        !seen.io_cmd && seen.blocks,
        "pci_nvme_io_cmd was not logged: commands other than reads and writes are missing",
    );
    note(!seen.complete, "completions were not logged: no command completes");
    note(seen.shadow, "the driver used shadow doorbells: most doorbells are in memory and not on the bus");
    note(
        survey.second_controller,
        "two controllers share this log and it does not tell them apart: shown as one with queues of its own, without \
         doorbells and administration; counts hold, depths add, latency starts at the fetch",
    );
    note(
        survey.namespaces.values().any(|n| n.lba_size_bytes.is_none()),
        "a namespace without logged reads or writes: its LBA size is taken as 512 bytes",
    );
    note(
        survey.namespaces.values().any(|n| n.conflicts > 0),
        "a namespace changed its LBA size: all its commands are shown in blocks of the smallest",
    );
    note(survey.clock.jumps > 0, "the log holds several runs, or pauses of minutes: what lies between is cut to 10 ms");
    note(survey.lines.unfinished, "the log's last line has no end: it may be cut in a number");
    note(survey.lines.damaged > 0, "damaged log lines were left out (see the converter's statistics)");
    if survey.in_flight > 0 {
        let (n, s) = (survey.in_flight, if survey.in_flight > 1 { "s" } else { "" });
        notes.push(format!(
            "the log ends with {n} I/O command{s} in flight: a controller reset is added that ends them"
        ));
    }
    let mut extra = serde_json::Map::new();
    extra.insert("rail".into(), "none".into());
    if let Some(phases) = phases {
        extra.insert("phases".into(), phases);
    }
    TraceHeader {
        source: "qemu-log".into(),
        profile: "QEMU NVMe device (rebuilt from its trace log)".into(),
        timing: "qemu-log".into(),
        summaries: false,
        notes,
        extra,
    }
}

impl<W: Write> Converter<'_, W> {
    /// Writes power-on and, if no driver in the log asks for Identify data, a short session with such a driver.
    fn prelude(&mut self) -> BusResult<()> {
        self.power_up()?;
        let s = self.survey;
        let missing = s.second_controller
            || s.namespaces.keys().any(|nsid| !s.identified.contains(nsid))
            || !s.identified_controller;
        if missing && !s.namespaces.is_empty() {
            self.write_cc(0x0046_0001)?;
            self.identify_all()?;
            self.write_cc(0x0046_0000)?;
        }
        Ok(())
    }

    /// I/O commands in flight at the end of the log would leave no record: a reset ends them, and they are reported.
    fn cut_short(&mut self) -> BusResult<()> {
        if self.queues.commands.keys().any(|&(sqid, _)| sqid != 0)
            || (!self.survey.seen.complete && self.survey.in_flight > 0)
        {
            self.wire.pause(RESET_PS)?;
            self.write_cc(self.registers.cc & !1)?;
        }
        Ok(())
    }

    fn event(&mut self, time_us: Option<i64>, event: &Event) -> BusResult<()> {
        if matches!(event, Event::Other | Event::Shadow | Event::DsmRange { .. }) {
            return Ok(());
        }
        if self.command.as_mut().is_some_and(|c| c.absorb(event)) {
            return Ok(());
        }
        self.close_command(Some(event))?;
        let time_ps = self.lead_ps + self.clock.tell(time_us, event) as u64 * PS_PER_US;
        self.wire.advance(time_ps)?;
        match *event {
            Event::IoCmd { cid, nsid, sqid, opc } => {
                let dsm_index = (opc == io::DSM).then(|| {
                    self.dsm_index += 1;
                    self.dsm_index - 1
                });
                let cid = Some(cid);
                self.command = Some(Command { io: true, sqid, cid, nsid, opc, dsm_index, ..Command::default() });
            }
            Event::AdminCmd { cid, sqid, opc } => {
                self.command = Some(Command { sqid, cid: Some(cid), opc, ..Command::default() });
            }
            Event::SqDoorbell { sqid, tail } => self.sq_doorbell(sqid, tail)?,
            Event::CqDoorbell { cqid, head } => self.cq_doorbell(cqid, head)?,
            Event::Complete { cid, cqid, dw0, dw1, status } => self.complete(cid, cqid, dw0, dw1, status)?,
            Event::Msix { vector } => self.msix(vector)?,
            Event::Cfg { value } => self.write_cc(value)?,
            Event::Started if !self.registers.enabled() => self.write_cc(0x0046_0001)?,
            Event::Stopped if self.registers.enabled() => self.write_cc(self.registers.cc & !1)?,
            Event::AqAttr { value } => {
                self.registers.aqa = value;
                self.wire.write_register(0x24, &value.to_le_bytes())?;
            }
            Event::AsqLow { value } => self.registers.asq = self.address(0x28, self.registers.asq, value)?,
            Event::AcqLow { value } => self.registers.acq = self.address(0x30, self.registers.acq, value)?,
            Event::AsqHigh { value } => {
                self.registers.asq = self.registers.asq & 0xFFFF_FFFF | u64::from(value) << 32;
                self.wire.write_register(0x2C, &value.to_le_bytes())?;
            }
            Event::AcqHigh { value } => {
                self.registers.acq = self.registers.acq & 0xFFFF_FFFF | u64::from(value) << 32;
                self.wire.write_register(0x34, &value.to_le_bytes())?;
            }
            Event::MmioRead { addr, size } if addr % 4 == 0 && addr < 0x1000 && matches!(size, 4 | 8) => {
                let low = self.registers.read(addr).to_le_bytes();
                let high = self.registers.read(addr + 4).to_le_bytes();
                self.wire.read_register(addr, &[low, high].concat()[..size as usize])?;
            }
            Event::PciReset if self.tally.commands > 0 || self.registers.enabled() => self.power_up()?,
            _ => self.detail_alone(event),
        }
        Ok(())
    }

    /// Takes a detail line of a command that has lost its own line.
    fn detail_alone(&mut self, event: &Event) {
        let mut sqid = 1;
        if let Event::Blocks { .. } = event {
            sqid = self.survey.queue_of.get(self.orphan_index).copied().unwrap_or(1).max(1);
            self.orphan_index += 1;
        }
        self.command = Command::implied(event, sqid);
    }

    /// The low half of ASQ or ACQ: one 64-bit write if upper bits are set or have to be cleared.
    fn address(&mut self, offset: u64, before: u64, value: u64) -> BusResult<u64> {
        if value >> 32 != 0 || before >> 32 != 0 {
            self.wire.write_register(offset, &value.to_le_bytes())?;
        } else {
            self.wire.write_register(offset, &(value as u32).to_le_bytes())?;
        }
        Ok(value)
    }

    /// Puts the gathered command on the bus: fetches its entry and PRP list, and queues its data.
    fn close_command(&mut self, next: Option<&Event>) -> BusResult<()> {
        let Some(mut command) = self.command.take() else { return Ok(()) };
        if let (None, Some(Event::Complete { cid, cqid: 0, .. })) = (command.cid, next) {
            command.cid = Some(*cid);
        }
        self.ensure_sq(command.sqid)?;
        self.context.page_size = self.registers.page_size();
        if !command.io && command.detail.is_none() {
            command.detail = self.guess_queue(command.opc);
            command.guessed = true;
        }
        let built = command.build(&mut self.context);
        let sq_drained = self.queues.sqs.get(&command.sqid).is_none_or(|sq| sq.drained());
        if sq_drained {
            if self.elides() {
                self.tally.doorbells_elided += 1;
            } else {
                self.tally.doorbells_added += 1;
                self.announce(command.sqid)?;
            }
        }
        let owner = self.fetch_entry(command.sqid, &built.sqe)?;
        self.tally.commands += 1;
        if let Some((address, list)) = &built.list {
            self.wire.fetch(*address, list)?;
        }
        if let Some(flow) = built.flow {
            self.wire.transfer(owner, flow, &built.pages, built.data.as_deref());
        }
        if command.opc == admin::DOORBELL_BUFFER_CONFIG && !command.io {
            self.queues.shadow = true;
        }
        if self.survey.seen.complete {
            let action = built.action;
            self.queues.commands.insert((command.sqid, command.cid.unwrap_or(0)), InFlight { owner, action });
        } else {
            self.queues.apply(built.action); // nothing will tell whether it succeeded
        }
        Ok(())
    }

    /// Whether a missing doorbell is in memory rather than lost. A log that begins after Doorbell Buffer Config is
    /// recognised by QEMU's looks at the shadow.
    fn elides(&mut self) -> bool {
        self.queues.shadow || (self.survey.seen.shadow && !self.survey.seen.dbbuf_config)
    }

    fn ring(&mut self, sqid: u16, tail: u32) -> BusResult<()> {
        self.wire.write_register(0x1000 + 8 * u64::from(sqid), &tail.to_le_bytes())
    }

    /// A doorbell that the log should have had.
    fn announce(&mut self, sqid: u16) -> BusResult<()> {
        let Some(tail) = self.queues.sqs.get_mut(&sqid).map(|sq| sq.announce_one()) else { return Ok(()) };
        self.ring(sqid, tail)
    }

    /// A doorbell for a command that the log lacks.
    pub(super) fn ring_extra(&mut self, sqid: u16) -> BusResult<()> {
        let Some(sq) = self.queues.sqs.get_mut(&sqid) else { return Ok(()) };
        sq.tail = (sq.tail + 1) % sq.size;
        let tail = sq.tail;
        self.ring(sqid, tail)
    }

    /// The drive fetches an entry from the head of `sqid`. Returns the number of its data transfer.
    pub(super) fn fetch_entry(&mut self, sqid: u16, sqe: &Sqe) -> BusResult<u64> {
        self.owner += 1;
        if let Some(address) = self.queues.sqs.get_mut(&sqid).map(|sq| sq.take_slot()) {
            self.wire.fetch(address, &sqe.0)?;
        }
        Ok(self.owner)
    }

    fn sq_doorbell(&mut self, sqid: u16, log_tail: u32) -> BusResult<()> {
        self.ensure_sq(sqid)?;
        let fetched = self.survey.fetched_after.get(self.doorbell_index).copied().unwrap_or(1);
        self.doorbell_index += 1;
        let Some(tail) = self.queues.sqs.get_mut(&sqid).map(|sq| sq.doorbell(log_tail, fetched)) else {
            return Ok(());
        };
        self.ring(sqid, tail)
    }

    fn cq_doorbell(&mut self, cqid: u16, log_head: u32) -> BusResult<()> {
        self.ensure_cq(cqid)?;
        let Some(head) = self.queues.cqs.get_mut(&cqid).map(|cq| cq.doorbell(log_head)) else { return Ok(()) };
        self.wire.write_register(0x1004 + 8 * u64::from(cqid), &head.to_le_bytes())?;
        while let Some(cqe) =
            self.queues.cqs.get_mut(&cqid).filter(|cq| !cq.full()).and_then(|cq| cq.deferred.pop_front())
        {
            self.write_cqe(cqid, cqe)?;
        }
        Ok(())
    }

    fn complete(&mut self, cid: u16, cqid: u16, dw0: u32, dw1: u32, status: u16) -> BusResult<()> {
        self.ensure_cq(cqid)?;
        self.tally.completions += 1;
        let sqid = match self.queues.owner_of(cid, cqid) {
            Some(sqid) => sqid,
            None => {
                // Fetched before the log began, or its line was lost. In the latter case its slot was used.
                self.tally.completions_unmatched += 1;
                let sqid = self.queues.sqs.iter().find(|(_, sq)| sq.cqid == cqid).map_or(cqid, |(&id, _)| id);
                if let Some(sq) = self.queues.sqs.get_mut(&sqid).filter(|sq| !sq.drained()) {
                    sq.take_slot();
                }
                sqid
            }
        };
        self.completion(cqid, Cqe { dw0, dw1, sqid, cid, status })
    }

    /// Sends a completion, once its data is through. The completion waits if the host has left no room.
    pub(super) fn completion(&mut self, cqid: u16, cqe: Cqe) -> BusResult<()> {
        if let Some(done) = self.queues.commands.remove(&(cqe.sqid, cqe.cid)) {
            self.wire.finish_transfer(done.owner)?;
            if cqe.status & 0x7FF == 0 {
                self.queues.apply(done.action);
            }
        }
        // With head doorbells in memory or not logged, only the host knows whether there is room.
        let heads = self.survey.seen.cq_doorbell && !self.elides();
        if let Some(cq) = self.queues.cqs.get_mut(&cqid) {
            if heads && cq.log_size.is_some() && (cq.full() || !cq.deferred.is_empty()) {
                self.tally.completions_deferred += 1;
                cq.deferred.push_back(cqe);
                return Ok(());
            }
        }
        self.write_cqe(cqid, cqe)
    }

    fn write_cqe(&mut self, cqid: u16, cqe: Cqe) -> BusResult<()> {
        let sq_head = self.queues.sqs.get(&cqe.sqid).map_or(0, |sq| sq.head as u16);
        let Some((address, phase)) = self.queues.cqs.get_mut(&cqid).map(|cq| cq.take_slot()) else { return Ok(()) };
        self.wire.write_host(address, &cqe.bytes(sq_head, phase))
    }

    fn msix(&mut self, vector: u16) -> BusResult<()> {
        let message = 0x4000 | u32::from(vector);
        if self.vectors.insert(vector) {
            let entry = MSIX_TABLE + 16 * u64::from(vector);
            for (offset, value) in [(0, MSI_ADDRESS as u32), (4, 0), (8, message), (12, 0)] {
                self.wire.write_register(entry + offset, &value.to_le_bytes())?;
            }
        }
        self.wire.write_host(MSI_ADDRESS, &message.to_le_bytes())
    }
}

/// Returns the statistics of a conversion as JSON: the lines, the log's own counts, the converter's work.
pub fn stats_json(survey: &Survey, outcome: &Outcome) -> Value {
    let (l, t) = (survey.lines, outcome.tally);
    json!({
        "lines": {"all": l.lines, "foreign": l.foreign, "events": l.events, "damaged": l.damaged, "untimed": l.untimed},
        "log": survey.counts.to_json(),
        "namespaces": survey.namespaces.iter()
            .map(|(id, n)| (id.to_string(), json!({"lba_size_bytes": n.lba_size(), "end_lba": n.end_lba})))
            .collect::<serde_json::Map<_, _>>(),
        "trace": {
            "tlps_down": outcome.tlps[0],
            "tlps_up": outcome.tlps[1],
            "commands": t.commands,
            "completions": t.completions,
            "completions_without_command": t.completions_unmatched,
            "completions_deferred_by_a_full_queue": t.completions_deferred,
            "commands_of_unknown_size": t.unsized_commands,
            "added": {
                "controller_starts": t.brought_up,
                "queues": t.queues_added,
                "admin_commands": t.commands_added,
                "doorbells": t.doorbells_added,
            },
            "doorbells_in_memory": t.doorbells_elided,
            "clock_jumps": survey.clock.jumps,
            "events_delayed_over_1_us": outcome.delay.events,
            "longest_delay_s": outcome.delay.max_ps as f64 * 1e-12,
        },
    })
}
