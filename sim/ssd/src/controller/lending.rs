//! State of the traffic between the drive and the memory that the host lends it.

use crate::flash::Access;
use crate::host::LentTraffic;
use crate::pcie::port::Request;
use std::collections::VecDeque;

/// Reads of lent memory that wait, and the traffic so far.
#[derive(Default)]
pub struct Lent {
    pub waiting: VecDeque<Access>,
    pub asked: VecDeque<Request>,
    /// Traffic since the drive was made.
    pub traffic: LentTraffic,
}

impl Lent {
    /// Forgets the waiting reads, at a controller reset. Outstanding reads are still answered.
    pub fn reset(&mut self) {
        self.waiting.clear();
    }
}
