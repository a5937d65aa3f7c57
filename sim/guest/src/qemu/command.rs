//! One command: gathers the log's lines about it, and rebuilds its submission queue entry.

use super::event::Event;
use super::identify;
use super::namespace::lba_size;
use super::queues::{Action, Cq, Sq};
use super::sqe::{dsm_range, sgl_descriptor, Sqe};
use super::survey::Survey;
use super::wire::DataFlow;
use std::collections::HashMap;
use wattbell_spec::nvme::{admin, io};

/// Pages for data without an address in the log: far above any guest memory, handed out in turn.
const PAGE_MEMORY: u64 = 0x80_0000_0000;
const PAGE_COUNT: u64 = 1 << 24;

/// The lines of one command, from `io_cmd` or `admin_cmd` to the next event of another command.
#[derive(Debug, Clone, Default)]
pub struct Command {
    pub io: bool,
    pub sqid: u16,
    /// Value from the log; `None` until a line gives it (creations without `admin_cmd`).
    pub cid: Option<u16>,
    pub nsid: u32,
    pub opc: u8,
    /// First block, number of blocks.
    pub blocks: Option<(u64, u32)>,
    pub bytes: Option<u64>,
    /// Length, PRP1, PRP2.
    pub prp: Option<(u32, u64, u64)>,
    pub sgl: Option<(u8, u64)>,
    pub pages: Vec<(u64, u64)>,
    pub dsm: Option<(u32, u32)>,
    /// Index of a Dataset Management command in the survey.
    pub dsm_index: Option<usize>,
    pub copy_ranges: Option<u32>,
    pub detail: Option<Event>,
    /// The detail is a guess, because the log's positions belong to a queue of unknown size.
    pub guessed: bool,
    pub identify_nsid: u32,
}

/// A command in its form on the bus.
pub struct Built {
    pub sqe: Sqe,
    pub flow: Option<DataFlow>,
    /// Data pages (address, length), none across 4 KiB.
    pub pages: Vec<(u64, u32)>,
    pub data: Option<Vec<u8>>,
    /// PRP list or SGL segment the drive reads before the data: address and content.
    pub list: Option<(u64, Vec<u8>)>,
    pub action: Action,
}

/// Information that building needs besides the command.
pub struct Context<'a> {
    pub survey: &'a Survey,
    pub page_size: u64,
    pub next_page: u64,
    /// Number of reads and writes without a size in the log.
    pub unsized_commands: u64,
    /// Current block size of each namespace in bytes, where a read or write revealed it.
    pub lba_sizes: HashMap<u32, u32>,
}

impl Command {
    /// Takes a line that belongs to this command; `false` if it does not.
    pub fn absorb(&mut self, event: &Event) -> bool {
        let same = |cid: u16, mine: Option<u16>| mine.is_none_or(|m| m == cid);
        match *event {
            Event::Blocks { cid, nsid, nlb, count, lba, opc } if self.io && same(cid, self.cid) => {
                self.blocks = Some((lba, nlb));
                self.bytes = count;
                if self.nsid == 0 {
                    (self.nsid, self.opc) = (nsid, opc);
                }
            }
            Event::Copy { cid, nr, .. } if self.io && same(cid, self.cid) => self.copy_ranges = Some(nr),
            Event::FlushNs | Event::DsmRange { .. } => {}
            Event::Dsm { nr, attr } if self.io && self.opc == io::DSM => self.dsm = Some((nr, attr)),
            // a compare maps its data long after its command: a later mapping may be another's
            Event::MapPrp { len, prp1, prp2 } if self.maps() => {
                self.prp.get_or_insert((len, prp1, prp2));
            }
            Event::MapSgl { kind, len } if self.maps() => {
                self.sgl.get_or_insert((kind, len));
            }
            Event::MapAddr { addr, len } => self.pages.push((addr, len)),
            Event::Identify { cid, .. }
            | Event::GetLog { cid, .. }
            | Event::GetFeature { cid, .. }
            | Event::SetFeature { cid, .. }
            | Event::Aer { cid }
                if !self.io && same(cid, self.cid) =>
            {
                self.detail = Some(*event);
            }
            Event::IdentifyNsid { nsid } if !self.io => self.identify_nsid = nsid,
            Event::CreateSq { .. }
            | Event::CreateCq { .. }
            | Event::DelSq { .. }
            | Event::DelCq { .. }
            | Event::Format { .. }
            | Event::DbBuf { .. }
                if !self.io =>
            {
                self.detail = Some(*event);
            }
            _ => return false,
        }
        true
    }

    /// Whether the log's next memory mapping belongs to this command.
    fn maps(&self) -> bool {
        !self.io || !matches!(self.opc, io::FLUSH | io::WRITE_ZEROES | io::VERIFY | io::COMPARE)
    }

    /// A command known only from a detail line: `io_cmd` or `admin_cmd` is not in the log.
    pub fn implied(event: &Event, sqid: u16) -> Option<Self> {
        let base = |io, cid, opc| Self { io, sqid: if io { sqid } else { 0 }, cid, opc, ..Self::default() };
        let mut command = match *event {
            Event::Blocks { cid, nsid, opc, .. } => Self { nsid, ..base(true, Some(cid), opc) },
            Event::Copy { cid, nsid, .. } => Self { nsid, ..base(true, Some(cid), io::COPY) },
            Event::Identify { cid, .. } => base(false, Some(cid), admin::IDENTIFY),
            Event::GetLog { cid, .. } => base(false, Some(cid), admin::GET_LOG_PAGE),
            Event::GetFeature { cid, .. } => base(false, Some(cid), admin::GET_FEATURES),
            Event::SetFeature { cid, .. } => base(false, Some(cid), admin::SET_FEATURES),
            Event::Aer { cid } => base(false, Some(cid), admin::ASYNC_EVENT_REQUEST),
            Event::CreateSq { .. } => base(false, None, admin::CREATE_IO_SQ),
            Event::CreateCq { .. } => base(false, None, admin::CREATE_IO_CQ),
            Event::DelSq { .. } => base(false, None, admin::DELETE_IO_SQ),
            Event::DelCq { .. } => base(false, None, admin::DELETE_IO_CQ),
            Event::DbBuf { .. } => base(false, None, admin::DOORBELL_BUFFER_CONFIG),
            _ => return None,
        };
        command.absorb(event);
        Some(command)
    }

    /// Rebuilds the entry, and the data and actions that belong to it.
    pub fn build(&self, context: &mut Context<'_>) -> Built {
        let sqe = Sqe::new(self.opc, self.cid.unwrap_or(0), self.nsid);
        let mut built = Built { sqe, flow: None, pages: Vec::new(), data: None, list: None, action: Action::None };
        if self.io {
            self.build_io(&mut built, context);
        } else {
            self.build_admin(&mut built, context);
        }
        built
    }

    fn build_io(&self, built: &mut Built, context: &mut Context<'_>) {
        let lba_size = context.survey.namespaces.get(&self.nsid).copied().unwrap_or_default().lba_size();
        let scale = context.scale(self, lba_size);
        let moves = matches!(self.opc, io::READ | io::WRITE | io::COMPARE | io::ZONE_APPEND);
        let mapped = self.prp.map(|p| u64::from(p.0)).or(self.sgl.map(|s| s.1));
        let blocks = self.blocks.map(|(slba, nlb)| (slba.saturating_mul(scale.into()), nlb.saturating_mul(scale)));
        context.unsized_commands += u64::from(scale > 1 && blocks.is_some_and(|b| b.1 > 1 << 16)); // NLB has 16 bits
        if let Some((slba, nlb)) = blocks {
            built.sqe = built.sqe.blocks(slba, nlb);
        } else if moves || matches!(self.opc, io::WRITE_ZEROES | io::VERIFY) {
            context.unsized_commands += 1;
            built.sqe = built.sqe.blocks(0, mapped.map_or(1, |bytes| (bytes / u64::from(lba_size)) as u32));
        }
        let blocks = blocks.map_or(0, |b| u64::from(b.1));
        let mut len = if moves { mapped.or(self.bytes).unwrap_or(blocks * u64::from(lba_size)) } else { 0 };
        if self.opc == io::DSM {
            let known = self.dsm_index.and_then(|i| context.survey.dsm.get(i)).map_or(&[][..], Vec::as_slice);
            let from_len = mapped.map(|bytes| (bytes / 16) as u32);
            let (nr, attr) = self.dsm.unwrap_or((from_len.unwrap_or(known.len() as u32).max(1), 4));
            built.sqe = built.sqe.dword(10, nr.saturating_sub(1) & 0xFF).dword(11, attr);
            let range = |r: &(u64, u32)| dsm_range(r.0.saturating_mul(scale.into()), r.1.saturating_mul(scale));
            let mut data: Vec<u8> = known.iter().take(nr as usize).flat_map(range).collect();
            data.resize(16 * nr as usize, 0);
            len = data.len() as u64;
            built.data = Some(data);
        } else if self.opc == io::COPY {
            let nr = self.copy_ranges.unwrap_or(1);
            built.sqe = built.sqe.dword(12, nr.saturating_sub(1) & 0xFF);
            len = mapped.unwrap_or(32 * u64::from(nr));
        }
        if len > 0 {
            let to_host = matches!(self.opc, io::READ);
            built.flow = Some(if to_host { DataFlow::ToHost } else { DataFlow::FromHost });
            self.place(built, context, len.min(1 << 26));
        }
    }

    fn build_admin(&self, built: &mut Built, context: &mut Context<'_>) {
        let mut sqe = built.sqe;
        let mut len = self.prp.map_or(0, |p| u64::from(p.0));
        match self.detail {
            Some(Event::Identify { cns, ctrlid, csi, .. }) => {
                sqe.0[4..8].copy_from_slice(&self.identify_nsid.to_le_bytes());
                sqe = sqe.dword(10, u32::from(cns) | u32::from(ctrlid) << 16).dword(11, u32::from(csi) << 24);
                len = identify::SIZE as u64;
                built.data = Some(match cns {
                    0 => identify::namespace(context.survey.namespaces.get(&self.identify_nsid)),
                    1 => identify::controller(context.survey),
                    2 => identify::active_list(context.survey, self.identify_nsid),
                    _ => vec![0; identify::SIZE],
                });
            }
            Some(Event::GetLog { lid, lsp, rae, len: bytes, off, .. }) => {
                let dwords = (bytes / 4).saturating_sub(1);
                sqe = sqe
                    .dword(10, u32::from(lid) | u32::from(lsp) << 8 | u32::from(rae) << 15 | dwords << 16)
                    .dword(11, dwords >> 16)
                    .dword(12, off as u32)
                    .dword(13, (off >> 32) as u32);
                len = bytes.into();
            }
            Some(Event::GetFeature { nsid, fid, sel, cdw11, .. }) => {
                sqe.0[4..8].copy_from_slice(&nsid.to_le_bytes());
                sqe = sqe.dword(10, u32::from(fid) | u32::from(sel) << 8).dword(11, cdw11);
            }
            Some(Event::SetFeature { nsid, fid, save, cdw11, .. }) => {
                sqe.0[4..8].copy_from_slice(&nsid.to_le_bytes());
                sqe = sqe.dword(10, u32::from(fid) | u32::from(save) << 31).dword(11, cdw11);
            }
            Some(Event::CreateSq { addr, sqid, cqid, qsize, qflags }) => {
                sqe = sqe
                    .prp(addr, 0)
                    .dword(10, u32::from(sqid) | qsize << 16)
                    .dword(11, u32::from(qflags) | u32::from(cqid) << 16);
                let size = qsize.min(0xFFFF) + 1;
                built.action = Action::CreateSq(sqid, Sq::new(addr, size, cqid, (!self.guessed).then_some(size)));
            }
            Some(Event::CreateCq { addr, cqid, vector, qsize, qflags }) => {
                sqe = sqe
                    .prp(addr, 0)
                    .dword(10, u32::from(cqid) | qsize << 16)
                    .dword(11, u32::from(qflags) | u32::from(vector) << 16);
                let size = qsize.min(0xFFFF) + 1;
                built.action = Action::CreateCq(cqid, Cq::new(addr, size, vector, (!self.guessed).then_some(size)));
            }
            Some(Event::DelSq { sqid }) => {
                sqe = sqe.dword(10, sqid.into());
                built.action = Action::DeleteSq(sqid);
            }
            Some(Event::DelCq { cqid }) => {
                sqe = sqe.dword(10, cqid.into());
                built.action = Action::DeleteCq(cqid);
            }
            Some(Event::Format { nsid, lbaf }) => {
                sqe.0[4..8].copy_from_slice(&nsid.to_le_bytes());
                sqe = sqe.dword(10, lbaf.into());
            }
            Some(Event::DbBuf { dbs, eis }) => sqe = sqe.prp(dbs, eis),
            _ => {}
        }
        built.sqe = sqe;
        // Bits 1:0 of an opcode give the direction of its data.
        built.flow = match self.opc & 3 {
            1 if len > 0 => Some(DataFlow::FromHost),
            2 if len > 0 => Some(DataFlow::ToHost),
            _ => None,
        };
        if built.flow.is_some() {
            self.place(built, context, len);
        }
    }

    /// Places `len` bytes of data in memory: at the log's addresses where it has them, else in pages of our own. Writes
    /// the data pointer, and a PRP list or an SGL segment where needed.
    fn place(&self, built: &mut Built, context: &mut Context<'_>, len: u64) {
        let page = context.page_size;
        // Ranges of a Dataset Management must stay readable for a tap that does not follow SGLs, so they get a PRP.
        let sgl = self.sgl.filter(|_| built.data.is_none());
        if let (Some((kind, total)), None) = (sgl, self.prp) {
            let (first, pages) = context.contiguous(total);
            built.pages = pages;
            built.sqe = if kind == 0 {
                built.sqe.sgl(first, total as u32, 0)
            } else {
                // the log does not say how many descriptors the host used: one that covers everything
                let (segment, _) = context.contiguous(16);
                built.list = Some((segment, sgl_descriptor(first, total as u32, 0).to_vec()));
                built.sqe.sgl(segment, 16, 3)
            };
            return;
        }
        let (prp1, prp2) = match self.prp {
            Some((_, prp1, prp2)) => (prp1, Some(prp2)),
            None => (context.contiguous(1).0, None),
        };
        let mut starts = vec![(prp1, len.min(page - prp1 % page))];
        let mut left = len - starts[0].1;
        let many = left > page;
        let logged = self.pages.get(1..).unwrap_or(&[]);
        while left > 0 {
            let n = left.min(page);
            let start = match (many, prp2) {
                (false, Some(prp2)) => prp2,
                _ => logged.get(starts.len() - 1).map_or_else(|| context.contiguous(1).0, |p| p.0),
            };
            starts.push((start, n));
            left -= n;
        }
        let entry2 = match (starts.len(), prp2) {
            (_, Some(prp2)) => prp2,
            (1, None) => 0,
            (2, None) => starts[1].0,
            _ => context.contiguous(8 * starts.len() as u64).0,
        };
        if many {
            let entries = starts[1..].iter().flat_map(|s| s.0.to_le_bytes()).collect();
            built.list = Some((entry2, entries));
        }
        built.sqe = built.sqe.prp(prp1, entry2);
        built.pages =
            starts.into_iter().flat_map(|(at, n)| wattbell_bus::split::requests(at, n as u32, 4096)).collect();
    }
}

impl Context<'_> {
    /// Blocks of `shown` bytes per block of `command`: not 1 where its namespace was reformatted to another size.
    fn scale(&mut self, command: &Command, shown: u32) -> u32 {
        if let (Some((_, nlb)), Some(bytes)) = (command.blocks, command.bytes) {
            if let Some(size) = lba_size(nlb, bytes) {
                self.lba_sizes.insert(command.nsid, size);
            }
        }
        self.lba_sizes.get(&command.nsid).map_or(1, |size| (size / shown).max(1))
    }

    /// `len` bytes of page-aligned memory of our own: its address, and its 4 KiB pages.
    fn contiguous(&mut self, len: u64) -> (u64, Vec<(u64, u32)>) {
        let count = len.div_ceil(self.page_size).max(1) * (self.page_size / 4096);
        if self.next_page + count > PAGE_COUNT {
            self.next_page = 0;
        }
        let first = PAGE_MEMORY + 4096 * self.next_page.next_multiple_of(self.page_size / 4096);
        self.next_page += count;
        (first, wattbell_bus::split::requests(first, len as u32, 4096).collect())
    }
}
