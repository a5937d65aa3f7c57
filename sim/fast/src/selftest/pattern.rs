//! The TLPs of the pattern: a host enumerates a drive, enables it, creates two queues of 256 entries, and reads block n
//! with command n.

use wattbell_bus::tlp::{cfg_write0, completion_data, mem_read, mem_write, Bdf, Route, Tlp};

const BAR0: u64 = 0xFEB0_0000;
const ADMIN_SQ: u64 = 0x0010_0000;
const ADMIN_CQ: u64 = 0x0011_0000;
const SQ: u64 = 0x0020_0000;
const CQ: u64 = 0x0030_0000;
const DATA: u64 = 0x0040_0000;
const MESSAGE: u64 = 0xFEE0_1000;
const HOST: Bdf = 0x0000;
const DRIVE: Bdf = 0x0100;
const LAST: u32 = 255;
const BLOCK: usize = 512;

/// A TLP, and whether it goes up.
type Sent = (bool, Tlp);

fn register(offset: u64, value: u32) -> Sent {
    (false, mem_write(HOST, 0, BAR0 + offset, &value.to_le_bytes()))
}

fn doorbell(index: u64, value: u32) -> Sent {
    register(0x1000 + 4 * index, value)
}

fn config(offset: u16, value: u32) -> Sent {
    (false, cfg_write0(HOST, 0, DRIVE, offset, 0xF, value))
}

fn fetch(address: u64, entries: u32) -> Sent {
    (true, mem_read(DRIVE, 0, address, 64 * entries))
}

fn fetched(address: u64, bytes: &[u8]) -> Sent {
    (false, completion_data(Route { completer: HOST, requester: DRIVE, tag: 0 }, address, bytes, bytes.len() as u32))
}

fn write(address: u64, bytes: &[u8]) -> Sent {
    (true, mem_write(DRIVE, 0, address, bytes))
}

fn sqe(opcode: u8, cid: u8, nsid: u8, prp1: u64, cdw10: u32, cdw11: u32) -> [u8; 64] {
    let mut entry = [0; 64];
    (entry[0], entry[2], entry[4]) = (opcode, cid, nsid);
    entry[24..32].copy_from_slice(&prp1.to_le_bytes());
    entry[40..44].copy_from_slice(&cdw10.to_le_bytes());
    entry[44..48].copy_from_slice(&cdw11.to_le_bytes());
    entry
}

/// A completion with status 0 and the phase tag of the queue's first round.
fn cqe(base: u64, cid: u8, qid: u8, head: u8) -> Sent {
    write(base, &[0, 0, 0, 0, 0, 0, 0, 0, head, 0, qid, 0, cid, 0, 1, 0])
}

fn message(vector: u32) -> Sent {
    write(MESSAGE, &(0x4020 + vector).to_le_bytes())
}

/// Enumeration, controller enable, queue creation.
pub fn setup() -> Vec<Sent> {
    let create_cq = sqe(0x05, 0, 0, CQ, LAST << 16 | 1, 1 << 16 | 3);
    let create_sq = sqe(0x01, 1, 0, SQ, LAST << 16 | 1, 1 << 16 | 1);
    vec![
        config(0x10, BAR0 as u32),
        config(0x14, 0),
        register(0x24, 15 << 16 | 15),
        register(0x28, ADMIN_SQ as u32),
        register(0x2C, 0),
        register(0x30, ADMIN_CQ as u32),
        register(0x34, 0),
        register(0x14, 4 << 20 | 6 << 16 | 1),
        doorbell(0, 2),
        fetch(ADMIN_SQ, 2),
        fetched(ADMIN_SQ, &[create_cq, create_sq].concat()),
        cqe(ADMIN_CQ, 0, 0, 1),
        cqe(ADMIN_CQ + 16, 1, 0, 2),
        message(0),
        doorbell(1, 2),
    ]
}

/// Command `n`, the SQ tail doorbell first.
pub fn command(n: u8) -> Vec<Sent> {
    let ahead = n.wrapping_add(1);
    let entry = SQ + 64 * u64::from(n);
    vec![
        doorbell(2, ahead.into()),
        fetch(entry, 1),
        fetched(entry, &sqe(0x02, n, 1, DATA, n.into(), 0)),
        write(DATA, &[0; BLOCK]),
        cqe(CQ + 16 * u64::from(n), n, 1, ahead),
        message(1),
        doorbell(3, ahead.into()),
    ]
}
