//! Identify data structures (NVM Express, Identify command).

use super::hmb;
use super::namespaces::{Namespace, Namespaces};
use crate::nvme::registers::version;
use crate::power::ownmeter;
use crate::profile::{Offer, PowerState, Profile, Way};

/// Abort commands at a time (the field is zero based).
const ABORT_LIMIT: u8 = 3;
/// Asynchronous event requests the controller holds (the field is zero based).
pub const AER_LIMIT: u8 = 3;
/// Entries of the error information log (the field is zero based).
pub const ERROR_LOG_ENTRIES: usize = 64;

/// The only controller of the subsystem.
pub const CONTROLLER_ID: u16 = 1;
/// Host memory pages in a MiB.
const PAGES_A_MIB: u32 = 256;

/// Identify Controller, CNS 01h: 4096 bytes. `data_kept`: blocks can be compared. `states`: the power states that no limit prohibits.
pub fn controller(profile: &Profile, namespaces: &Namespaces, data_kept: bool, states: &[&PowerState]) -> Vec<u8> {
    let mut d = vec![0; 4096];
    let (id, offer) = (&profile.identity, &profile.offer);
    put(&mut d, 0, &id.vendor_id.to_le_bytes());
    put(&mut d, 2, &id.vendor_id.to_le_bytes());
    text(&mut d[4..24], &id.serial);
    text(&mut d[24..64], &id.model);
    text(&mut d[64..72], &id.firmware);
    d[72] = *offer.arbitration_burst; // RAB
    put(&mut d, 73, &id.ieee_oui.to_le_bytes()[..3]);
    d[77] = *profile.limits.mdts;
    put(&mut d, 78, &CONTROLLER_ID.to_le_bytes());
    put(&mut d, 80, &version(&id.nvme_version).to_le_bytes());
    let deepest = profile.power_state.iter().map(|s| *s.exit_us).max().unwrap_or(0);
    put(&mut d, 84, &(deepest + 500_000).to_le_bytes()); // RTD3R
    put(&mut d, 88, &2_000_000u32.to_le_bytes()); // RTD3E
    put(&mut d, 92, &(u32::from(namespaces.most() > 1) << 8).to_le_bytes()); // OAES: namespace attributes
    let attributes = u32::from(*offer.permissive_mode) << 1
        | u32::from(*offer.power_limit) << 20
        | u32::from(*offer.power_measurement) << 21;
    put(&mut d, 96, &attributes.to_le_bytes()); // CTRATT: permissive mode, power limit, power measurement
    let management = u16::from(*offer.namespace_management) << 3 | u16::from(offer.self_test()) << 4;
    put(&mut d, 256, &(1 << 1 | management).to_le_bytes()); // OACS: Format NVM, and those
    d[258] = ABORT_LIMIT;
    d[259] = AER_LIMIT;
    d[260] = 0x03; // FRMW: one slot, read only
    d[261] = 0x06; // LPA: commands supported and effects, extended offset and length
    d[262] = (ERROR_LOG_ENTRIES - 1) as u8;
    d[263] = (states.len() - 1) as u8;
    let apst = profile.power_state.iter().any(|s| !s.operational);
    d[265] = u8::from(apst);
    put(&mut d, 266, &((*profile.limits.warning_temperature_c + 273) as u16).to_le_bytes());
    put(&mut d, 268, &((*profile.limits.critical_temperature_c + 273) as u16).to_le_bytes());
    put(&mut d, 272, &(*offer.hmb_preferred_mib * PAGES_A_MIB).to_le_bytes()); // HMPRE
    put(&mut d, 276, &(*offer.hmb_minimum_mib * PAGES_A_MIB).to_le_bytes()); // HMMIN
    put(&mut d, 280, &u128::from(namespaces.capacity()).to_le_bytes()); // TNVMCAP
    put(&mut d, 296, &u128::from(namespaces.unallocated()).to_le_bytes()); // UNVMCAP
    if offer.self_test() {
        put(&mut d, 316, &(*offer.self_test_extended_min as u16).to_le_bytes()); // EDSTT
        d[318] = 1; // DSTO: one at a time
    }
    if offer.hctm() {
        d[322] = 1; // HCTMA
        put(&mut d, 324, &(*offer.hctm_minimum_c + 273).to_le_bytes()); // MNTMT
        put(&mut d, 326, &(*offer.hctm_maximum_c + 273).to_le_bytes()); // MXTMT
    }
    put(&mut d, 328, &sanitize_capabilities(offer).to_le_bytes()); // SANICAP
    if *offer.hmb_preferred_mib > 0 {
        put(&mut d, 336, &(hmb::DESCRIPTORS as u16).to_le_bytes()); // HMMAXD
    }
    if *offer.power_limit {
        let (max_power, fine) = profile.power_state[0].declared_max();
        d[385] = if fine { 1 } else { 2 }; // its scale, with the coding of feature 23h
        put(&mut d, 390, &max_power.to_le_bytes()); // MUP
    }
    if let Some((scale, value)) = offer.measures_power().then(|| profile.own_meter_facts().sample_rate()).flatten() {
        put(&mut d, 392, &[value, scale]); // IPMSR
        put(&mut d, 394, &(u16::from(*offer.power_measurement) * ownmeter::LONGEST_MIN).to_le_bytes());
        // MSMT
    }
    d[512] = 0x66; // SQES
    d[513] = 0x44; // CQES
    put(&mut d, 516, &namespaces.most().to_le_bytes()); // NN
                                                        // ONCS: dataset management, write zeroes, save and select, timestamp; compare and write uncorrectable if offered
    let optional = u16::from(data_kept) | u16::from(*offer.write_uncorrectable) << 1;
    put(&mut d, 520, &(0x005C | optional).to_le_bytes());
    d[524] = 0x04; // FNA: by namespace; cryptographic erase
    d[525] = 0x06 | u8::from(*offer.volatile_write_cache); // VWC; Flush takes FFFFFFFFh
    put(&mut d, 526, &0u16.to_le_bytes()); // AWUN
    put(&mut d, 536, &u32::from(*offer.sgls).to_le_bytes()); // SGLS: without alignment
    let nqn = format!("nqn.2014.08.org.nvmexpress:uuid:wattbell-{}", profile.name);
    put(&mut d, 768, nqn.as_bytes());
    for (i, state) in states.iter().enumerate() {
        let at = 2048 + 32 * i;
        let (max_power, fine) = state.declared_max();
        put(&mut d, at, &max_power.to_le_bytes());
        d[at + 3] = u8::from(fine) | u8::from(!state.operational) << 1;
        put(&mut d, at + 4, &state.entry_us.to_le_bytes());
        put(&mut d, at + 8, &state.exit_us.to_le_bytes());
        let rank = (i as u8).min(31);
        put(&mut d, at + 12, &[rank, rank, rank, rank]); // RRT, RRL, RWT, RWL
    }
    d
}

fn sanitize_capabilities(offer: &Offer) -> u32 {
    const NO_DEALLOCATE_INHIBITED: u32 = 1 << 29;
    let bit = |way, bit: u32| u32::from(offer.sanitizes(way)) << bit;
    match bit(Way::Crypto, 0) | bit(Way::Block, 1) | bit(Way::Overwrite, 2) {
        0 => 0,
        ways => ways | NO_DEALLOCATE_INHIBITED,
    }
}

/// Identify Namespace, CNS 00h and 11h: 4096 bytes. `formats` are block sizes as powers of two; `percent_left` of a
/// format in progress.
pub fn namespace(profile: &Profile, namespace: &Namespace, formats: &[u8], percent_left: u8) -> Vec<u8> {
    let mut d = vec![0; 4096];
    for at in [0, 8, 16] {
        put(&mut d, at, &namespace.blocks.to_le_bytes()); // NSZE, NCAP, NUSE
    }
    d[26] = namespace.format; // FLBAS
    d[32] = 0x80 | percent_left; // FPI
    put(&mut d, 48, &u128::from(namespace.bytes()).to_le_bytes()); // NVMCAP
    put(&mut d, 120, &eui64(profile, namespace));
    lba_formats(&mut d, formats);
    d
}

/// Returns the Identify data that all namespaces share (CNS 00h with FFFFFFFFh): 4096 bytes.
pub fn namespace_common(namespaces: &Namespaces) -> Vec<u8> {
    let mut d = vec![0; 4096];
    lba_formats(&mut d, namespaces.formats());
    d
}

fn lba_formats(d: &mut [u8], formats: &[u8]) {
    d[25] = (formats.len() - 1) as u8; // NLBAF
    d[33] = 0x09; // DLFEAT: reads of deallocated blocks return zeroes; write zeroes may deallocate
    for (i, shift) in formats.iter().enumerate() {
        d[128 + 4 * i + 2] = *shift; // LBADS
    }
}

/// Namespace ID lists, CNS 02h and 10h: 4096 bytes, at most 1024 identifiers.
pub fn namespace_list(ids: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut d: Vec<u8> = ids.take(1024).flat_map(u32::to_le_bytes).collect();
    d.resize(4096, 0);
    d
}

/// Controller lists, CNS 12h and 13h: 4096 bytes; `named`: the only controller is in it.
pub fn controller_list(named: bool) -> Vec<u8> {
    let mut d = vec![0; 4096];
    if named {
        put(&mut d, 0, &1u16.to_le_bytes());
        put(&mut d, 2, &CONTROLLER_ID.to_le_bytes());
    }
    d
}

/// Namespace Identification Descriptors, CNS 03h: 4096 bytes with one EUI-64.
pub fn namespace_descriptors(profile: &Profile, namespace: &Namespace) -> Vec<u8> {
    let mut d = vec![0; 4096];
    put(&mut d, 0, &[1, 8, 0, 0]);
    put(&mut d, 4, &eui64(profile, namespace));
    d
}

/// Returns the OUI, then 40 bits made from the serial number and the number of the namespace's creation.
fn eui64(profile: &Profile, namespace: &Namespace) -> [u8; 8] {
    let oui = profile.identity.ieee_oui.to_be_bytes();
    let hash = profile.identity.serial.bytes().fold(0u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
    let tail = hash.wrapping_add(u64::from(namespace.generation) - 1).to_be_bytes();
    [oui[1], oui[2], oui[3], tail[3], tail[4], tail[5], tail[6], tail[7]]
}

pub(crate) fn put(d: &mut [u8], at: usize, bytes: &[u8]) {
    d[at..at + bytes.len()].copy_from_slice(bytes);
}

/// ASCII, cut or padded with spaces.
pub(crate) fn text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    let n = text.len().min(field.len());
    field[..n].copy_from_slice(&text.as_bytes()[..n]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_states_of_the_660p_as_nvme_cli_reads_them() {
        let profile = Profile::load("intel-660p-1tb").unwrap();
        let states: Vec<_> = profile.power_state.iter().collect();
        let d = controller(&profile, &Namespaces::new(&profile), true, &states);
        assert_eq!((d[263], d[265], d[77]), (4, 1, 5));
        let state = |i: usize| {
            let at = 2048 + 32 * i;
            let max_power = u16::from_le_bytes([d[at], d[at + 1]]);
            (max_power, d[at + 3], u32::from_le_bytes([d[at + 8], d[at + 9], d[at + 10], d[at + 11]]))
        };
        assert_eq!([state(0), state(2), state(3), state(4)], [(400, 0, 0), (220, 0, 0), (300, 3, 5000), (40, 3, 9000)]);
    }
}
