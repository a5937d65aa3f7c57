//! Reads of the memory of a host outside the model: pieces that wait for a tag, and completions put together.

use super::want::Want;
use crate::pcie::port::Span;
use crate::profile::Ps;
use std::collections::{HashMap, VecDeque};
use wattbell_bus::packet::Answered;
use wattbell_bus::split;

/// State of the traffic with a host outside the model.
#[derive(Default)]
pub struct Wire {
    pub reads: WireReads,
    /// TLPs that the drive threw away: completions of no request, writes to addresses that are not the drive's, poisoned writes.
    pub discarded: u64,
}

/// A part of a read that one request asks for.
#[derive(Debug, Clone, Copy)]
struct Piece {
    read: u32,
    address: u64,
    /// Offset in the read's data.
    offset: u32,
    len: u32,
    /// Bytes still owed.
    left: u32,
}

/// A read that completions answer.
pub struct WireRead {
    /// Its purpose.
    pub want: Want,
    /// Its data.
    pub bytes: Vec<u8>,
    /// Whether the host answered every request.
    pub there: bool,
    /// First symbol of its first request.
    pub asked: Option<Ps>,
    /// Its completions on the link.
    pub span: Option<Span>,
    /// Bytes that have not come.
    left: u32,
}

impl WireRead {
    /// The same, of a command that is gone. Lent memory has no command.
    pub fn nobodys(mut self) -> Self {
        if !matches!(self.want, Want::Lent { .. }) {
            self.want = Want::Nothing;
        }
        self
    }
}

/// The effect of a completion.
pub enum Taken {
    /// It belongs to no request, or contradicts its request.
    Unexpected,
    /// More is to come.
    More,
    /// The read is over. The flag says that its last completion contradicted the request.
    Over(Box<WireRead>, bool),
}

/// The reads.
#[derive(Default)]
pub struct WireReads {
    reads: HashMap<u32, WireRead>,
    serial: u32,
    waiting: VecDeque<Piece>,
    tags: Vec<Option<Piece>>,
    next_tag: usize,
}

impl WireReads {
    /// Cuts a read into requests of at most `max_read` bytes, which wait for tags. Gives the read back if nothing is to be asked: it has no
    /// bytes, or its addresses end beyond 64 bits.
    pub fn begin(&mut self, want: Want, address: u64, len: u32, max_read: u32) -> Option<WireRead> {
        let there = address.checked_add(u64::from(len)).is_some();
        let bytes = vec![0; len as usize];
        let read = WireRead { want, bytes, there, asked: None, span: None, left: len };
        if len == 0 || !there {
            return Some(read);
        }
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        self.reads.insert(serial, read);
        let piece = |(at, len)| Piece { read: serial, address: at, offset: (at - address) as u32, len, left: len };
        self.waiting.extend(split::requests(address, len, max_read).map(piece));
        None
    }

    /// Takes the next request, if one of the first `tags` tags is free: its tag, address and length in bytes.
    pub fn next(&mut self, tags: usize) -> Option<(u16, u64, u32)> {
        let piece = self.waiting.front()?;
        self.tags.resize(tags.max(self.tags.len()), None);
        let tag = (0..tags).map(|k| (self.next_tag + k) % tags).find(|&tag| self.tags[tag].is_none())?;
        self.next_tag = tag + 1;
        let asked = (tag as u16, piece.address, piece.len);
        self.tags[tag] = self.waiting.pop_front();
        Some(asked)
    }

    /// The request with this tag began on the link.
    pub fn sent(&mut self, tag: u16, first: Ps) {
        if let Some(read) = self.tags[usize::from(tag)].and_then(|piece| self.reads.get_mut(&piece.read)) {
            read.asked.get_or_insert(first);
        }
    }

    /// Takes a completion with `data`, its payload; `None` if the payload is poisoned.
    pub fn take(&mut self, answered: &Answered, data: Option<&[u8]>, span: Span) -> Taken {
        let tag = usize::from(answered.tag);
        let Some(Some(piece)) = self.tags.get_mut(tag) else { return Taken::Unexpected };
        let Some(read) = self.reads.get_mut(&piece.read) else { return Taken::Unexpected };
        let done = piece.len - piece.left;
        let first = read.span.map_or(span.first, |s| s.first);
        read.span = Some(Span { first, last: span.first, end: span.end });
        let front = usize::from(answered.lower_address & 3);
        let lower = (piece.address + u64::from(done)) as u8 & 0x7F;
        let fits = answered.byte_count == piece.left && answered.lower_address == lower;
        let (over, wrong) = match data.map(|data| data.get(front..).unwrap_or_default()) {
            Some(data) if answered.status == 0 && fits && (1..piece.left as usize + 4).contains(&data.len()) => {
                let take = data.len().min(piece.left as usize);
                let at = (piece.offset + done) as usize;
                read.bytes[at..at + take].copy_from_slice(&data[..take]);
                piece.left -= take as u32;
                read.left -= take as u32;
                (piece.left == 0, false)
            }
            data => {
                read.there = false;
                read.left -= piece.left;
                (true, answered.status == 0 && data.is_some())
            }
        };
        if !over {
            return Taken::More;
        }
        let serial = piece.read;
        self.tags[tag] = None;
        match self.reads.get(&serial).map(|read| read.left) {
            Some(0) => self.reads.remove(&serial).map_or(Taken::More, |read| Taken::Over(Box::new(read), wrong)),
            _ if wrong => Taken::Unexpected,
            _ => Taken::More,
        }
    }

    /// After a controller reset: requests that were not sent are dropped, and the answers to the others belong to nobody. Gives back the
    /// purposes of the reads that end with that.
    pub fn forget(&mut self) -> Vec<Want> {
        for piece in self.waiting.drain(..) {
            if let Some(read) = self.reads.get_mut(&piece.read) {
                read.left -= piece.len;
            }
        }
        let over: Vec<u32> = self.reads.iter().filter(|(_, read)| read.left == 0).map(|(&serial, _)| serial).collect();
        let ended = over.iter().filter_map(|serial| self.reads.remove(serial)).map(|read| read.want).collect();
        self.reads = self.reads.drain().map(|(serial, read)| (serial, read.nobodys())).collect();
        ended
    }

    /// After a conventional reset: no request is outstanding. Gives back the purposes of all reads.
    pub fn reset(&mut self) -> Vec<Want> {
        std::mem::take(self).reads.into_values().map(|read| read.want).collect()
    }

    /// Requests that wait for completions.
    pub fn outstanding(&self) -> usize {
        self.tags.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { first: 5, last: 5, end: 9 };

    fn answer(tag: u16, address: u64, byte_count: u32, status: u8) -> Answered {
        Answered { requester: 0, tag, status, byte_count, lower_address: (address & 0x7F) as u8 }
    }

    fn over(taken: Taken) -> WireRead {
        let Taken::Over(read, false) = taken else { panic!("more is to come, or it is wrong") };
        *read
    }

    #[test]
    fn pieces_come_in_any_order_and_their_data_goes_where_it_belongs() {
        let mut reads = WireReads::default();
        assert!(reads.begin(Want::Nothing, 0x1F80, 256, 512).is_none());
        let asked: Vec<_> = std::iter::from_fn(|| reads.next(32)).collect();
        assert_eq!(asked, [(0, 0x1F80, 128), (1, 0x2000, 128)]);
        reads.sent(0, 3);
        reads.sent(1, 4);
        assert!(matches!(reads.take(&answer(1, 0x2000, 128, 0), Some(&[2; 64]), SPAN), Taken::More));
        assert!(matches!(reads.take(&answer(0, 0x1F80, 128, 0), Some(&[1; 128]), SPAN), Taken::More));
        let read = over(reads.take(&answer(1, 0x2040, 64, 0), Some(&[3; 64]), Span { first: 8, last: 8, end: 11 }));
        assert_eq!(read.bytes, [[1; 128].as_slice(), &[2; 64], &[3; 64]].concat());
        assert_eq!((read.there, read.asked, read.span), (true, Some(3), Some(Span { first: 5, last: 8, end: 11 })));
        assert_eq!(reads.outstanding(), 0);
    }

    #[test]
    fn no_more_requests_go_out_than_there_are_tags() {
        let mut reads = WireReads::default();
        reads.begin(Want::Nothing, 0, 4096, 128);
        assert_eq!(std::iter::from_fn(|| reads.next(8)).count(), 8);
        assert!(matches!(reads.take(&answer(3, 384, 128, 0), Some(&[0; 128]), SPAN), Taken::More));
        assert_eq!(reads.next(8), Some((3, 1024, 128)));
        assert_eq!(reads.next(8), None);
        assert_eq!(std::iter::from_fn(|| reads.next(32)).count(), 23, "the host allows more tags");
    }

    #[test]
    fn an_answer_that_contradicts_its_request_ends_the_read_without_data() {
        for (byte_count, address, data) in [(60, 0x1000, 64), (64, 0x1004, 64), (64, 0x1000, 0), (64, 0x1000, 128)] {
            let mut reads = WireReads::default();
            reads.begin(Want::Nothing, 0x1000, 64, 512);
            reads.next(32);
            let taken = reads.take(&answer(0, address, byte_count, 0), Some(&vec![0; data]), SPAN);
            assert!(matches!(taken, Taken::Over(_, true)), "{byte_count} {address:#x} {data}");
            assert!(matches!(reads.take(&answer(0, 0x1000, 64, 0), Some(&[0; 64]), SPAN), Taken::Unexpected));
        }
        for (status, data) in [(1, Some(&[][..])), (4, Some(&[])), (0, None)] {
            let mut reads = WireReads::default();
            reads.begin(Want::Nothing, 0x1000, 64, 512);
            reads.next(32);
            assert!(!over(reads.take(&answer(0, 0x1000, 64, status), data, SPAN)).there);
        }
    }

    #[test]
    fn a_reset_drops_what_was_not_asked_and_forgets_what_was() {
        let mut reads = WireReads::default();
        let want = |command| Want::Structure { command, left: 0 };
        reads.begin(want(1), 0, 1024, 512);
        reads.begin(want(2), 4096, 512, 512);
        reads.next(1);
        let ended = reads.forget();
        assert!(matches!(ended[..], [Want::Structure { command: 2, .. }]));
        assert_eq!(reads.next(32), None);
        let read = over(reads.take(&answer(0, 0, 512, 0), Some(&[1; 512]), SPAN));
        assert!(matches!(read.want, Want::Nothing));
        reads.begin(want(3), 0, 64, 512);
        reads.next(32);
        assert_eq!((reads.reset().len(), reads.outstanding()), (1, 0));
    }

    #[test]
    fn nothing_is_asked_for_no_bytes_or_beyond_the_end_of_memory() {
        let mut reads = WireReads::default();
        assert!(reads.begin(Want::Nothing, 0, 0, 512).is_some_and(|read| read.there));
        assert!(reads.begin(Want::Nothing, u64::MAX - 10, 64, 512).is_some_and(|read| !read.there));
        assert_eq!(reads.next(32), None);
    }
}
