//! Logs shared by two controllers. No event names its controller, so the converter merges the controllers into one. The merged controller
//! has the converter's own queues and a new identifier for every command. Doorbells and administration are left out.

use super::event::Event;
use std::collections::{HashMap, VecDeque};
use wattbell_spec::nvme::admin;

/// Number of identifiers. They wrap below the identifiers of added commands, and are far more than are ever in flight.
const IDENTIFIERS: u16 = 0xF000;

/// Renames commands, and removes events of the queues of only one controller.
#[derive(Debug, Default)]
pub struct Merge {
    next: u16,
    /// New identifiers of commands in flight, oldest first, by queue and the log's identifier.
    open: HashMap<(u16, u16), VecDeque<u16>>,
    /// The admin command to which the log's next details belong, if it was kept.
    admin: Option<u16>,
    last: Option<(u16, u16)>,
}

impl Merge {
    /// Returns the event as a single controller would have logged it, or `None` if the event is left out.
    pub fn pass(&mut self, event: &Event) -> Option<Event> {
        Some(match *event {
            Event::IoCmd { cid, nsid, sqid, opc } => Event::IoCmd { cid: self.begin(sqid, cid), nsid, sqid, opc },
            Event::Blocks { cid, nsid, nlb, count, lba, opc } => {
                Event::Blocks { cid: self.latest(cid), nsid, nlb, count, lba, opc }
            }
            Event::Copy { cid, nsid, nr } => Event::Copy { cid: self.latest(cid), nsid, nr },
            Event::Dsm { .. } | Event::DsmRange { .. } | Event::FlushNs => *event,
            Event::MapPrp { .. } | Event::MapSgl { .. } | Event::MapAddr { .. } => {
                self.last?;
                *event
            }
            // features carry the markers of phases (docs/capture.md)
            Event::AdminCmd { cid, sqid, opc: opc @ admin::GET_FEATURES } => {
                let renamed = self.begin(sqid, cid);
                self.admin = Some(cid);
                Event::AdminCmd { cid: renamed, sqid, opc }
            }
            Event::AdminCmd { .. } => {
                (self.admin, self.last) = (None, None);
                return None;
            }
            Event::GetFeature { cid, nsid, fid, sel, cdw11 } if self.admin == Some(cid) => {
                Event::GetFeature { cid: self.latest(cid), nsid, fid, sel, cdw11 }
            }
            Event::Complete { cid, cqid, dw0, dw1, status } => {
                let cid = self.open.get_mut(&(cqid, cid))?.pop_front()?;
                Event::Complete { cid, cqid, dw0, dw1, status }
            }
            _ => return None,
        })
    }

    fn begin(&mut self, sqid: u16, cid: u16) -> u16 {
        let renamed = self.next;
        self.next = (self.next + 1) % IDENTIFIERS;
        self.open.entry((sqid, cid)).or_default().push_back(renamed);
        self.last = Some((cid, renamed));
        renamed
    }

    /// Returns the new identifier of the command that the present detail lines belong to.
    fn latest(&self, cid: u16) -> u16 {
        self.last.filter(|last| last.0 == cid).map_or(IDENTIFIERS - 1, |last| last.1)
    }
}
