//! Creating and deleting I/O queues (NVM Express 1.4, sections 5.3 to 5.6).

use crate::controller::Controller;
use crate::host::BusSink;
use crate::nvme::queue::{Cq, Sq};
use crate::nvme::{Sqe, Status};

impl<S: BusSink> Controller<S> {
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

    pub(crate) fn create_cq(&mut self, sqe: &Sqe) -> Result<(), Status> {
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

    pub(crate) fn create_sq(&mut self, sqe: &Sqe) -> Result<(), Status> {
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

    pub(crate) fn delete_sq(&mut self, sqe: &Sqe) -> Result<(), Status> {
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

    pub(crate) fn delete_cq(&mut self, sqe: &Sqe) -> Result<(), Status> {
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
}
