//! The functions of `nvml.h` that oomph calls.
//!
//! A card reports the memory of this process and no other. What the library lacks altogether is absent for its callers,
//! as on an older driver.

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    process,
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    device::Device,
    driver::text,
    machine::{device, machine},
    memory::CONTEXT_BYTES,
    pointer,
};

/// `nvmlReturn_t`.
#[derive(Clone, Copy, Debug)]
enum Failure {
    InvalidArgument = 2,
    InsufficientSize = 7,
}

fn answer(result: Result<(), Failure>) -> c_int {
    result.map_or_else(|failure| failure as c_int, |()| 0)
}

fn put<T>(target: *mut T, value: T) -> Result<(), Failure> {
    pointer::put(target, value).ok_or(Failure::InvalidArgument)
}

/// Handles are one more than a card's index, so that none is null.
fn card(handle: *mut c_void) -> Result<(usize, &'static Device), Failure> {
    let index = (handle as usize).checked_sub(1).ok_or(Failure::InvalidArgument)?;
    device(index as c_int).map(|device| (index, device)).map_err(|_| Failure::InvalidArgument)
}

fn written(target: *mut c_char, length: c_uint, value: &str) -> Result<(), Failure> {
    text(target, length as c_int, value).map_err(|_| Failure::InvalidArgument)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> c_int {
    machine();
    answer(Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_int {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> c_int {
    answer(Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> c_int {
    answer(written(version, length, "simulated"))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    answer(put(count, machine().devices.len() as c_uint))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut *mut c_void) -> c_int {
    let next = (index as usize + 1) as *mut c_void;
    answer(card(next).and_then(|_| put(handle, next)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(handle: *mut c_void, name: *mut c_char, length: c_uint) -> c_int {
    answer(card(handle).and_then(|(_, device)| written(name, length, device.card.name)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(handle: *mut c_void, uuid: *mut c_char, length: c_uint) -> c_int {
    let uuid_of = |index| format!("GPU-5a5a5a5a-5a5a-5a5a-5a5a-{index:012}");
    answer(card(handle).and_then(|(index, _)| written(uuid, length, &uuid_of(index))))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMinorNumber(handle: *mut c_void, number: *mut c_uint) -> c_int {
    answer(card(handle).and_then(|(index, _)| put(number, index as c_uint)))
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
struct MemoryInfo {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: *mut c_void, info: *mut MemoryInfo) -> c_int {
    answer(card(handle).and_then(|(_, device)| {
        let (total, used) = (device.card.memory_bytes, used(device));
        let version = size_of::<MemoryInfo>() as c_uint | 2 << 24;
        put(info, MemoryInfo { version, total, reserved: 0, free: total.saturating_sub(used), used })
    }))
}

/// Bytes of this process on a card: those allocated, and its context if it has one.
fn used(device: &Device) -> u64 {
    let (allocated, _) = device.memory.used_and_peak();
    allocated + if device.has_context.load(Relaxed) { CONTEXT_BYTES } else { 0 }
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
struct ProcessInfo {
    pid: c_uint,
    used_bytes: u64,
    instances: [c_uint; 2],
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: *mut c_void,
    count: *mut c_uint,
    list: *mut ProcessInfo,
) -> c_int {
    answer(card(handle).and_then(|(_, device)| {
        let used_bytes = used(device);
        if used_bytes == 0 {
            return put(count, 0);
        }
        // SAFETY: the caller passes the length of its list.
        let room = unsafe { count.as_ref() }.copied().ok_or(Failure::InvalidArgument)?;
        put(count, 1)?;
        if list.is_null() || room == 0 {
            return Err(Failure::InsufficientSize);
        }
        put(list, ProcessInfo { pid: process::id(), used_bytes, instances: [c_uint::MAX; 2] })
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    handle: *mut c_void,
    count: *mut c_uint,
    _list: *mut ProcessInfo,
) -> c_int {
    answer(card(handle).and_then(|_| put(count, 0)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(number: c_int) -> *const c_char {
    let text: &[u8] = match number {
        0 => b"Success\0",
        2 => b"Invalid argument\0",
        7 => b"Insufficient size\0",
        _ => b"Unknown error\0",
    };
    text.as_ptr().cast()
}
