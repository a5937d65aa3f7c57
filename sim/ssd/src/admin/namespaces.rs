//! Namespaces: parts of the drive's capacity with a size, a block format and an identity.
//!
//! Every namespace is one contiguous part of the media, in units of 4096 bytes. With several formats the same part holds
//! blocks of 512 or of 4096 bytes.

use crate::nvme::Status;
use crate::profile::{Profile, LBA, UNIT};
use std::collections::BTreeSet;

/// One namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// First byte on the media.
    pub base: u64,
    /// Bytes of the media that the namespace occupies: a multiple of 4096.
    pub span: u64,
    /// Logical blocks (NSZE and NCAP: there is no thin provisioning).
    pub blocks: u64,
    /// Number of the namespace's LBA format.
    pub format: u8,
    /// Block size as a power of two.
    pub shift: u8,
    /// Whether the controller sees it.
    pub attached: bool,
    /// Number of the namespace's creation, a part of its identity.
    pub generation: u32,
}

impl Namespace {
    /// Bytes that a host can address.
    pub fn bytes(&self) -> u64 {
        self.blocks << self.shift
    }
}

/// All namespaces of the subsystem.
pub struct Namespaces {
    slots: Vec<Option<Namespace>>,
    capacity: u64,
    formats: Vec<u8>,
    created: u32,
    /// Changed namespaces, for log page 04h.
    changed: BTreeSet<u32>,
}

impl Namespaces {
    /// Creates the namespaces of a new drive.
    pub fn new(profile: &Profile) -> Self {
        let offer = &profile.offer;
        let total = *profile.namespace.lbas_512;
        let mut all = Self {
            slots: vec![None; *offer.namespaces as usize],
            capacity: total * LBA,
            formats: offer.lba_formats.value.clone(),
            created: 0,
            changed: BTreeSet::new(),
        };
        let sizes = if offer.initial_lbas_512.is_empty() { vec![total] } else { offer.initial_lbas_512.value.clone() };
        let mut base = 0;
        for (slot, lbas) in sizes.into_iter().enumerate() {
            let shift = all.formats[0];
            let (span, blocks) = ((lbas * LBA).next_multiple_of(UNIT), (lbas * LBA) >> shift);
            all.created += 1;
            let generation = all.created;
            all.slots[slot] = Some(Namespace { base, span, blocks, format: 0, shift, attached: true, generation });
            base += span;
        }
        all
    }

    /// Highest identifier (NN).
    pub fn most(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Capacity of the drive in bytes (TNVMCAP).
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Capacity no namespace has (UNVMCAP), in bytes.
    pub fn unallocated(&self) -> u64 {
        self.capacity.saturating_sub(self.slots.iter().flatten().map(|n| n.span).sum())
    }

    /// Block sizes, as powers of two, by number of the LBA format.
    pub fn formats(&self) -> &[u8] {
        &self.formats
    }

    /// The namespace, attached or not.
    pub fn allocated(&self, nsid: u32) -> Option<&Namespace> {
        self.slots.get((nsid as usize).checked_sub(1)?)?.as_ref()
    }

    /// Returns the namespace, if the controller sees it.
    pub fn active(&self, nsid: u32) -> Option<&Namespace> {
        self.allocated(nsid).filter(|n| n.attached)
    }

    /// The namespace an I/O command names. An identifier beyond the highest is an invalid namespace; one that is not
    /// active is an invalid field (section 6.1.4).
    pub fn named(&self, nsid: u32) -> Result<&Namespace, Status> {
        if nsid == 0 || nsid > self.most() {
            return Err(Status::INVALID_NAMESPACE);
        }
        self.active(nsid).ok_or(Status::INVALID_FIELD)
    }

    /// Identifiers above `after` in rising order: of attached namespaces, or of all.
    pub fn list(&self, after: u32, all: bool) -> impl Iterator<Item = u32> + '_ {
        (after.saturating_add(1)..=self.most()).filter(move |&id| self.allocated(id).is_some_and(|n| all || n.attached))
    }

    /// Creates a namespace of `blocks` blocks, not attached; its identifier.
    pub fn create(&mut self, blocks: u64, format: u8) -> Result<u32, Status> {
        let shift = *self.formats.get(usize::from(format)).ok_or(Status::INVALID_FORMAT)?;
        let bytes = blocks.checked_mul(1 << shift).filter(|&b| b > 0).ok_or(Status::INVALID_FIELD)?;
        let span = bytes.checked_next_multiple_of(UNIT).ok_or(Status::INSUFFICIENT_CAPACITY)?;
        let base = self.gap(span).ok_or(Status::INSUFFICIENT_CAPACITY)?;
        let slot = self.slots.iter().position(Option::is_none).ok_or(Status::NSID_UNAVAILABLE)?;
        self.created += 1;
        let generation = self.created;
        self.slots[slot] = Some(Namespace { base, span, blocks, format, shift, attached: false, generation });
        Ok(slot as u32 + 1)
    }

    /// Returns the first gap between the other namespaces that is wide enough.
    fn gap(&self, span: u64) -> Option<u64> {
        let mut taken: Vec<(u64, u64)> = self.slots.iter().flatten().map(|n| (n.base, n.span)).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (base, length) in taken {
            if base - at >= span {
                return Some(at);
            }
            at = base + length;
        }
        (self.capacity.checked_sub(at)? >= span).then_some(at)
    }

    /// Deletes a namespace and returns it.
    pub fn delete(&mut self, nsid: u32) -> Result<Namespace, Status> {
        let slot = (nsid as usize).checked_sub(1).and_then(|i| self.slots.get_mut(i));
        slot.ok_or(Status::INVALID_NAMESPACE)?.take().ok_or(Status::INVALID_FIELD)
    }

    /// Attaches a namespace to the controller, or detaches it.
    pub fn attach(&mut self, nsid: u32, attached: bool) -> Result<(), Status> {
        let slot = (nsid as usize).checked_sub(1).and_then(|i| self.slots.get_mut(i));
        let namespace = slot.ok_or(Status::INVALID_NAMESPACE)?.as_mut().ok_or(Status::INVALID_FIELD)?;
        match (namespace.attached, attached) {
            (true, true) => Err(Status::ALREADY_ATTACHED),
            (false, false) => Err(Status::NOT_ATTACHED),
            _ => {
                namespace.attached = attached;
                Ok(())
            }
        }
    }

    /// Notes that this namespace came, went or changed, and that the host does not know yet.
    pub fn note_change(&mut self, nsid: u32) {
        self.changed.insert(nsid);
    }

    /// The host has read of all changes.
    pub fn forget_changes(&mut self) {
        self.changed.clear();
    }

    /// Changed Namespace List, log page 04h: 4096 bytes.
    pub fn changed_log(&self) -> Vec<u8> {
        let mut log: Vec<u8> = self.changed.iter().flat_map(|id| id.to_le_bytes()).collect();
        log.resize(4096, 0);
        log
    }

    /// Gives a namespace another block format. The namespace keeps its part of the media.
    pub fn reformat(&mut self, nsid: u32, format: u8) {
        let shift = self.formats[usize::from(format)];
        if let Some(Some(n)) = self.slots.get_mut(nsid as usize - 1) {
            let bytes = n.bytes().max(n.span.min(self.capacity - n.base));
            (n.format, n.shift, n.blocks) = (format, shift, bytes >> shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn several() -> Namespaces {
        let mut profile = Profile::load("intel-660p-1tb").unwrap();
        profile.offer.namespaces.value = 6;
        Namespaces::new(&profile)
    }

    #[test]
    fn the_whole_drive_is_one_namespace_unless_the_profile_says_otherwise() {
        let mut all = several();
        assert_eq!((all.unallocated(), all.list(0, false).collect::<Vec<_>>()), (0, vec![1]));
        assert_eq!(all.create(8, 0), Err(Status::INSUFFICIENT_CAPACITY));
        assert_eq!(all.named(2), Err(Status::INVALID_FIELD));
        assert_eq!(all.named(7), Err(Status::INVALID_NAMESPACE));
        let before = all.allocated(1).unwrap().clone();
        all.reformat(1, 1);
        assert_eq!(all.allocated(1).unwrap().blocks, before.blocks / 8);
        all.reformat(1, 0);
        assert_eq!(all.allocated(1).unwrap(), &before);
    }

    proptest! {
        #[test]
        fn namespaces_never_overlap_and_capacity_adds_up(
            ops in prop::collection::vec((0u8..3, 1u32..7, 1u64..900_000_000, 0u8..2), 1..60)
        ) {
            let mut all = several();
            for (op, nsid, blocks, format) in ops {
                let free = all.unallocated();
                match op {
                    0 => {
                        let _ = all.delete(nsid);
                    }
                    1 => {
                        let _ = all.attach(nsid, format == 0);
                    }
                    _ => if let Ok(id) = all.create(blocks, format) {
                        prop_assert!(!all.allocated(id).unwrap().attached);
                        prop_assert!(all.unallocated() < free);
                    },
                }
                let mut parts: Vec<_> = all.list(0, true).map(|id| all.allocated(id).unwrap().clone()).collect();
                parts.sort_by_key(|n| n.base);
                prop_assert!(parts.windows(2).all(|w| w[0].base + w[0].span <= w[1].base));
                prop_assert!(parts.iter().all(|n| n.bytes() <= n.span && n.base + n.span <= all.capacity()));
                prop_assert_eq!(parts.iter().map(|n| n.span).sum::<u64>() + all.unallocated(), all.capacity());
            }
        }
    }
}
