//! The SSD model for C: `include/wattbell_ssd.h`, which documents it for users.
//!
//! No call panics: [`GuardedEndpoint`] catches panics of the model, and the code of this file has none.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr, CString};
use std::ptr;
use wattbell_ssd::{Condition, Endpoint, EndpointError, EndpointOptions, GuardedEndpoint};

const NOTHING: c_int = 0;
const TAKEN: c_int = 1;
const ARGUMENT: c_int = -1;
const PROFILE: c_int = -2;
const MALFORMED: c_int = -3;
const TIME: c_int = -4;
const DEFECT: c_int = -5;
const NEVER: u64 = u64::MAX;
/// Bytes of the caller's buffer, `WATTBELL_SSD_TLP_BYTES`.
const TLP_BYTES: usize = 4128;

thread_local! {
    static WHY: RefCell<CString> = RefCell::default();
}

/// `wattbell_ssd`.
pub struct Drive(GuardedEndpoint);

/// `wattbell_ssd_options`.
#[repr(C)]
pub struct OptionsOfC {
    seed: u64,
    condition: u8,
    store: u8,
    rail: u8,
    ready_us: u32,
}

/// `wattbell_ssd_rail`.
#[repr(C)]
#[derive(Default)]
pub struct RailOfC {
    time_ps: u64,
    current_na: i64,
    voltage_nv: i64,
}

fn fail(code: c_int, why: &str) -> c_int {
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    WHY.with(|last| *last.borrow_mut() = text);
    code
}

fn failed(error: &EndpointError) -> c_int {
    let code = match error {
        EndpointError::Profile(_) => PROFILE,
        EndpointError::Malformed(_) => MALFORMED,
        EndpointError::Time { .. } => TIME,
        EndpointError::Defect(_) => DEFECT,
    };
    fail(code, &error.to_string())
}

/// # Safety
///
/// `drive` is null or a drive of [`wattbell_ssd_new`] that nobody else uses meanwhile.
unsafe fn with<T>(drive: *mut Drive, work: impl FnOnce(&mut Endpoint) -> Result<T, EndpointError>) -> Result<T, c_int> {
    // SAFETY: the caller's promise.
    let Some(drive) = (unsafe { drive.as_mut() }) else { return Err(fail(ARGUMENT, "the drive is a null pointer")) };
    drive.0.with(work).map_err(|error| failed(&error))
}

/// Switches a drive on.
///
/// # Safety
///
/// `profile` is null or a string that ends with 0; `options` and `drive` are null or valid pointers.
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_new(
    profile: *const c_char,
    options: *const OptionsOfC,
    drive: *mut *mut Drive,
) -> c_int {
    if profile.is_null() || drive.is_null() {
        return fail(ARGUMENT, "the profile or the place for the drive is a null pointer");
    }
    // SAFETY: neither is null, and the caller promises the rest.
    let (profile, options) = unsafe {
        *drive = ptr::null_mut();
        (CStr::from_ptr(profile), options.as_ref())
    };
    let Ok(profile) = profile.to_str() else { return fail(ARGUMENT, "the profile's name is not UTF-8") };
    let mut chosen = EndpointOptions::default();
    if let Some(options) = options {
        chosen.condition = match options.condition {
            0 => Condition::TestData,
            1 => Condition::Full,
            2 => Condition::Empty,
            other => return fail(ARGUMENT, &format!("condition {other}: it is 0, 1 or 2")),
        };
        chosen.ready_us = (options.ready_us != 0).then_some(options.ready_us);
        (chosen.seed, chosen.store, chosen.rail) = (options.seed, options.store != 0, options.rail != 0);
    }
    match GuardedEndpoint::new(profile, chosen) {
        Ok(made) => {
            // SAFETY: it is not null.
            unsafe { *drive = Box::into_raw(Box::new(Drive(made))) };
            NOTHING
        }
        Err(error) => failed(&error),
    }
}

/// Frees a drive.
///
/// # Safety
///
/// `drive` is null or a drive of [`wattbell_ssd_new`] that was not freed.
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_free(drive: *mut Drive) {
    if !drive.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(drive) });
    }
}

/// The reason of this thread's last failure.
#[no_mangle]
pub extern "C" fn wattbell_ssd_error() -> *const c_char {
    WHY.with(|last| last.borrow().as_ptr())
}

/// Gives the drive a TLP.
///
/// # Safety
///
/// `drive` as in [`wattbell_ssd_free`]; `tlp` is null or has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_push(drive: *mut Drive, time_ps: u64, tlp: *const u8, length: usize) -> c_int {
    if tlp.is_null() {
        return fail(ARGUMENT, "the TLP is a null pointer");
    }
    // SAFETY: the caller's promises.
    let done = unsafe {
        let tlp = std::slice::from_raw_parts(tlp, length);
        with(drive, |endpoint| endpoint.receive(time_ps, tlp))
    };
    done.map_or_else(|code| code, |()| NOTHING)
}

/// Lets time go on.
///
/// # Safety
///
/// `drive` as in [`wattbell_ssd_free`].
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_advance(drive: *mut Drive, time_ps: u64) -> c_int {
    // SAFETY: the caller's promise.
    let done = unsafe { with(drive, |endpoint| endpoint.advance(time_ps)) };
    done.map_or_else(|code| code, |()| NOTHING)
}

/// Takes a TLP.
///
/// # Safety
///
/// `drive` as in [`wattbell_ssd_free`]; `time_ps` and `length` are null or valid; `buffer` is null or has `WATTBELL_SSD_TLP_BYTES`.
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_take(
    drive: *mut Drive,
    time_ps: *mut u64,
    buffer: *mut u8,
    length: *mut usize,
) -> c_int {
    if time_ps.is_null() || buffer.is_null() || length.is_null() {
        return fail(ARGUMENT, "the place for the time, the TLP or its length is a null pointer");
    }
    // SAFETY: the caller's promise.
    match unsafe { with(drive, |endpoint| Ok(endpoint.take())) } {
        Ok(Some((at, tlp))) => {
            let size = tlp.len().min(TLP_BYTES); // a TLP with 4096 bytes of payload has 4112
                                                 // SAFETY: none is null, and the buffer has TLP_BYTES.
            unsafe {
                ptr::copy_nonoverlapping(tlp.as_ptr(), buffer, size);
                (*time_ps, *length) = (at, size);
            }
            TAKEN
        }
        Ok(None) => NOTHING,
        Err(code) => code,
    }
}

/// Takes a change of the rail.
///
/// # Safety
///
/// `drive` as in [`wattbell_ssd_free`]; `step` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_take_rail(drive: *mut Drive, step: *mut RailOfC) -> c_int {
    if step.is_null() {
        return fail(ARGUMENT, "the place for the step is a null pointer");
    }
    // SAFETY: the caller's promise.
    match unsafe { with(drive, |endpoint| Ok(endpoint.take_rail())) } {
        Ok(Some((time_ps, rail))) => {
            let taken = RailOfC { time_ps, current_na: rail.current_na, voltage_nv: rail.voltage_nv };
            // SAFETY: it is not null.
            unsafe { *step = taken };
            TAKEN
        }
        Ok(None) => NOTHING,
        Err(code) => code,
    }
}

/// When the drive does something next.
///
/// # Safety
///
/// `drive` as in [`wattbell_ssd_free`].
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_next_ps(drive: *mut Drive) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { with(drive, |endpoint| Ok(endpoint.next_ps())) }.ok().flatten().unwrap_or(NEVER)
}

/// Energy since time 0.
///
/// # Safety
///
/// `drive` as in [`wattbell_ssd_free`].
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_energy_pj(drive: *mut Drive) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { with(drive, |endpoint| Ok(endpoint.energy_pj())) }.unwrap_or(0)
}

/// Power at present.
///
/// # Safety
///
/// `drive` as in [`wattbell_ssd_free`].
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_power_nw(drive: *mut Drive) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { with(drive, |endpoint| Ok(endpoint.power_nw())) }.unwrap_or(0)
}

/// TLPs that were thrown away.
///
/// # Safety
///
/// `drive` as in [`wattbell_ssd_free`].
#[no_mangle]
pub unsafe extern "C" fn wattbell_ssd_discarded_tlps(drive: *mut Drive) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { with(drive, |endpoint| Ok(endpoint.discarded_tlps())) }.unwrap_or(0)
}
