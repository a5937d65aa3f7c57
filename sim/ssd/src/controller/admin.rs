//! Admin commands (NVM Express 1.4, section 5): which is which. Queues, features, log pages, namespaces and the long
//! ones (Format NVM, Sanitize) have modules of their own.

use crate::admin::identify;
use crate::controller::{Controller, Event};
use crate::host::BusSink;
use crate::nvme::{admin, Sqe, Status};

impl<S: BusSink> Controller<S> {
    /// Takes up an admin command.
    fn execute_admin(&mut self, id: u32) {
        let sqe = self.command(id).sqe;
        if !self.allowed_now(&sqe) {
            return self.fail(id, Status::SANITIZE_IN_PROGRESS);
        }
        let result = match sqe.opcode() {
            admin::DELETE_IO_SQ => self.delete_sq(&sqe),
            admin::CREATE_IO_SQ => self.create_sq(&sqe),
            admin::DELETE_IO_CQ => self.delete_cq(&sqe),
            admin::CREATE_IO_CQ => self.create_cq(&sqe),
            admin::IDENTIFY => return self.identify(id, &sqe),
            admin::GET_LOG_PAGE => return self.log_page(id, &sqe),
            admin::SET_FEATURES => return self.set_features(id, &sqe),
            admin::GET_FEATURES => return self.get_features(id, &sqe),
            admin::ABORT => {
                self.abort(id, &sqe);
                Ok(())
            }
            admin::ASYNC_EVENT_REQUEST => return self.async_request(id),
            admin::DEVICE_SELF_TEST if self.profile.offer.self_test() => self.device_self_test(&sqe),
            admin::FORMAT_NVM => return self.format(id, &sqe),
            admin::SANITIZE if !self.profile.offer.sanitize.is_empty() => return self.sanitize(id, &sqe),
            admin::NAMESPACE_MANAGEMENT if *self.profile.offer.namespace_management => {
                return self.manage_namespace(id, &sqe)
            }
            admin::NAMESPACE_ATTACHMENT if *self.profile.offer.namespace_management => {
                return self.attach_namespace(id, &sqe)
            }
            _ => Err(Status::INVALID_OPCODE),
        };
        match result {
            Ok(()) => self.finish_at(id, self.now),
            Err(status) => self.fail(id, status),
        }
    }

    fn identify(&mut self, id: u32, sqe: &Sqe) {
        match self.identity(sqe) {
            Ok(data) => {
                self.command(id).data = data;
                self.resolve(id, 4096);
            }
            Err(status) => self.fail(id, status),
        }
    }

    /// The structure an Identify command asks for. With namespace management the structures of allocated namespaces
    /// (CNS 10h and up) exist too.
    fn identity(&self, sqe: &Sqe) -> Result<Vec<u8>, Status> {
        let (nsid, all) = (sqe.nsid(), &self.namespaces);
        let managed = *self.profile.offer.namespace_management;
        let known = (1..=all.most()).contains(&nsid);
        Ok(match sqe.cdw(10) & 0xFF {
            0x00 if nsid == u32::MAX && managed => identify::namespace_common(all),
            // a namespace that is not active has a structure full of zeroes
            0x00 if known => all.active(nsid).map_or(vec![0; 4096], |n| self.namespace_structure(nsid, n)),
            0x01 => identify::controller(&self.profile, all, self.store.is_some()),
            0x02 if nsid < 0xFFFF_FFFE => identify::namespace_list(all.list(nsid, false)),
            0x03 if known => {
                let namespace = all.active(nsid).ok_or(Status::INVALID_FIELD)?;
                identify::namespace_descriptors(&self.profile, namespace)
            }
            0x10 if managed && nsid < 0xFFFF_FFFE => identify::namespace_list(all.list(nsid, true)),
            0x11 if managed && known => {
                all.allocated(nsid).map_or(vec![0; 4096], |n| self.namespace_structure(nsid, n))
            }
            0x12 if managed && known => {
                let attached = all.active(nsid).is_some();
                identify::controller_list(attached && (sqe.cdw(10) >> 16) as u16 <= identify::CONTROLLER_ID)
            }
            0x13 if managed => identify::controller_list((sqe.cdw(10) >> 16) as u16 <= identify::CONTROLLER_ID),
            0x00 | 0x02 | 0x03 => return Err(Status::INVALID_NAMESPACE),
            0x10..=0x12 if managed => return Err(Status::INVALID_NAMESPACE),
            _ => return Err(Status::INVALID_FIELD),
        })
    }

    fn namespace_structure(&self, nsid: u32, namespace: &crate::admin::namespaces::Namespace) -> Vec<u8> {
        let left = self.maintenance.percent_left(nsid, self.now);
        identify::namespace(&self.profile, namespace, self.namespaces.formats(), left)
    }

    /// Abort: an Asynchronous Event Request that waits is ended; anything else runs to its end (DW0 bit 0 says so).
    fn abort(&mut self, id: u32, sqe: &Sqe) {
        let (qid, cid) = (sqe.cdw(10) as u16, (sqe.cdw(10) >> 16) as u16);
        let commands = &self.commands;
        let held = self.async_events.take_request(|a| {
            let c = commands[a as usize].as_ref();
            qid == 0 && c.is_some_and(|c| c.sqe.cid() == cid)
        });
        match held {
            Some(event) => {
                self.in_hand += 1;
                self.fail(event, Status::ABORTED_BY_REQUEST);
                self.command(id).dw0 = 0;
            }
            None => self.command(id).dw0 = 1,
        }
    }

    /// A structure the command needs has arrived.
    pub(crate) fn structure_in(&mut self, id: u32) {
        let c = self.command(id);
        if !c.status.is_success() {
            return self.finish_at(id, self.now);
        }
        match (c.qid, c.sqe.opcode()) {
            (0, admin::NAMESPACE_MANAGEMENT) => self.create_namespace(id),
            (0, admin::NAMESPACE_ATTACHMENT) => self.controllers_in(id),
            (0, _) => self.features_in(id),
            _ => self.deallocate(id),
        }
    }

    /// PRPs are known: the data goes where it belongs. Bit 0 of an admin opcode says that it comes from the host.
    pub(crate) fn transfer(&mut self, id: u32) {
        let c = self.command(id);
        match (c.qid, c.sqe.opcode() & 1) {
            (0, 1) => self.fetch_structure(id),
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
