//! First pass over a log: facts that need the whole log.

use super::clock::Clock;
use super::event::Event;
use super::intake::{self, Lines};
use super::namespace::{lba_size, Namespace};
use super::stats::Counts;
use super::twins::Twins;
use super::Error;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use wattbell_spec::nvme::io;

/// Kinds of events the log has: those absent were not enabled, and are rebuilt rather than considered lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Seen {
    pub io_cmd: bool,
    pub admin_cmd: bool,
    pub blocks: bool,
    pub complete: bool,
    pub sq_doorbell: bool,
    pub cq_doorbell: bool,
    pub msix: bool,
    pub cfg: bool,
    pub map_prp: bool,
    /// Doorbell Buffer Config, or a look at a shadow doorbell.
    pub shadow: bool,
    pub dbbuf_config: bool,
}

/// Result of the first pass.
#[derive(Debug, Default)]
pub struct Survey {
    /// Counts of the lines, by their fate.
    pub lines: Lines,
    /// Whether any event has a time.
    pub timed: bool,
    /// The log's clock at its end.
    pub clock: Clock,
    /// Kinds of events present.
    pub seen: Seen,
    /// Namespaces that an I/O command named (not the broadcast one).
    pub namespaces: BTreeMap<u32, Namespace>,
    /// Namespaces with an Identify Namespace in the log.
    pub identified: BTreeSet<u32>,
    /// Whether an Identify Controller is in the log.
    pub identified_controller: bool,
    /// Ranges (first block, blocks) of each Dataset Management, in order of the commands.
    pub dsm: Vec<Vec<(u64, u32)>>,
    /// For each SQ tail doorbell in order: commands fetched from that queue until its next doorbell.
    pub fetched_after: Vec<u32>,
    /// For each read/write event in order, where `io_cmd` is not logged: its submission queue.
    pub queue_of: Vec<u16>,
    /// Whether a second controller shares the log.
    pub second_controller: bool,
    /// Number of I/O commands in flight at the end of the log.
    pub in_flight: u64,
    /// Counts straight from the lines.
    pub counts: Counts,
}

/// Dataset Management commands with further ranges still to come in the log.
struct OpenDsm {
    index: usize,
    left: u32,
    cid: u16,
}

#[derive(Default)]
struct Reader {
    survey: Survey,
    last_doorbell: HashMap<u16, usize>,
    command: Option<(u16, u8)>,
    identify: Option<u8>,
    open_dsm: VecDeque<OpenDsm>,
    waiting: HashMap<u16, usize>,
    /// Namespace and end of reads and writes in flight: a failed command says nothing about the namespace's size.
    ends: HashMap<u16, (u32, u64)>,
    /// I/O commands in flight, by identifier.
    under_way: HashMap<u16, u64>,
    twins: Twins,
}

/// Reads the log at `path` once. Errors: unreadable, no NVMe event, no event with a time.
pub fn survey(path: &Path) -> Result<Survey, Error> {
    let mut reader = Reader::default();
    let lines = intake::read(path, |time_us, event| {
        reader.event(time_us, event);
        Ok(())
    })?;
    let mut survey = reader.survey;
    reader.twins.finish();
    survey.second_controller = reader.twins.found;
    survey.in_flight = reader.under_way.values().sum();
    survey.lines = lines;
    let name = path.display().to_string();
    if lines.events == lines.damaged {
        return Err(Error::NoEvents(name, lines.lines));
    }
    if !survey.timed {
        return Err(Error::NoTimes(name, lines.events));
    }
    survey.counts.finish(&survey.namespaces);
    Ok(survey)
}

impl Reader {
    fn event(&mut self, time_us: Option<i64>, event: Event) {
        let s = &mut self.survey;
        s.timed |= time_us.is_some();
        s.clock.tell(time_us, &event);
        s.counts.event(&event);
        self.twins.event(time_us, &event);
        match event {
            Event::IoCmd { cid, nsid, sqid, opc } => {
                s.seen.io_cmd = true;
                self.command = Some((cid, opc));
                self.touch(nsid);
                self.fetched(sqid);
                *self.under_way.entry(cid).or_default() += 1;
                if opc == io::DSM {
                    self.survey.dsm.push(Vec::new());
                    let index = self.survey.dsm.len() - 1;
                    self.open_dsm.push_back(OpenDsm { index, left: 0, cid });
                }
            }
            Event::AdminCmd { sqid, .. } => {
                s.seen.admin_cmd = true;
                self.command = None;
                self.fetched(sqid);
            }
            Event::Blocks { cid, nsid, nlb, count, lba, .. } => {
                s.seen.blocks = true;
                let orphan = self.command.is_none_or(|(id, _)| id != cid);
                if orphan {
                    self.waiting.insert(cid, s.queue_of.len());
                    s.queue_of.push(1);
                }
                self.touch(nsid);
                let scale = self.block_size(nsid, nlb, count);
                self.ends.insert(cid, (nsid, lba.saturating_add(nlb.into()).saturating_mul(scale)));
            }
            Event::Dsm { nr, .. } => {
                if let Some(open) = self.open_dsm.back_mut() {
                    open.left = nr;
                }
            }
            Event::DsmRange { slba, nlb } => self.dsm_range(slba, nlb),
            Event::Identify { cns, .. } => {
                self.identify = Some(cns);
                s.identified_controller |= cns == 1;
            }
            Event::IdentifyNsid { nsid } if self.identify == Some(0) => {
                s.identified.insert(nsid);
            }
            Event::Complete { cid, cqid, status, .. } => {
                s.seen.complete = true;
                if let Some((nsid, end)) = self.ends.remove(&cid).filter(|_| status == 0) {
                    let ns = s.namespaces.entry(nsid).or_default();
                    ns.end_lba = ns.end_lba.max(end);
                }
                if let Some(index) = self.waiting.remove(&cid) {
                    s.queue_of[index] = cqid;
                }
                if cqid != 0 {
                    if let Some(open) = self.under_way.get_mut(&cid) {
                        *open = open.saturating_sub(1);
                    }
                    self.open_dsm.retain(|d| d.cid != cid);
                }
            }
            Event::SqDoorbell { sqid, .. } => {
                s.seen.sq_doorbell = true;
                self.last_doorbell.insert(sqid, s.fetched_after.len());
                s.fetched_after.push(0);
            }
            Event::CqDoorbell { .. } => s.seen.cq_doorbell = true,
            Event::Msix { .. } => s.seen.msix = true,
            Event::MapPrp { .. } => s.seen.map_prp = true,
            Event::Shadow => s.seen.shadow = true,
            Event::DbBuf { .. } => {
                s.seen.shadow = true;
                s.seen.dbbuf_config = true;
            }
            Event::Cfg { value } => {
                s.seen.cfg = true;
                if value & 1 == 0 {
                    self.under_way.clear();
                }
            }
            Event::PciReset => self.under_way.clear(),
            _ => {}
        }
    }

    fn touch(&mut self, nsid: u32) {
        if nsid != 0 && nsid != u32::MAX {
            self.survey.namespaces.entry(nsid).or_default();
        }
    }

    fn fetched(&mut self, sqid: u16) {
        if let Some(&index) = self.last_doorbell.get(&sqid) {
            self.survey.fetched_after[index] += 1;
        }
    }

    /// Learns from a read or write; returns its size in blocks of the smallest size seen in its namespace.
    fn block_size(&mut self, nsid: u32, nlb: u32, count: Option<u64>) -> u64 {
        let Some(ns) = self.survey.namespaces.get_mut(&nsid) else { return 1 };
        let Some(size) = count.and_then(|count| lba_size(nlb, count)) else { return 1 };
        let known = *ns.lba_size_bytes.get_or_insert(size);
        ns.conflicts += u64::from(known != size);
        if size < known {
            ns.lba_size_bytes = Some(size);
            ns.end_lba = ns.end_lba.saturating_mul(u64::from(known / size));
        }
        u64::from(size / known.min(size))
    }

    /// Ranges carry no command identifier. The first follows its command at once; with several commands in flight,
    /// later ones are assumed to belong to the oldest that still lacks ranges.
    fn dsm_range(&mut self, slba: u64, nlb: u32) {
        let dsm = &mut self.survey.dsm;
        let fresh = self.open_dsm.back().filter(|d| dsm[d.index].is_empty()).map(|d| d.index);
        let index = fresh.or_else(|| self.open_dsm.iter().find(|d| d.left > 0).map(|d| d.index));
        let Some(index) = index else { return };
        dsm[index].push((slba, nlb));
        if let Some(open) = self.open_dsm.iter_mut().find(|d| d.index == index) {
            open.left = open.left.saturating_sub(1);
        }
    }
}
