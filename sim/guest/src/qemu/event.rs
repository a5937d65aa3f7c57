//! The events of QEMU's `hw/nvme/trace-events` that reveal something about the bus.

use super::line::{number, Segment};
use wattbell_spec::nvme::io;

/// A parsed event. Fields are named as in the log; block counts are numbers of blocks (not zero-based).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Event {
    AdminCmd {
        cid: u16,
        sqid: u16,
        opc: u8,
    },
    IoCmd {
        cid: u16,
        nsid: u32,
        sqid: u16,
        opc: u8,
    },
    /// Read, Write, Write Zeroes, Zone Append, Compare, Verify: `opc` from the event where `io_cmd` is not logged.
    Blocks {
        cid: u16,
        nsid: u32,
        nlb: u32,
        count: Option<u64>,
        lba: u64,
        opc: u8,
    },
    FlushNs,
    Dsm {
        nr: u32,
        attr: u32,
    },
    DsmRange {
        slba: u64,
        nlb: u32,
    },
    Copy {
        cid: u16,
        nsid: u32,
        nr: u32,
    },
    MapPrp {
        len: u32,
        prp1: u64,
        prp2: u64,
    },
    MapSgl {
        kind: u8,
        len: u64,
    },
    MapAddr {
        addr: u64,
        len: u64,
    },
    CreateSq {
        addr: u64,
        sqid: u16,
        cqid: u16,
        qsize: u32,
        qflags: u16,
    },
    CreateCq {
        addr: u64,
        cqid: u16,
        vector: u16,
        qsize: u32,
        qflags: u16,
    },
    DelSq {
        sqid: u16,
    },
    DelCq {
        cqid: u16,
    },
    Identify {
        cid: u16,
        cns: u8,
        ctrlid: u16,
        csi: u8,
    },
    /// `identify_ns`, `identify_nslist`, ...: the namespace requested by a preceding Identify.
    IdentifyNsid {
        nsid: u32,
    },
    GetLog {
        cid: u16,
        lid: u8,
        lsp: u8,
        rae: u8,
        len: u32,
        off: u64,
    },
    GetFeature {
        cid: u16,
        nsid: u32,
        fid: u8,
        sel: u8,
        cdw11: u32,
    },
    SetFeature {
        cid: u16,
        nsid: u32,
        fid: u8,
        save: u8,
        cdw11: u32,
    },
    Aer {
        cid: u16,
    },
    Format {
        nsid: u32,
        lbaf: u8,
    },
    DbBuf {
        dbs: u64,
        eis: u64,
    },
    Complete {
        cid: u16,
        cqid: u16,
        dw0: u32,
        dw1: u32,
        status: u16,
    },
    Msix {
        vector: u16,
    },
    SqDoorbell {
        sqid: u16,
        tail: u32,
    },
    CqDoorbell {
        cqid: u16,
        head: u32,
    },
    /// QEMU looked at a shadow doorbell, so the driver uses them.
    Shadow,
    Cfg {
        value: u32,
    },
    Started,
    Stopped,
    AqAttr {
        value: u32,
    },
    AsqLow {
        value: u64,
    },
    AsqHigh {
        value: u32,
    },
    AcqLow {
        value: u64,
    },
    AcqHigh {
        value: u32,
    },
    MmioRead {
        addr: u64,
        size: u32,
    },
    PciReset,
    /// An event of the NVMe device that reveals nothing about the bus beyond what others do.
    Other,
}

/// No computer has more address bits; a larger number is damage.
const ADDRESS_BITS: u32 = 52;
/// NLB has 16 bits and is zero-based.
const MOST_BLOCKS: u32 = 1 << 16;
/// No QEMU command moves more: this many blocks of 4 KiB.
const MOST_BYTES: u64 = 1 << 28;

/// Parses an event. `None`: the name is known, but its arguments are damaged.
pub fn parse(segment: &Segment<'_>) -> Option<Event> {
    let a = segment.args;
    let n = |key: &str| number(a, key);
    let n8 = |key: &str| n(key)?.try_into().ok();
    let n16 = |key: &str| n(key)?.try_into().ok();
    let n32 = |key: &str| n(key)?.try_into().ok();
    let address = |key: &str| n(key).filter(|address| address >> ADDRESS_BITS == 0);
    let bytes = |key: &str| n(key).filter(|&bytes| bytes <= MOST_BYTES);
    let blocks = |opc: u8, lba: &str| {
        let nlb = n32("nlb").filter(|&nlb| nlb <= MOST_BLOCKS)?;
        let count = if n("count").is_some() { Some(bytes("count")?) } else { None };
        Some(Event::Blocks { cid: n16("cid")?, nsid: n32("nsid")?, nlb, count, lba: n(lba)?, opc })
    };
    Some(match segment.name {
        "admin_cmd" => Event::AdminCmd { cid: n16("cid")?, sqid: n16("sqid")?, opc: n8("opc")? },
        "io_cmd" => Event::IoCmd { cid: n16("cid")?, nsid: n32("nsid")?, sqid: n16("sqid")?, opc: n8("opc")? },
        "read" => blocks(io::READ, "lba")?,
        "write" if a.contains("WRITE_ZEROES") => blocks(io::WRITE_ZEROES, "lba")?,
        "write" if a.contains("APPEND") => blocks(io::ZONE_APPEND, "lba")?,
        "write" => blocks(io::WRITE, "lba")?,
        "compare" => blocks(io::COMPARE, "slba")?,
        "verify" => blocks(io::VERIFY, "slba")?,
        "flush_ns" => Event::FlushNs,
        "dsm" => Event::Dsm { nr: n32("nr")?, attr: n32("attr")? },
        "dsm_deallocate" => Event::DsmRange { slba: n("slba")?, nlb: n32("nlb")? },
        "copy" => Event::Copy { cid: n16("cid")?, nsid: n32("nsid")?, nr: n32("nr")? },
        // "trans_len" ends in "len" too, but `number` matches whole keys
        "map_prp" => Event::MapPrp { len: bytes("len")? as u32, prp1: address("prp1")?, prp2: address("prp2")? },
        "map_sgl" => Event::MapSgl { kind: n8("type")?, len: bytes("len")? },
        "map_addr" => Event::MapAddr { addr: address("addr")?, len: bytes("len")? },
        "create_sq" => Event::CreateSq {
            addr: address("addr")?,
            sqid: n16("sqid")?,
            cqid: n16("cqid")?,
            qsize: n32("qsize")?,
            qflags: n16("qflags")?,
        },
        "create_cq" => Event::CreateCq {
            addr: address("addr")?,
            cqid: n16("cqid")?,
            vector: n16("vector")?,
            qsize: n32("qsize")?,
            qflags: n16("qflags")?,
        },
        "del_sq" => Event::DelSq { sqid: n16("sqid")? },
        "del_cq" => Event::DelCq { cqid: n16("cqid")? },
        "identify" => Event::Identify {
            cid: n16("cid")?,
            cns: n8("cns")?,
            ctrlid: n16("ctrlid").unwrap_or(0),
            csi: n8("csi").unwrap_or(0),
        },
        "identify_ns"
        | "identify_ns_ind"
        | "identify_ns_csi"
        | "identify_nslist"
        | "identify_nslist_csi"
        | "identify_ns_descr_list" => Event::IdentifyNsid { nsid: n32("nsid")? },
        "get_log" => Event::GetLog {
            cid: n16("cid")?,
            lid: n8("lid")?,
            lsp: n8("lsp").unwrap_or(0),
            rae: n8("rae").unwrap_or(0),
            len: bytes("len")? as u32,
            off: n("off").unwrap_or(0),
        },
        "getfeat" => Event::GetFeature {
            cid: n16("cid")?,
            nsid: n32("nsid")?,
            fid: n8("fid")?,
            sel: n8("sel").unwrap_or(0),
            cdw11: n32("cdw11")?,
        },
        "setfeat" => Event::SetFeature {
            cid: n16("cid")?,
            nsid: n32("nsid")?,
            fid: n8("fid")?,
            save: n8("save").unwrap_or(0),
            cdw11: n32("cdw11")?,
        },
        "aer" => Event::Aer { cid: n16("cid")? },
        "format_set" => Event::Format { nsid: n32("nsid")?, lbaf: n8("lbaf")? },
        "dbbuf_config" => Event::DbBuf { dbs: address("dbs_addr")?, eis: address("eis_addr")? },
        "enqueue_req_completion" => Event::Complete {
            cid: n16("cid")?,
            cqid: n16("cqid")?,
            dw0: n32("dw0").unwrap_or(0),
            dw1: n32("dw1").unwrap_or(0),
            status: n16("status")?,
        },
        "irq_msix" => Event::Msix { vector: n16("vector")? },
        "mmio_doorbell_sq" => Event::SqDoorbell { sqid: n16("sqid")?, tail: n32("new_tail")? },
        "mmio_doorbell_cq" => Event::CqDoorbell { cqid: n16("cqid")?, head: n32("new_head")? },
        "update_sq_tail" | "update_cq_head" | "update_sq_eventidx" | "update_cq_eventidx" => Event::Shadow,
        "mmio_cfg" => Event::Cfg { value: n32("config")? },
        "mmio_start_success" => Event::Started,
        "mmio_stopped" => Event::Stopped,
        "mmio_aqattr" => Event::AqAttr { value: n32("attributes")? },
        "mmio_asqaddr" => Event::AsqLow { value: address("address")? },
        "mmio_asqaddr_hi" => Event::AsqHigh { value: n32("half")? },
        "mmio_acqaddr" => Event::AcqLow { value: address("address")? },
        "mmio_acqaddr_hi" => Event::AcqHigh { value: n32("half")? },
        "mmio_read" => Event::MmioRead { addr: n("addr")?, size: n32("size")? },
        "pci_reset" => Event::PciReset,
        _ => Event::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::super::line::segments;
    use super::*;

    fn event(text: &str) -> Option<Event> {
        parse(&segments(&format!("1@1700000000.000000:pci_nvme_{text}"))[0])
    }

    #[test]
    fn lines_of_a_real_log() {
        assert_eq!(
            event("io_cmd cid 8834 nsid 0xffffffff sqid 2 opc 0x0 opname 'NVME_NVM_CMD_FLUSH'"),
            Some(Event::IoCmd { cid: 8834, nsid: u32::MAX, sqid: 2, opc: 0 })
        );
        assert_eq!(
            event("map_prp trans_len 3584 len 131072 prp1 0x35f8200 prp2 0x35f9000 num_prps 33"),
            Some(Event::MapPrp { len: 131_072, prp1: 0x35F_8200, prp2: 0x35F_9000 })
        );
        assert_eq!(
            event("write cid 7 opname 'NVME_NVM_CMD_WRITE_ZEROES' nsid 1 nlb 8 count 4096 lba 0x10"),
            Some(Event::Blocks { cid: 7, nsid: 1, nlb: 8, count: Some(4096), lba: 16, opc: io::WRITE_ZEROES })
        );
        assert_eq!(
            event("mmio_asqaddr_hi wrote MMIO, admin submission queue high half=0x2, new_address=0x2000"),
            Some(Event::AsqHigh { value: 2 })
        );
    }

    #[test]
    fn cut_arguments_are_damage_and_unknown_names_are_not() {
        assert_eq!(event("io_cmd cid 8834 nsid 0x1 sq"), None);
        assert_eq!(event("enqueue_req_completion cid 70000 cqid 1 dw0 0x0 dw1 0x0 status 0x0"), None);
        assert_eq!(event("map_prp trans_len 3584 len 131072 prp1 0xffffffffffffff00 prp2 0x0 num_prps 33"), None);
        assert_eq!(event("read cid 1 nsid 1 nlb 4000000000 count 4096 lba 0x0"), None);
        assert_eq!(event("rw_cb cid 3 blk 'nvm'"), Some(Event::Other));
    }
}
