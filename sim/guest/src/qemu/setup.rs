//! The start of every session of the drive, and the converter's additions where the log starts in the middle: enumeration, admin queue,
//! Identify, I/O queues.

use super::convert::{Converter, ADDED_PS};
use super::event::Event;
use super::identify;
use super::queues::{Action, Cq, InFlight, Queues, Sq};
use super::registers::Registers;
use super::sqe::{Cqe, Sqe};
use super::wire::{DataFlow, BAR0};
use std::io::Write;
use wattbell_bus::{LinkState, Result, Signal};
use wattbell_spec::nvme::admin;

/// CC of a driver that uses 64-byte SQEs, 16-byte CQEs and 4 KiB pages, enabled.
const CC_ENABLED: u32 = 0x0046_0001;
/// Addresses for queues without an address in the log: above any guest memory.
const QUEUE_MEMORY: u64 = 0x70_0000_0000;
const QUEUE_STRIDE: u64 = 0x4_0000;
/// Entries of queues without a size in the log (Linux's default).
const QUEUE_SIZE: u32 = 1024;
const ADMIN_SIZE: u32 = 32;
/// Scratch page for data of added commands.
const SCRATCH: u64 = 0x6F_FFFF_F000;
/// CIDs of added commands: Linux's generation counter in the upper bits makes collisions rare.
const ADDED_CID: u16 = 0xF000;
const PERST_PS: u64 = 100_000_000;

impl<W: Write> Converter<'_, W> {
    /// PERST# low and high again, link up, BAR0 set, CAP read.
    pub fn power_up(&mut self) -> Result<()> {
        self.wire.cancel_transfers();
        self.queues = Queues::default();
        self.registers = Registers::default();
        self.vectors.clear();
        self.wire.sideband(Signal::PerstN, 0)?;
        self.wire.sideband(Signal::LinkState, LinkState::Detect as u8)?;
        self.wire.sideband(Signal::ClkreqN, 0)?;
        self.wire.pause(PERST_PS)?;
        self.wire.sideband(Signal::PerstN, 1)?;
        self.wire.pause(PERST_PS)?;
        self.wire.sideband(Signal::LinkState, LinkState::L0 as u8)?;
        self.wire.config_write(0x10, u32::MAX)?;
        self.wire.config_write(0x14, u32::MAX)?;
        self.wire.config_write(0x10, BAR0 as u32)?;
        self.wire.config_write(0x14, (BAR0 >> 32) as u32)?;
        self.wire.config_write(0x04, 0x0000_0006)?; // memory space, bus master
        for offset in [0, 4, 8] {
            self.wire.read_register(offset, &self.registers.read(offset).to_le_bytes())?;
        }
        self.registers.enumerated = true;
        Ok(())
    }

    /// A write of CC, and its effect on the queues.
    pub fn write_cc(&mut self, value: u32) -> Result<()> {
        let was = self.registers.enabled();
        let rises = value & 1 != 0 && !was;
        if rises {
            self.admin_registers()?;
        }
        self.wire.write_register(0x14, &value.to_le_bytes())?;
        self.registers.cc = value;
        if rises {
            let (aqa, asq, acq) = (self.registers.aqa, self.registers.asq, self.registers.acq);
            self.queues = Queues::default();
            let size = (aqa & 0xFFF) + 1;
            self.queues.sqs.insert(0, Sq::new(asq, size, 0, Some(size)));
            let size = (aqa >> 16 & 0xFFF) + 1;
            self.queues.cqs.insert(0, Cq::new(acq, size, 0, Some(size)));
        } else if was && value & 1 == 0 {
            self.wire.cancel_transfers();
            self.queues = Queues::default();
        }
        Ok(())
    }

    /// Writes AQA, ASQ and ACQ where the log shows none.
    fn admin_registers(&mut self) -> Result<()> {
        if self.registers.asq != 0 && self.registers.acq != 0 {
            return Ok(());
        }
        self.registers.aqa = (ADMIN_SIZE - 1) << 16 | (ADMIN_SIZE - 1);
        self.registers.asq = QUEUE_MEMORY;
        self.registers.acq = QUEUE_MEMORY + QUEUE_STRIDE / 2;
        self.wire.write_register(0x24, &self.registers.aqa.to_le_bytes())?;
        self.wire.write_register(0x28, &self.registers.asq.to_le_bytes())?;
        self.wire.write_register(0x30, &self.registers.acq.to_le_bytes())
    }

    /// A controller that was already running when the log began: everything up to CC.EN = 1.
    pub fn bring_up(&mut self) -> Result<()> {
        if !self.registers.enumerated {
            self.power_up()?;
        }
        self.tally.brought_up += 1;
        self.write_cc(CC_ENABLED)?;
        // The admin queue's positions in the log are unknown.
        if let (Some(sq), Some(cq)) = (self.queues.sqs.get_mut(&0), self.queues.cqs.get_mut(&0)) {
            (sq.log_size, sq.log_tail) = (None, None);
            (cq.log_size, cq.log_head) = (None, None);
        }
        Ok(())
    }

    /// Identify Controller and Namespaces, for a log in which no driver requests them.
    pub fn identify_all(&mut self) -> Result<()> {
        let controller = identify::controller(self.survey);
        let sqe = Sqe::new(admin::IDENTIFY, 0, 0).prp(SCRATCH, 0).dword(10, 1);
        self.added_command(sqe, Some(&controller), Action::None)?;
        for (&nsid, facts) in &self.survey.namespaces {
            let sqe = Sqe::new(admin::IDENTIFY, 0, nsid).prp(SCRATCH, 0);
            self.added_command(sqe, Some(&identify::namespace(Some(facts))), Action::None)?;
        }
        Ok(())
    }

    /// Ensures that the submission queue `sqid` exists. Creates it, with its completion queue, if the log used it before creating it.
    pub fn ensure_sq(&mut self, sqid: u16) -> Result<()> {
        if !self.registers.enabled() {
            self.bring_up()?;
        }
        if self.queues.sqs.contains_key(&sqid) {
            return Ok(());
        }
        let cqid = if self.queues.cqs.contains_key(&sqid) { sqid } else { self.create_cq(sqid)? };
        let address = QUEUE_MEMORY + QUEUE_STRIDE * u64::from(sqid);
        let sqe = Sqe::new(admin::CREATE_IO_SQ, 0, 0)
            .prp(address, 0)
            .dword(10, u32::from(sqid) | (QUEUE_SIZE - 1) << 16)
            .dword(11, 1 | u32::from(cqid) << 16);
        self.tally.queues_added += 1;
        self.added_command(sqe, None, Action::CreateSq(sqid, Sq::new(address, QUEUE_SIZE, cqid, None)))
    }

    /// The completion queue `cqid`; created if needed.
    pub fn ensure_cq(&mut self, cqid: u16) -> Result<()> {
        if !self.registers.enabled() {
            self.bring_up()?;
        }
        if !self.queues.cqs.contains_key(&cqid) {
            self.create_cq(cqid)?;
        }
        Ok(())
    }

    fn create_cq(&mut self, cqid: u16) -> Result<u16> {
        let address = QUEUE_MEMORY + QUEUE_STRIDE * u64::from(cqid) + QUEUE_STRIDE / 2;
        let sqe = Sqe::new(admin::CREATE_IO_CQ, 0, 0)
            .prp(address, 0)
            .dword(10, u32::from(cqid) | (QUEUE_SIZE - 1) << 16)
            .dword(11, 3 | u32::from(cqid) << 16);
        self.tally.queues_added += 1;
        self.added_command(sqe, None, Action::CreateCq(cqid, Cq::new(address, QUEUE_SIZE, cqid, None)))?;
        Ok(cqid)
    }

    /// Guesses the queue that an admin command without detail lines creates or deletes. Drivers create queues in order of number, and
    /// delete the last queue first.
    pub fn guess_queue(&self, opc: u8) -> Option<Event> {
        let (sqs, cqs) = (&self.queues.sqs, &self.queues.cqs);
        let last = |ids: Option<&u16>| ids.copied().filter(|&id| id != 0);
        let address = |id: u16| QUEUE_MEMORY + QUEUE_STRIDE * u64::from(id);
        let qsize = QUEUE_SIZE - 1;
        Some(match opc {
            admin::CREATE_IO_CQ => {
                let cqid = cqs.keys().next_back().map_or(1, |id| id + 1);
                Event::CreateCq { addr: address(cqid) + QUEUE_STRIDE / 2, cqid, vector: cqid, qsize, qflags: 3 }
            }
            admin::CREATE_IO_SQ => {
                let sqid = cqs.keys().copied().find(|id| !sqs.contains_key(id))?;
                Event::CreateSq { addr: address(sqid), sqid, cqid: sqid, qsize, qflags: 1 }
            }
            admin::DELETE_IO_SQ => Event::DelSq { sqid: last(sqs.keys().next_back())? },
            admin::DELETE_IO_CQ => Event::DelCq { cqid: last(cqs.keys().next_back())? },
            _ => return None,
        })
    }

    /// A whole admin command that is missing from the log: doorbell, fetch, data, completion, CQ head doorbell.
    pub fn added_command(&mut self, mut sqe: Sqe, data: Option<&[u8]>, action: Action) -> Result<()> {
        let cid = ADDED_CID | (self.tally.commands_added as u16 & 0xFFF);
        self.tally.commands_added += 1;
        sqe.0[2..4].copy_from_slice(&cid.to_le_bytes());
        self.ring_extra(0)?;
        let owner = self.fetch_entry(0, &sqe)?;
        if let Some(data) = data {
            self.wire.transfer(owner, DataFlow::ToHost, &[(SCRATCH, data.len() as u32)], Some(data));
        }
        self.queues.commands.insert((0, cid), InFlight { owner, action });
        self.completion(0, Cqe { dw0: 0, dw1: 0, sqid: 0, cid, status: 0 })?;
        if let Some(cq) = self.queues.cqs.get_mut(&0) {
            cq.head = cq.tail; // the log's own head doorbells continue from where they were
            let head = cq.head;
            self.wire.write_register(0x1004, &head.to_le_bytes())?;
        }
        if data.is_some() {
            self.wire.pause(ADDED_PS)?;
        }
        Ok(())
    }
}
