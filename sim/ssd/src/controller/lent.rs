//! Traffic between the drive and the memory that the host lends it (Host Memory Buffer).
//!
//! The traffic delays no look-up, because the profile's times are those of the whole drive. It occupies the link, and so may shift other TLPs.
//! The data are numbers in place of map entries. The numbers reach host memory, and the drive counts changed bytes.

use super::agenda::Event;
use super::lending::Asked;
use super::want::Want;
use super::Controller;
use crate::flash::Access;
use crate::host::{BusSink, Host};
use crate::pcie::port::Payload;
use crate::profile::{Ps, LENT_READS};
use wattbell_bus::split;

impl<S: BusSink> Controller<S> {
    /// Puts the accesses that the flash made necessary on the agenda.
    #[inline]
    pub(super) fn plan_lent(&mut self) {
        while let Some((at, access)) = self.media.flash.next_access() {
            self.agenda.at(at.max(self.now), Event::Lent(access));
        }
    }

    /// Reads or writes lent memory now; without `host` the data are left out. Returns when the root complex answers, if that becomes known.
    /// Nothing happens if the host took the memory back.
    pub(super) fn reach_lent(&mut self, access: Access, mut host: Option<&mut dyn Host>) -> Option<Ps> {
        let address = self.admin.hmb.address(access.offset)?;
        if !access.write && self.lent.asked.len() + self.lent.wired >= LENT_READS {
            self.lent.waiting.push_back(access);
            return None;
        }
        let at = self.wake_link(self.now);
        let (port, traffic) = (&mut self.pcie.port, &mut self.lent.traffic);
        let (max_payload, max_read) = port.limits();
        let limit = if access.write { max_payload } else { max_read };
        let tlps = split::requests(address, access.len, limit).count() as u64;
        if access.write {
            (traffic.writes, traffic.written_bytes) =
                (traffic.writes + tlps, traffic.written_bytes + u64::from(access.len));
            if self.wire.is_some() {
                port.dma_write(at, address, Payload::Bytes(&self.lent.renewed(address, access.len)));
                return None;
            }
            port.dma_write(at, address, Payload::LeftOut(access.len));
            if let Some(host) = &mut host {
                self.lent.write(address, access.len, *host);
            }
            return None;
        }
        (traffic.reads, traffic.read_bytes) = (traffic.reads + tlps, traffic.read_bytes + u64::from(access.len));
        if self.wire.is_some() {
            self.lent.wired += 1;
            self.ask(Want::Lent { address, life: self.lent.life }, address, access.len);
            return None;
        }
        let request = port.dma_read(at, address, access.len);
        let answer = request.answer;
        self.lent.asked.push_back(Asked { request, address, len: access.len, life: self.lent.life });
        Some(answer)
    }

    /// The root complex answers the oldest read of lent memory. Returns when it answers a read that waited for this.
    pub(super) fn lent_answered(&mut self, mut host: Option<&mut dyn Host>) -> Option<Ps> {
        let Asked { request, address, len, life } = self.lent.asked.pop_front()?;
        self.pcie.port.answer(self.now, &request, None);
        if let Some(host) = &mut host {
            self.lent.read(address, len, life, *host);
        }
        self.lent.waiting.pop_front().and_then(|access| self.reach_lent(access, host))
    }
}
