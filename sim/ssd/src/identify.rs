//! Identify data structures (NVM Express 1.4, section 5.15) and log pages (5.14).

use crate::profile::Profile;

/// Abort commands at a time (the field is zero based).
const ABORT_LIMIT: u8 = 3;
/// Asynchronous event requests the controller holds (the field is zero based).
pub const AER_LIMIT: u8 = 3;
/// Entries of the error information log (the field is zero based).
pub const ERROR_LOG_ENTRIES: usize = 64;

/// Identify Controller, CNS 01h: 4096 bytes.
pub fn controller(profile: &Profile) -> Vec<u8> {
    let mut d = vec![0; 4096];
    let id = &profile.identity;
    put(&mut d, 0, &id.vendor_id.to_le_bytes());
    put(&mut d, 2, &id.vendor_id.to_le_bytes());
    text(&mut d[4..24], &id.serial);
    text(&mut d[24..64], &id.model);
    text(&mut d[64..72], &id.firmware);
    d[72] = 1; // RAB
    put(&mut d, 73, &id.ieee_oui.to_le_bytes()[..3]);
    d[77] = *profile.limits.mdts;
    put(&mut d, 78, &1u16.to_le_bytes()); // CNTLID
    put(&mut d, 80, &version(&id.nvme_version).to_le_bytes());
    let deepest = profile.power_state.iter().map(|s| *s.exit_us).max().unwrap_or(0);
    put(&mut d, 84, &(deepest + 500_000).to_le_bytes()); // RTD3R
    put(&mut d, 88, &2_000_000u32.to_le_bytes()); // RTD3E
    put(&mut d, 92, &0u32.to_le_bytes()); // OAES
    d[258] = ABORT_LIMIT;
    d[259] = AER_LIMIT;
    d[260] = 0x03; // FRMW: one slot, read only
    d[261] = 0x00; // LPA
    d[262] = (ERROR_LOG_ENTRIES - 1) as u8;
    d[263] = (profile.power_state.len() - 1) as u8;
    let apst = profile.power_state.iter().any(|s| !s.operational);
    d[265] = u8::from(apst);
    put(&mut d, 266, &((*profile.limits.warning_temperature_c + 273) as u16).to_le_bytes());
    put(&mut d, 268, &((*profile.limits.critical_temperature_c + 273) as u16).to_le_bytes());
    let capacity = u128::from(*profile.namespace.lbas_512) * 512;
    put(&mut d, 280, &capacity.to_le_bytes()); // TNVMCAP
    d[512] = 0x66; // SQES
    d[513] = 0x44; // CQES
    put(&mut d, 516, &1u32.to_le_bytes()); // NN
    put(&mut d, 520, &0x000Cu16.to_le_bytes()); // ONCS: dataset management, write zeroes
    d[525] = 0x01; // VWC: present
    put(&mut d, 526, &0u16.to_le_bytes()); // AWUN
    let nqn = format!("nqn.2014.08.org.nvmexpress:uuid:wattbell-{}", profile.name);
    put(&mut d, 768, nqn.as_bytes());
    for (i, state) in profile.power_state.iter().enumerate() {
        let at = 2048 + 32 * i;
        let fine = *state.max_w < 1.0; // MXPS: 0.0001 W instead of 0.01 W
        let units = if fine { *state.max_w * 1e4 } else { *state.max_w * 1e2 };
        put(&mut d, at, &(units.round() as u16).to_le_bytes());
        d[at + 3] = u8::from(fine) | u8::from(!state.operational) << 1;
        put(&mut d, at + 4, &state.entry_us.to_le_bytes());
        put(&mut d, at + 8, &state.exit_us.to_le_bytes());
        let rank = (i as u8).min(31);
        put(&mut d, at + 12, &[rank, rank, rank, rank]); // RRT, RRL, RWT, RWL
    }
    d
}

/// Identify Namespace, CNS 00h: 4096 bytes. `used` is in blocks.
pub fn namespace(profile: &Profile, used: u64) -> Vec<u8> {
    let mut d = vec![0; 4096];
    let lbas = *profile.namespace.lbas_512;
    put(&mut d, 0, &lbas.to_le_bytes()); // NSZE
    put(&mut d, 8, &lbas.to_le_bytes()); // NCAP
    put(&mut d, 16, &used.min(lbas).to_le_bytes()); // NUSE
    d[33] = 0x09; // DLFEAT: reads of deallocated blocks return zeroes; write zeroes may deallocate
    put(&mut d, 48, &(u128::from(lbas) * 512).to_le_bytes()); // NVMCAP
    d[130] = 9; // LBAF0.LBADS: 512 bytes
    d
}

/// Active Namespace ID list, CNS 02h: IDs above `after`.
pub fn namespace_list(after: u32) -> Vec<u8> {
    let mut d = vec![0; 4096];
    if after < 1 {
        d[0] = 1;
    }
    d
}

/// Namespace Identification Descriptors, CNS 03h: one EUI-64 made of the OUI and the serial number.
pub fn namespace_descriptors(profile: &Profile) -> Vec<u8> {
    let mut d = vec![0; 4096];
    let oui = profile.identity.ieee_oui.to_be_bytes();
    let tail = profile.identity.serial.bytes().fold(0u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
    put(&mut d, 0, &[1, 8, 0, 0]);
    put(&mut d, 4, &oui[1..]);
    put(&mut d, 7, &tail.to_be_bytes()[3..]);
    d
}

/// Counters behind the SMART / Health log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Health {
    /// 512-byte blocks read by the host.
    pub read_blocks: u64,
    /// 512-byte blocks written by the host.
    pub written_blocks: u64,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Entries ever made in the error log.
    pub errors: u64,
    /// Microseconds since power-on in which commands were in hand.
    pub busy_us: u64,
    /// Hours since power-on.
    pub on_hours: u64,
}

/// SMART / Health Information, log page 02h: 512 bytes.
pub fn smart(health: &Health) -> Vec<u8> {
    let mut d = vec![0; 512];
    put(&mut d, 1, &TEMPERATURE_K.to_le_bytes());
    (d[3], d[4]) = (100, 10); // available spare and its threshold
    let thousands = |blocks: u64| u128::from(blocks.div_ceil(1000)).to_le_bytes();
    put(&mut d, 32, &thousands(health.read_blocks));
    put(&mut d, 48, &thousands(health.written_blocks));
    put(&mut d, 64, &u128::from(health.reads).to_le_bytes());
    put(&mut d, 80, &u128::from(health.writes).to_le_bytes());
    put(&mut d, 96, &u128::from(health.busy_us / 60_000_000).to_le_bytes());
    put(&mut d, 112, &1u128.to_le_bytes()); // power cycles
    put(&mut d, 128, &u128::from(health.on_hours).to_le_bytes());
    put(&mut d, 176, &u128::from(health.errors).to_le_bytes());
    d
}

/// Composite temperature: constant until the thermal model exists.
pub const TEMPERATURE_K: u16 = 273 + 35;

/// Firmware Slot Information, log page 03h: 512 bytes.
pub fn firmware_slots(profile: &Profile) -> Vec<u8> {
    let mut d = vec![0; 512];
    d[0] = 1;
    text(&mut d[8..16], &profile.identity.firmware);
    d
}

/// VS register and VER field of "major.minor[.tertiary]".
pub fn version(text: &str) -> u32 {
    let mut parts = text.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    let (major, minor, tertiary) = (parts.next(), parts.next(), parts.next());
    major.unwrap_or(1) << 16 | minor.unwrap_or(0) << 8 | tertiary.unwrap_or(0)
}

fn put(d: &mut [u8], at: usize, bytes: &[u8]) {
    d[at..at + bytes.len()].copy_from_slice(bytes);
}

/// ASCII, cut or padded with spaces.
fn text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    let n = text.len().min(field.len());
    field[..n].copy_from_slice(&text.as_bytes()[..n]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_states_of_the_660p_as_nvme_cli_reads_them() {
        let d = controller(&Profile::load("intel-660p-1tb").unwrap());
        assert_eq!((d[263], d[265], d[77]), (4, 1, 5));
        let state = |i: usize| {
            let at = 2048 + 32 * i;
            let max_power = u16::from_le_bytes([d[at], d[at + 1]]);
            (max_power, d[at + 3], u32::from_le_bytes([d[at + 8], d[at + 9], d[at + 10], d[at + 11]]))
        };
        assert_eq!([state(0), state(2), state(3), state(4)], [(400, 0, 0), (220, 0, 0), (300, 3, 5000), (40, 3, 9000)]);
    }
}
