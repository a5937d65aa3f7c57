//! The Verilated instrument: a shared library with the interface of `rtl/rig_abi.h`, loaded at run time so that
//! building this crate does not need Verilator.

use crate::machine::Completion;
use libloading::{Library, Symbol};
use std::path::{Path, PathBuf};
use wattbell_spec::registers;

/// Must equal `WB_ABI_VERSION` of `rtl/rig_abi.h`.
pub const ABI_VERSION: u32 = 8;

/// One beat of a TLP stream; see `docs/architecture.md`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Beat {
    /// Tick of the first symbol of the TLP.
    pub tick: u64,
    /// Payload; byte 0 of the header is bits 7:0 of word 0 of the first beat.
    pub data: [u32; 4],
    /// The beat is valid.
    pub valid: u8,
    /// Number of words of `data` that count.
    pub dws: u8,
    /// First beat of a TLP.
    pub first: u8,
    /// Last beat of a TLP.
    pub last: u8,
    /// With `last`: discard the TLP.
    pub error: u8,
    /// With `first`: the tap missed TLPs before this TLP.
    pub lost: u8,
    #[doc(hidden)]
    pub pad: [u8; 2],
}

/// The instrument's inputs in the cycle after an edge, except that `step` and `bus_tick` belong to the edge itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)] // the ports of docs/architecture.md
pub struct Inputs {
    pub down: Beat,
    pub up: Beat,
    pub adc_v: u32,
    pub adc_i: u32,
    pub adc_f: u32,
    pub reg_wdata: u32,
    pub step: u16,
    pub reg_addr: u8,
    pub reg_we: u8,
    pub adc_valid: u8,
    pub adc_sdo_v: u8,
    pub adc_sdo_i: u8,
    pub adc_sdo_f: u8,
    pub perst_n: u8,
    pub clkreq_n: u8,
    pub link_state: u8,
    pub out_ready: u8,
    /// The clock `bus` has this edge too; must be 1 while `bus_active` would be.
    pub bus_tick: u8,
    /// Convert even without a capture.
    pub convert: u8,
    /// The board has a fine current path.
    pub adc_fine: u8,
    #[doc(hidden)]
    pub pad: [u8; 1],
}

impl Default for Inputs {
    /// No traffic, drive in reset with CLKREQ# released, link state unknown: a slot without a running drive.
    fn default() -> Self {
        Self {
            down: Beat::default(),
            up: Beat::default(),
            adc_v: 0,
            adc_i: 0,
            adc_f: 0,
            reg_wdata: 0,
            step: 0,
            reg_addr: 0,
            reg_we: 0,
            adc_valid: 0,
            adc_sdo_v: 0,
            adc_sdo_i: 0,
            adc_sdo_f: 0,
            perst_n: 0,
            clkreq_n: 1,
            link_state: 0,
            out_ready: 1,
            bus_tick: 1,
            convert: 0,
            adc_fine: 0,
            pad: [0; 1],
        }
    }
}

/// The outputs after a clock edge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)] // the ports of docs/architecture.md
pub struct Outputs {
    pub now: u64,
    pub deadline: u64,
    pub out_data: u32,
    pub reg_rdata: u32,
    pub quiet: u8,
    pub skip_down: u8,
    pub skip_up: u8,
    pub out_valid: u8,
    pub out_last: u8,
    pub adc_start: u8,
    pub adc_cnv: u8,
    pub adc_sck: u8,
    pub bus_active: u8,
    /// The `rail_` fields belong to a conversion that completes now; else to an earlier one.
    pub converted: u8,
    pub rail_flags: u8,
    /// `completion` belongs to a command at its CQE; else to an earlier one.
    pub completed: u8,
    pub rail_beyond: u8,
    #[doc(hidden)]
    pub pad: [u8; 3],
    pub rail_tick: u64,
    pub rail_period: u32,
    pub rail_v_code: u32,
    pub rail_i_code: u32,
    pub rail_v: i32,
    pub rail_i: i32,
    pub rail_f_code: u32,
    pub rail_guard: i32,
    pub completion: Completion,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Info {
    abi_version: u32,
    in_size: u32,
    out_size: u32,
    tlp_width: u32,
    serial_adc: u32,
}

/// Errors when loading a library.
#[derive(Debug, thiserror::Error)]
pub enum RtlError {
    /// There is no such library, or the loader rejects it.
    #[error("{path}: {reason}; build it with `make rtl`")]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// The library and this program were built from different versions.
    #[error("{path}: built for another version of the rig ({reason}); build it again with `make rtl`")]
    Abi {
        /// The library.
        path: PathBuf,
        /// The difference.
        reason: String,
    },
}

/// One model of the instrument.
///
/// `wb_clock` and the other calls are plain functions on the model's own memory. A model may move between threads. Only one thread uses it
/// at a time, which `&mut self` ensures.
pub struct Rtl {
    model: *mut std::ffi::c_void,
    clock: unsafe extern "C" fn(*mut std::ffi::c_void, *const Inputs, *mut Outputs),
    peek: unsafe extern "C" fn(*mut std::ffi::c_void, u8) -> u32,
    free: unsafe extern "C" fn(*mut std::ffi::c_void),
    info: Info,
    clock_ticks: u64,
    _library: Library,
}

// SAFETY: see the comment on `Rtl`; in a single-threaded model Verilator keeps nothing thread-local but the context, of
// which the shim makes one per model.
unsafe impl Send for Rtl {}

impl Rtl {
    /// Loads `path` and makes a model in its power-on state, shown by `outputs`.
    ///
    /// The first few cycles read the instrument's identity.
    pub fn load(path: &Path, outputs: &mut Outputs) -> Result<Self, RtlError> {
        let load = |reason: String| RtlError::Load { path: path.to_owned(), reason };
        if !path.exists() {
            return Err(load("no such file".into()));
        }
        // SAFETY: the library is ours; its initialisers only set up C++ statics.
        let library = unsafe { Library::new(path) }.map_err(|e| load(e.to_string()))?;
        // SAFETY: the types match rtl/rig_abi.h; its version and sizes are checked before any other call.
        unsafe {
            let info: Symbol<unsafe extern "C" fn() -> *const Info> =
                library.get(b"wb_info\0").map_err(|e| load(e.to_string()))?;
            let info = *info();
            let sizes = (size_of::<Inputs>() as u32, size_of::<Outputs>() as u32);
            if info.abi_version != ABI_VERSION || (info.in_size, info.out_size) != sizes {
                return Err(RtlError::Abi {
                    path: path.to_owned(),
                    reason: format!("interface {} rather than {ABI_VERSION}", info.abi_version),
                });
            }
            type New = unsafe extern "C" fn(*mut Outputs) -> *mut std::ffi::c_void;
            let new: Symbol<New> = library.get(b"wb_new\0").map_err(|e| load(e.to_string()))?;
            let clock = *library.get(b"wb_clock\0").map_err(|e| load(e.to_string()))?;
            let peek = *library.get(b"wb_peek\0").map_err(|e| load(e.to_string()))?;
            let free = *library.get(b"wb_free\0").map_err(|e| load(e.to_string()))?;
            let model = new(outputs);
            let mut rtl = Self { model, clock, peek, free, info, clock_ticks: 0, _library: library };
            rtl.check_build(outputs).map_err(|reason| RtlError::Abi { path: path.to_owned(), reason })?;
            Ok(rtl)
        }
    }

    /// Checks that the gateware's identity matches the build of this program and the shim.
    fn check_build(&mut self, outputs: &mut Outputs) -> Result<(), String> {
        let mut read = |address| {
            self.clock(&Inputs { reg_addr: address, ..Inputs::default() }, outputs);
            outputs.reg_rdata
        };
        let (id, version, build) = (read(registers::ID), read(registers::VERSION), read(registers::BUILD));
        if id != u32::from_le_bytes(*b"WBEL") {
            return Err(format!("register ID reads {id:08x}"));
        }
        let [major, minor, patch] = registers::GATEWARE_VERSION.map(u32::from);
        if version != major << 16 | minor << 8 | patch {
            return Err(format!("gateware {version:06x} rather than {major}.{minor}.{patch}"));
        }
        let width = 8 * ((build & registers::BUILD_TLP_WIDTH) >> registers::BUILD_TLP_WIDTH_SHIFT);
        let serial = u32::from(build & registers::BUILD_SERIAL_ADC != 0);
        if (width, serial) != (self.info.tlp_width, self.info.serial_adc) {
            return Err(format!("register BUILD reads {build:08x}"));
        }
        self.clock_ticks = u64::from(build & registers::BUILD_CLOCK_TICKS);
        Ok(())
    }

    /// Makes one rising clock edge. `outputs` shows the cycle after the edge; the instrument sees `inputs` in that cycle.
    #[inline]
    pub fn clock(&mut self, inputs: &Inputs, outputs: &mut Outputs) {
        // SAFETY: the model lives as long as self, and the structures are those the library was checked for.
        unsafe { (self.clock)(self.model, inputs, outputs) }
    }

    /// Present value of a register, without a clock edge. Not while a write is on its way.
    pub fn peek(&mut self, address: u8) -> u32 {
        // SAFETY: as in `clock`.
        unsafe { (self.peek)(self.model, address) }
    }

    /// Ticks `now` advances by per cycle.
    pub fn clock_ticks(&self) -> u64 {
        self.clock_ticks
    }

    /// 32-bit words per beat.
    pub fn beat_dws(&self) -> usize {
        self.info.tlp_width as usize / 32
    }

    /// Whether the ADC is read through its serial pins.
    pub fn serial_adc(&self) -> bool {
        self.info.serial_adc != 0
    }
}

impl Drop for Rtl {
    fn drop(&mut self) {
        // SAFETY: made by wb_new of the same library, freed once.
        unsafe { (self.free)(self.model) }
    }
}
