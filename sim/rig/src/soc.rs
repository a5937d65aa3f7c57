//! The Verilated controller: a shared library with the interface of `rtl/controller_abi.h`, and the firmware in its memory.

use crate::machine::Completion;
use crate::rtl::RtlError;
use libloading::{Library, Symbol};
use std::path::Path;

/// Must equal `WC_ABI_VERSION` of `rtl/controller_abi.h`.
pub const ABI_VERSION: u32 = 6;
/// Bytes of the console that one run carries in each direction.
pub const CONSOLE: usize = 256;

/// The controller's inputs from the first edge of a run on.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)] // the ports of docs/controller.md
pub struct Inputs {
    /// Ticks in the cycle after the first edge.
    pub now: u64,
    /// Ticks from edge to edge.
    pub ticks: u32,
    /// Maximum number of edges.
    pub clocks: u32,
    pub reg_rdata: u32,
    /// Return when the core sleeps.
    pub skip: u32,
    pub rail_tick: u64,
    pub rail_period: u32,
    pub rail_v_code: u32,
    pub rail_i_code: u32,
    pub rail_f_code: u32,
    pub rail_v: i32,
    pub rail_i: i32,
    pub rail_guard: i32,
    pub completion: Completion,
    pub rail_flags: u8,
    /// A conversion, in the cycle after the first edge.
    pub rail_valid: u8,
    pub perst_n: u8,
    pub clkreq_n: u8,
    pub link_state: u8,
    pub rail_good: u8,
    pub scl: u8,
    pub sda: u8,
    /// Maximum number of bytes that the console's other end takes.
    pub console_room: u8,
    pub console_count: u8,
    pub console: [u8; CONSOLE],
    /// A completion, in the cycle after the first edge.
    pub completed: u8,
    pub rail_beyond: u8,
}

impl Default for Inputs {
    fn default() -> Self {
        Self {
            now: 0,
            ticks: 0,
            clocks: 0,
            reg_rdata: 0,
            skip: 1,
            rail_tick: 0,
            rail_period: 0,
            rail_v_code: 0,
            rail_i_code: 0,
            rail_f_code: 0,
            rail_v: 0,
            rail_i: 0,
            rail_guard: 0,
            completion: Completion::default(),
            rail_flags: 0,
            rail_valid: 0,
            perst_n: 1,
            clkreq_n: 1,
            link_state: 0,
            rail_good: 1,
            scl: 1,
            sda: 1,
            console_room: 0,
            console_count: 0,
            console: [0; CONSOLE],
            completed: 0,
            rail_beyond: 0,
        }
    }
}

/// The controller's outputs in the cycle after the last edge of a run.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)] // the ports of docs/controller.md
pub struct Outputs {
    pub now: u64,
    pub deadline: u64,
    /// Edges of the run.
    pub clocks: u32,
    pub reg_wdata: u32,
    /// Level of the rail watch: conversions with a guard above this level are watched.
    pub rail_level: i32,
    pub reg_addr: u8,
    stop: u8,
    pub load_switch: u8,
    pub perst_low: u8,
    pub clkreq_low: u8,
    pub scl_low: u8,
    pub sda_low: u8,
    pub active: u8,
    /// Bytes of [`Inputs::console`] that were taken.
    pub console_taken: u8,
    pub console_count: u8,
    /// Whether the console would take a byte.
    pub console_ready: u8,
    /// Whether the console has another byte.
    pub console_waits: u8,
    /// Every conversion is watched.
    pub rail_wanted: u8,
    /// Shorted inputs: 1 voltage, 2 current.
    pub zero: u8,
    /// Watched events: 1 changes of PERST#, CLKREQ# and link state, 2 completions, 4 an action is pending.
    pub watched: u8,
    /// Test loads that are on: 1 coarse, 2 fine.
    pub load: u8,
    #[doc(hidden)]
    pub pad: [u8; 4],
    pub console: [u8; CONSOLE],
}

impl Default for Outputs {
    fn default() -> Self {
        // SAFETY: only integers, for which all zeros is a valid value.
        unsafe { std::mem::zeroed() }
    }
}

/// Why a run returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The requested number of edges was evaluated.
    Clocks,
    /// A register of the instrument is read in the cycle shown.
    Read(u8),
    /// A register of the instrument is written in the cycle shown.
    Write(u8, u32),
    /// A pin has changed.
    Pins,
    /// The core sleeps: nothing changes before `deadline` unless an input does.
    Quiet,
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Info {
    abi_version: u32,
    in_size: u32,
    out_size: u32,
    rom_words: u32,
}

/// One model of the controller. Like [`crate::rtl::Rtl`], it is used by one thread at a time.
pub struct Soc {
    model: *mut std::ffi::c_void,
    run: unsafe extern "C" fn(*mut std::ffi::c_void, *const Inputs, *mut Outputs),
    free: unsafe extern "C" fn(*mut std::ffi::c_void),
    /// Its last outputs.
    pub shown: Outputs,
    _library: Library,
}

// SAFETY: see the comment on `Soc`.
unsafe impl Send for Soc {}

impl Soc {
    /// Loads the library at `path` and makes a model in its power-on state that runs the firmware in `image`.
    pub fn load(path: &Path, image: &Path) -> Result<Self, RtlError> {
        let load = |reason: String| RtlError::Load { path: path.to_owned(), reason };
        if !path.exists() {
            return Err(load("no such file".into()));
        }
        let bytes = std::fs::read(image).map_err(|e| RtlError::Load {
            path: image.to_owned(),
            reason: format!("the firmware cannot be read: {e}"),
        })?;
        let words: Vec<u32> = bytes
            .chunks(4)
            .map(|c| c.iter().enumerate().fold(0, |word, (k, byte)| word | u32::from(*byte) << (8 * k)))
            .collect();
        // SAFETY: the library is ours; its initialisers only set up C++ statics.
        let library = unsafe { Library::new(path) }.map_err(|e| load(e.to_string()))?;
        // SAFETY: the types match rtl/controller_abi.h; its version and sizes are checked before any other call.
        unsafe {
            let info: Symbol<unsafe extern "C" fn() -> *const Info> =
                library.get(b"wc_info\0").map_err(|e| load(e.to_string()))?;
            let info = *info();
            let sizes = (size_of::<Inputs>() as u32, size_of::<Outputs>() as u32);
            let abi = |reason: String| RtlError::Abi { path: path.to_owned(), reason };
            if info.abi_version != ABI_VERSION || (info.in_size, info.out_size) != sizes {
                return Err(abi(format!("interface {} rather than {ABI_VERSION}", info.abi_version)));
            }
            if words.len() > info.rom_words as usize {
                return Err(abi(format!("the firmware has {} words, the memory {}", words.len(), info.rom_words)));
            }
            type New = unsafe extern "C" fn(*const u32, u32, *mut Outputs) -> *mut std::ffi::c_void;
            let new: Symbol<New> = library.get(b"wc_new\0").map_err(|e| load(e.to_string()))?;
            let run = *library.get(b"wc_run\0").map_err(|e| load(e.to_string()))?;
            let free = *library.get(b"wc_free\0").map_err(|e| load(e.to_string()))?;
            let mut shown = Outputs::default();
            let model = new(words.as_ptr(), words.len() as u32, &mut shown);
            Ok(Self { model, run, free, shown, _library: library })
        }
    }

    /// Clocks the controller and returns the reason of its stop; [`Self::shown`] holds the outputs after the last edge.
    pub fn run(&mut self, inputs: &Inputs) -> Stop {
        // SAFETY: the model lives as long as self, and the structures are those the library was checked for.
        unsafe { (self.run)(self.model, inputs, &mut self.shown) };
        let o = &self.shown;
        match o.stop {
            1 => Stop::Read(o.reg_addr),
            2 => Stop::Write(o.reg_addr, o.reg_wdata),
            3 => Stop::Pins,
            4 => Stop::Quiet,
            _ => Stop::Clocks,
        }
    }
}

impl Drop for Soc {
    fn drop(&mut self) {
        // SAFETY: made by wc_new of the same library, freed once.
        unsafe { (self.free)(self.model) }
    }
}
