//! Namespace Management and Namespace Attachment (NVM Express 1.4, sections 5.19 and 5.20).

use crate::admin::async_events::AsyncEvent;
use crate::admin::identify::CONTROLLER_ID;
use crate::controller::Controller;
use crate::host::BusSink;
use crate::nvme::{Sqe, Status};

impl<S: BusSink> Controller<S> {
    /// Namespace Management: create (when its structure is here) or delete.
    pub(crate) fn manage_namespace(&mut self, id: u32, sqe: &Sqe) {
        let result = match sqe.cdw(10) & 0xF {
            0 => return self.resolve(id, 4096),
            1 if sqe.nsid() == u32::MAX => {
                let all: Vec<u32> = self.namespaces.list(0, true).collect();
                all.into_iter().try_for_each(|nsid| self.delete_namespace(nsid))
            }
            1 => self.delete_namespace(sqe.nsid()),
            _ => Err(Status::INVALID_FIELD),
        };
        match result {
            Ok(()) => self.finish_at(id, self.now),
            Err(status) => self.fail(id, status),
        }
    }

    /// The structure of a namespace to create is here: NSZE, NCAP, FLBAS, DPS, NMIC (figure 245).
    pub(crate) fn create_namespace(&mut self, id: u32) {
        let d = std::mem::take(&mut self.command(id).data);
        let qword = |at: usize| d[at..at + 8].iter().rev().fold(0, |q, &b| q << 8 | u64::from(b));
        let (size, capacity, format) = (qword(0), qword(8), d[26] & 0xF);
        let created = if d[29] != 0 {
            Err(Status::INVALID_FORMAT) // no end-to-end protection
        } else if capacity < size {
            Err(Status::THIN_PROVISIONING)
        } else if capacity > size || d[30] & 1 != 0 {
            Err(Status::INVALID_FIELD) // or shared between controllers: there is only one
        } else {
            self.namespaces.create(size, format)
        };
        match created {
            Ok(nsid) => {
                self.command(id).dw0 = nsid;
                self.finish_at(id, self.now);
            }
            Err(status) => self.fail(id, status),
        }
    }

    fn delete_namespace(&mut self, nsid: u32) -> Result<(), Status> {
        if self.maintenance.formatting(nsid) {
            return Err(Status::FORMAT_IN_PROGRESS);
        }
        let gone = self.namespaces.delete(nsid)?;
        self.discard(gone.base, gone.base + gone.span);
        if gone.attached {
            self.namespace_changed(nsid);
        }
        Ok(())
    }

    /// Namespace Attachment: the controllers it is for are on their way.
    pub(crate) fn attach_namespace(&mut self, id: u32, sqe: &Sqe) {
        match sqe.cdw(10) & 0xF {
            0 | 1 => self.resolve(id, 4096),
            _ => self.fail(id, Status::INVALID_FIELD),
        }
    }

    /// The controller list is here: it must name this controller, the only one.
    pub(crate) fn controllers_in(&mut self, id: u32) {
        let c = self.command(id);
        let (sqe, d) = (c.sqe, std::mem::take(&mut c.data));
        let word = |at: usize| u16::from_le_bytes([d[at], d[at + 1]]);
        let result = if word(0) == 1 && word(2) == CONTROLLER_ID {
            self.namespaces.attach(sqe.nsid(), sqe.cdw(10) & 0xF == 0)
        } else {
            Err(Status::CONTROLLER_LIST_INVALID)
        };
        match result {
            Ok(()) => {
                self.namespace_changed(sqe.nsid());
                self.finish_at(id, self.now);
            }
            Err(status) => self.fail(id, status),
        }
    }

    fn namespace_changed(&mut self, nsid: u32) {
        self.changed_namespaces.insert(nsid);
        self.async_event(AsyncEvent::NAMESPACE_CHANGED);
    }
}
