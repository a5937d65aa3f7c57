//! Commands in hand.

use super::prp::Pieces;
use super::{Sqe, Status};
use crate::host::CommandTruth;
use crate::profile::Ps;
use std::ops::{Index, IndexMut};

/// A command that was fetched.
pub struct Command {
    /// Its submission queue entry.
    pub sqe: Sqe,
    /// Its submission queue.
    pub qid: u16,
    /// Places of the command's data in host memory, as far as known.
    pub pieces: Pieces,
    /// Bytes of data.
    pub len: u32,
    /// Bytes of data moved so far.
    pub done: u32,
    /// DW0 of the command's completion.
    pub dw0: u32,
    /// DW1 of the command's completion.
    pub dw1: u32,
    /// Status of the command's completion.
    pub status: Status,
    /// The command's data structure, if it has one.
    pub data: Vec<u8>,
    /// Units of the write buffer that wait for the command's data.
    pub buffered: u64,
    /// First byte on the media.
    pub at: u64,
    /// Block size as a power of two.
    pub shift: u8,
    /// Reading of the energy account when the command's doorbell was rung, in joule.
    pub begun_j: f64,
    /// The model's knowledge of the command.
    pub truth: CommandTruth,
}

impl Command {
    /// The command of an entry that was read at `fetch_ps`, and announced by the doorbell at `doorbell_ps`.
    pub fn new(entry: &[u8], qid: u16, doorbell_ps: Ps, fetch_ps: Ps) -> Self {
        let mut sqe = Sqe([0; 64]);
        sqe.0.copy_from_slice(entry);
        let truth = CommandTruth {
            qid,
            cid: sqe.cid(),
            opcode: sqe.opcode(),
            nsid: sqe.nsid(),
            slba: u64::from(sqe.cdw(10)),
            blocks: u64::from(sqe.cdw(11)),
            doorbell_ps,
            fetch_ps,
            ..CommandTruth::default()
        };
        let (pieces, data, status) = (Vec::new(), Vec::new(), Status::SUCCESS);
        Self {
            sqe,
            qid,
            pieces,
            len: 0,
            done: 0,
            dw0: 0,
            dw1: 0,
            status,
            data,
            buffered: 0,
            at: 0,
            shift: 9,
            begun_j: 0.0,
            truth,
        }
    }
}

/// The next step of a command.
pub enum Next {
    /// The command is done; DW0 of its completion.
    Done(u32),
    /// Its work ends then.
    DoneAt(Ps),
    /// This many bytes of data move, to or from the addresses of the command's PRPs.
    Transfer(u32),
    /// This structure goes to the addresses of the command's PRPs; and DW0 of its completion.
    Return(u32, Vec<u8>),
    /// A structure is read from this address, this many bytes in one piece.
    Fetch(u64, u32),
    /// Another part continues the command later.
    Wait,
}

/// The next step of a command, or the status with which the command ends.
pub type Outcome = Result<Next, Status>;

/// All commands, by number.
#[derive(Default)]
pub struct Commands {
    slots: Vec<Option<Command>>,
    spare: Vec<u32>,
    in_hand: u32,
}

impl Commands {
    /// Whether the controller has nothing to do for the host.
    pub fn idle(&self) -> bool {
        self.in_hand == 0
    }

    /// `count` more are in hand: they are being fetched, or the event they waited for has come.
    pub fn begin(&mut self, count: u32) {
        self.in_hand += count;
    }

    /// `count` are over, or wait for an event.
    pub fn end(&mut self, count: u32) {
        self.in_hand -= count;
    }

    /// Keeps a command and returns its number.
    pub fn add(&mut self, command: Command) -> u32 {
        if let Some(id) = self.spare.pop() {
            self.slots[id as usize] = Some(command);
            return id;
        }
        self.slots.push(Some(command));
        self.slots.len() as u32 - 1
    }

    /// Forgets a command and returns it.
    pub fn remove(&mut self, id: u32) -> Option<Command> {
        self.spare.push(id);
        self.slots[id as usize].take()
    }

    /// Removes and returns all commands in hand, at a controller reset.
    pub fn reset(&mut self) -> impl Iterator<Item = Command> {
        std::mem::take(self).slots.into_iter().flatten()
    }
}

impl Index<u32> for Commands {
    type Output = Command;
    #[inline]
    fn index(&self, id: u32) -> &Command {
        self.slots[id as usize].as_ref().expect("an event names a command in hand")
    }
}

impl IndexMut<u32> for Commands {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Command {
        self.slots[id as usize].as_mut().expect("an event names a command in hand")
    }
}
