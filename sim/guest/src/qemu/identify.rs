//! Identify data, which the log does not contain: rebuilt from the evidence in the log's commands.

use super::namespace::Namespace;
use super::survey::Survey;

/// Bytes of every Identify data structure.
pub const SIZE: usize = 4096;

/// Identify Controller of QEMU's device as far as commands reveal it; its strings say that it is rebuilt.
pub fn controller(survey: &Survey) -> Vec<u8> {
    let mut d = vec![0; SIZE];
    let mut text = |at: usize, len: usize, value: &str| {
        d[at..at + len].fill(b' ');
        d[at..at + value.len()].copy_from_slice(value.as_bytes());
    };
    text(4, 20, "rebuilt-from-log");
    text(24, 40, "QEMU NVMe Ctrl (rebuilt from trace log)");
    text(64, 8, "log");
    d[0..2].copy_from_slice(&0x1B36u16.to_le_bytes()); // PCI vendor: Red Hat, as QEMU's device
    d[80..84].copy_from_slice(&0x0001_0400u32.to_le_bytes()); // VER, as QEMU has it: NVMe 1.4
    d[512] = 0x66; // SQES: 64 bytes
    d[513] = 0x44; // CQES: 16 bytes
    let count = survey.namespaces.keys().next_back().copied().unwrap_or(1);
    d[516..520].copy_from_slice(&count.to_le_bytes());
    d[520] = 0x0C; // ONCS: Write Zeroes, Dataset Management
    d[525] = 1; // volatile write cache
    d // NPSS 0: QEMU's device has one power state
}

/// Identify Namespace: size up to the highest block touched, one LBA format. All zeros (inactive) for a namespace
/// that no command uses.
pub fn namespace(known: Option<&Namespace>) -> Vec<u8> {
    let mut d = vec![0; SIZE];
    let Some(ns) = known else { return d };
    for at in [0, 8, 16] {
        d[at..at + 8].copy_from_slice(&ns.end_lba.max(1).to_le_bytes());
    }
    d[130] = ns.lba_size().ilog2() as u8; // LBAF0 at 128: LBADS in byte 2
    d
}

/// Active Namespace ID list: the used namespaces above `after`.
pub fn active_list(survey: &Survey, after: u32) -> Vec<u8> {
    let mut d = vec![0; SIZE];
    let ids = survey.namespaces.keys().filter(|&&nsid| nsid > after).take(SIZE / 4);
    for (slot, nsid) in d.chunks_exact_mut(4).zip(ids) {
        slot.copy_from_slice(&nsid.to_le_bytes());
    }
    d
}
