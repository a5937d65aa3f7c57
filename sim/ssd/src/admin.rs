//! Admin commands (NVM Express 1.4, section 5).

use crate::controller::{Controller, Event};
use crate::features;
use crate::host::BusSink;
use crate::identify;
use crate::nvme::{admin, Sqe, Status};
use crate::profile::{S as SECOND, US};
use crate::queue::{Cq, Sq};
use crate::states::APST_BYTES;

/// Select field of Get Features.
const SELECT_CAPABILITIES: u32 = 3;

impl<S: BusSink> Controller<S> {
    /// Takes up an admin command.
    pub(crate) fn execute_admin(&mut self, id: u32) {
        let sqe = self.command(id).sqe;
        let result = match sqe.opcode() {
            admin::DELETE_SQ => self.delete_sq(&sqe),
            admin::CREATE_SQ => self.create_sq(&sqe),
            admin::DELETE_CQ => self.delete_cq(&sqe),
            admin::CREATE_CQ => self.create_cq(&sqe),
            admin::IDENTIFY => return self.identify(id, &sqe),
            admin::GET_LOG_PAGE => return self.log_page(id, &sqe),
            admin::SET_FEATURES if sqe.cdw(10) as u8 == features::id::APST => {
                return self.resolve(id, APST_BYTES as u32)
            }
            admin::SET_FEATURES => self.set_features(id, &sqe),
            admin::GET_FEATURES if sqe.cdw(10) as u8 == features::id::APST => return self.get_apst(id, &sqe),
            admin::GET_FEATURES => self.get_features(id, &sqe),
            admin::ABORT => {
                self.abort(id, &sqe);
                Ok(())
            }
            admin::ASYNC_EVENT => return self.async_request(id),
            _ => Err(Status::INVALID_OPCODE),
        };
        match result {
            Ok(()) => self.finish_at(id, self.now),
            Err(status) => self.fail(id, status),
        }
    }

    fn queue_size(&self, sqe: &Sqe) -> Result<u32, Status> {
        let size = (sqe.cdw(10) >> 16) + 1;
        if size < 2 || size > *self.profile.limits.max_queue_entries {
            return Err(Status::QUEUE_SIZE_INVALID);
        }
        if sqe.cdw(11) & 1 == 0 {
            return Err(Status::INVALID_FIELD); // CAP.CQR: queues must be physically contiguous
        }
        if sqe.prp1() % 4096 != 0 {
            return Err(Status::INVALID_PRP_OFFSET);
        }
        Ok(size)
    }

    fn create_cq(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let (qid, most) = (sqe.cdw(10) as u16, (self.features.queues >> 16) as u16 + 1);
        if qid == 0 || qid > most || self.cqs.contains_key(&qid) {
            return Err(Status::QID_INVALID);
        }
        let size = self.queue_size(sqe)?;
        let vector = (sqe.cdw(11) >> 16) as u16;
        if usize::from(vector) >= self.msix_table.len() {
            return Err(Status::VECTOR_INVALID);
        }
        let interrupts = sqe.cdw(11) & 2 != 0;
        self.cqs.insert(qid, Cq::new(sqe.prp1(), size, interrupts.then_some(vector)));
        Ok(())
    }

    fn create_sq(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let (qid, most) = (sqe.cdw(10) as u16, self.features.queues as u16 + 1);
        let cqid = (sqe.cdw(11) >> 16) as u16;
        if cqid == 0 || !self.cqs.contains_key(&cqid) {
            return Err(Status::CQ_INVALID);
        }
        if qid == 0 || qid > most || self.sqs.contains_key(&qid) {
            return Err(Status::QID_INVALID);
        }
        let size = self.queue_size(sqe)?;
        self.sqs.insert(qid, Sq::new(sqe.prp1(), size, cqid));
        if let Some(cq) = self.cqs.get_mut(&cqid) {
            cq.users += 1;
        }
        Ok(())
    }

    fn delete_sq(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let qid = sqe.cdw(10) as u16;
        if qid == 0 {
            return Err(Status::QID_INVALID);
        }
        let sq = self.sqs.remove(&qid).ok_or(Status::QID_INVALID)?;
        if let Some(cq) = self.cqs.get_mut(&sq.cqid) {
            cq.users -= 1;
        }
        Ok(())
    }

    fn delete_cq(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let qid = sqe.cdw(10) as u16;
        match self.cqs.get(&qid) {
            Some(_) if qid == 0 => Err(Status::QID_INVALID),
            None => Err(Status::QID_INVALID),
            Some(cq) if cq.users > 0 => Err(Status::QUEUE_DELETION_INVALID),
            Some(_) => {
                if let Some(cq) = self.cqs.remove(&qid) {
                    cq.posted.iter().for_each(|truth| self.sink.command(truth));
                    self.in_hand -= cq.blocked.len() as u32;
                }
                Ok(())
            }
        }
    }

    fn identify(&mut self, id: u32, sqe: &Sqe) {
        let nsid = sqe.nsid();
        let data = match sqe.cdw(10) & 0xFF {
            0x00 if nsid == 1 => {
                let used = *self.profile.namespace.lbas_512;
                identify::namespace(&self.profile, used)
            }
            0x00 if nsid == u32::MAX => return self.fail(id, Status::INVALID_FIELD), // no namespace management
            0x01 => identify::controller(&self.profile),
            0x02 if nsid < 0xFFFF_FFFE => identify::namespace_list(nsid),
            0x03 if nsid == 1 => identify::namespace_descriptors(&self.profile),
            0x00 | 0x02 | 0x03 => return self.fail(id, Status::INVALID_NAMESPACE),
            _ => return self.fail(id, Status::INVALID_FIELD),
        };
        self.command(id).data = data;
        self.resolve(id, 4096);
    }

    fn log_page(&mut self, id: u32, sqe: &Sqe) {
        let len = 4 * (u64::from(sqe.cdw(10) >> 16) | u64::from(sqe.cdw(11) & 0xFFFF) << 16) + 4;
        let offset = u64::from(sqe.cdw(12)) | u64::from(sqe.cdw(13)) << 32;
        let data = match sqe.cdw(10) as u8 {
            0x01 => {
                let mut log: Vec<u8> = self.errors.iter().flatten().copied().collect();
                log.resize(64 * identify::ERROR_LOG_ENTRIES, 0);
                log
            }
            0x02 => {
                self.health.busy_us = self.now / US;
                self.health.on_hours = self.now / (3600 * SECOND);
                identify::smart(&self.health)
            }
            0x03 => identify::firmware_slots(&self.profile),
            _ => return self.fail(id, Status::LOG_PAGE_INVALID),
        };
        // LPA does not offer an offset; what is asked for beyond the page's end reads as zeroes.
        if offset != 0 || len > 1 << (12 + *self.profile.limits.mdts) {
            return self.fail(id, Status::INVALID_FIELD);
        }
        let mut data = data;
        data.resize(len as usize, 0);
        self.command(id).data = data;
        self.resolve(id, len as u32);
    }

    fn set_features(&mut self, id: u32, sqe: &Sqe) -> Result<(), Status> {
        if sqe.cdw(10) >> 31 == 1 {
            return Err(Status::NOT_SAVEABLE);
        }
        let feature = sqe.cdw(10) as u8;
        if feature == features::id::POWER_MANAGEMENT {
            let state = (sqe.cdw(11) & 0x1F) as usize;
            if state >= self.profile.power_state.len() {
                return Err(Status::INVALID_FIELD);
            }
            self.states.request(self.now, state, &mut self.meter);
            return Ok(());
        }
        let queues = self.sqs.len() > 1 || self.cqs.len() > 1;
        self.command(id).dw0 = self.features.set(feature, sqe.cdw(11), queues)?;
        Ok(())
    }

    fn get_features(&mut self, id: u32, sqe: &Sqe) -> Result<(), Status> {
        let feature = sqe.cdw(10) as u8;
        let value = match feature {
            features::id::POWER_MANAGEMENT => u32::from(self.states.current()),
            _ => self.features.get(feature, sqe.cdw(11))?,
        };
        let capabilities = sqe.cdw(10) >> 8 & 7 == SELECT_CAPABILITIES;
        self.command(id).dw0 = if capabilities { 0x4 } else { value }; // changeable, not saveable, not per namespace
        Ok(())
    }

    fn get_apst(&mut self, id: u32, sqe: &Sqe) {
        let (enabled, table) = self.states.apst();
        let (dw0, data) = (u32::from(enabled), table.to_vec());
        let capabilities = sqe.cdw(10) >> 8 & 7 == SELECT_CAPABILITIES;
        let c = self.command(id);
        (c.dw0, c.data) = (if capabilities { 0x4 } else { dw0 }, data);
        self.resolve(id, APST_BYTES as u32);
    }

    /// The data of Set Features 0Ch has arrived.
    pub(crate) fn set_apst(&mut self, id: u32) {
        let c = self.command(id);
        let enabled = c.sqe.cdw(11) & 1 == 1;
        let mut table = [0; APST_BYTES];
        table.copy_from_slice(&c.data);
        if c.sqe.cdw(10) >> 31 == 1 {
            return self.fail(id, Status::NOT_SAVEABLE);
        }
        if !self.states.set_apst(enabled, &table) {
            return self.fail(id, Status::INVALID_FIELD);
        }
        self.finish_at(id, self.now);
    }

    /// Abort: an Asynchronous Event Request that waits is ended; anything else runs to its end (DW0 bit 0 says so).
    fn abort(&mut self, id: u32, sqe: &Sqe) {
        let (qid, cid) = (sqe.cdw(10) as u16, (sqe.cdw(10) >> 16) as u16);
        let held = self.async_events.iter().position(|&a| {
            let c = self.commands[a as usize].as_ref();
            qid == 0 && c.is_some_and(|c| c.sqe.cid() == cid)
        });
        match held.and_then(|at| self.async_events.remove(at)) {
            Some(event) => {
                self.in_hand += 1;
                self.fail(event, Status::ABORTED_BY_REQUEST);
                self.command(id).dw0 = 0;
            }
            None => self.command(id).dw0 = 1,
        }
    }

    fn async_request(&mut self, id: u32) {
        if self.async_events.len() > usize::from(identify::AER_LIMIT) {
            return self.fail(id, Status::AER_LIMIT);
        }
        if let Some(dw0) = self.async_pending.pop_front() {
            self.command(id).dw0 = dw0;
            return self.finish_at(id, self.now);
        }
        self.async_events.push_back(id);
        self.in_hand -= 1; // it may wait for ever: the controller is idle meanwhile
        self.settle();
    }

    /// A structure the command needs has arrived.
    pub(crate) fn structure_in(&mut self, id: u32) {
        let c = self.command(id);
        if !c.status.is_success() {
            return self.finish_at(id, self.now);
        }
        if c.qid == 0 {
            self.set_apst(id);
        } else {
            self.deallocate(id);
        }
    }

    /// PRPs are known: the data goes where it belongs.
    pub(crate) fn transfer(&mut self, id: u32) {
        let c = self.command(id);
        match (c.qid, c.sqe.opcode()) {
            (0, admin::SET_FEATURES) => self.fetch_structure(id),
            (0, _) => self.at(self.now, Event::ReturnStructure(id)),
            _ => self.transfer_io(id),
        }
    }

    /// Takes up a command whose turn it is.
    pub(crate) fn execute(&mut self, id: u32) {
        if self.command(id).sqe.fuse_psdt() & 3 != 0 {
            return self.fail(id, Status::INVALID_FIELD); // fused operations are not offered
        }
        if self.command(id).qid == 0 {
            self.execute_admin(id);
        } else {
            self.execute_io(id);
        }
    }
}
