//! A drive's declared and measured figures: a TOML file in which every figure carries its source.

mod fact;
mod geometry;
mod load;
mod offer;
mod own;

pub use fact::{Fact, Int, Num, Text};
pub(crate) use geometry::Geometry;
pub use load::ProfileError;
pub use offer::{Offer, Way};
pub use own::{OwnMeterFacts, OwnMonitorFacts};
use serde::{Deserialize, Serialize};

/// Picoseconds, the unit of every time in the model.
pub type Ps = u64;
/// A nanosecond.
pub const NS: Ps = 1_000;
/// A microsecond.
pub const US: Ps = 1_000_000;
/// A millisecond.
pub const MS: Ps = 1_000_000_000;
/// A second.
pub const S: Ps = 1_000_000_000_000;

/// Size of a logical block in bytes.
pub const LBA: u64 = 512;
/// The media are mapped in units of this many bytes.
pub const UNIT: u64 = 4096;
/// Most reads of the host memory buffer outstanding at a time.
pub const LENT_READS: usize = 2;

macro_rules! table {
    ($(#[$meta:meta])* $name:ident { $($(#[$fm:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Deserialize, Serialize)]
        #[serde(deny_unknown_fields)]
        #[allow(missing_docs)] // units stand in the names, meanings in docs/ssd-behaviour.md
        pub struct $name { $($(#[$fm])* pub $field: $type),* }
    };
}

table!(
    /// A drive.
    Profile {
        name: String,
        title: String,
        identity: Identity,
        namespace: Namespace,
        limits: Limits,
        link: LinkFacts,
        controller: ControllerFacts,
        flash: FlashFacts,
        thermal: ThermalFacts,
        power: PowerFacts,
        power_state: Vec<PowerState>,
        #[serde(default)]
        offer: Offer,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own_meter: Option<OwnMeterFacts>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own_monitor: Option<OwnMonitorFacts>,
    }
);
table!(
    /// Contents of Identify and the configuration space.
    Identity {
        model: Text,
        firmware: Text,
        serial: Text,
        vendor_id: Fact<u16>,
        device_id: Fact<u16>,
        ieee_oui: Fact<u32>,
        nvme_version: Text,
    }
);
table!(
    /// The one namespace.
    Namespace { lbas_512: Int }
);
table!(
    /// Limits the controller declares.
    Limits {
        mdts: Fact<u8>,
        io_queues: Fact<u16>,
        max_queue_entries: Fact<u32>,
        fetch_batch: Fact<u32>,
        warning_temperature_c: Int,
        critical_temperature_c: Int,
        ready_ms: Num,
    }
);
table!(
    /// The link and the host behind it.
    LinkFacts {
        max_payload: Fact<u32>,
        max_read_request: Fact<u32>,
        read_completion_boundary: Fact<u32>,
        tags: Fact<u16>,
        host_read_ns: Int,
        flight_ns: Int,
        l1_idle_us: Int,
        l1_2_idle_us: Int,
        l1_exit_us: Int,
        l1_2_exit_us: Int,
    }
);
table!(
    /// Time the controller takes, and its buffers.
    ControllerFacts {
        command_us: Num,
        command_occupancy_us: Num,
        write_us: Num,
        spread: Num,
        wake_spread: Num,
        doorbell_to_fetch_ns: Int,
        completion_ns: Int,
        msix_ns: Int,
        data_path_mb_per_s: Num,
        dma_reads: Int,
        list_read_bytes: Int,
        write_buffer_kib: Int,
        flush_idle_us: Int,
    }
);
table!(
    /// The flash array, and how it is managed.
    FlashFacts {
        in_place: Fact<bool>,
        bits_per_cell: Int,
        channels: Int,
        dies_per_channel: Int,
        planes: Int,
        page_kib: Int,
        stripe_kib: Int,
        channel_mb_per_s: Num,
        read_slc_us: Num,
        read_dense_us: Num,
        read_spread: Num,
        program_slc_us: Num,
        program_dense_us: Num,
        suspend_us: Num,
        raw_gib: Int,
        superblock_mib: Int,
        slc_cache_empty_gb: Num,
        slc_cache_full_gb: Num,
        test_data_slc_share: Num,
        past_cache: Text,
        fold_burst_gb: Num,
        drain_share: Num,
        gc_cycle_share: Num,
        fold_idle_ms: Num,
        fold_at: Num,
        fold_to: Num,
        map_cache_kib: Int,
        read_ahead_kib: Int,
    }
);
table!(
    /// Heat: one mass at one temperature.
    ThermalFacts {
        resistance_k_per_w: Num,
        capacity_j_per_k: Num,
        ambient_c: Num,
        throttle_per_k: Num,
    }
);
table!(
    /// Power by activity; the rail's source.
    PowerFacts {
        supply_v: Num,
        source_mohm: Num,
        coalesce_ns: Int,
        input_uf: Num,
        rise_ms: Num,
        boot_w: Num,
        core_active_w: Num,
        link_l0_w: Num,
        link_l1_w: Num,
        link_l1_2_w: Num,
        data_path_w: Num,
        channel_w: Num,
        die_read_w: Num,
        die_program_slc_w: Num,
        die_program_dense_w: Num,
    }
);
table!(
    /// One power state: declared figures and modelled behaviour.
    PowerState {
        max_w: Num,
        entry_us: Fact<u32>,
        exit_us: Fact<u32>,
        operational: bool,
        core_w: Num,
        real_entry_us: Int,
        real_exit_us: Int,
    }
);

impl Profile {
    /// The drive's own power meter; where the profile is silent, a right one.
    pub fn own_meter_facts(&self) -> OwnMeterFacts {
        self.own_meter.clone().unwrap_or_default()
    }
}

impl PowerState {
    /// Maximum power (MP) as Identify declares it: value, and whether its unit is 0.0001 W instead of 0.01 W (MXPS).
    pub fn declared_max(&self) -> (u16, bool) {
        let fine = *self.max_w < 1.0;
        ((*self.max_w * if fine { 1e4 } else { 1e2 }).round() as u16, fine)
    }

    /// The same in units of 0.1 mW.
    pub fn declared_max_tenth_mw(&self) -> u64 {
        let (value, fine) = self.declared_max();
        u64::from(value) * if fine { 1 } else { 100 }
    }
}

/// A time given in units of `unit`, rounded to picoseconds.
pub fn ps(value: f64, unit: Ps) -> Ps {
    (value * unit as f64).round() as Ps
}
