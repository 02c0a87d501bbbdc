//! Allocations and copies.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    collections::BTreeMap,
    ffi::{c_int, c_uint, c_void},
    sync::{Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread::sleep,
};

use super::put;
use crate::{
    counters::count,
    device::Device,
    failure::{Failure, answer},
    machine::{current, machine},
};

fn allocate(pointer: *mut u64, bytes: usize) -> Result<(), Failure> {
    let device = current()?;
    let allocated = device.allocate(bytes as u64);
    let (used, _) = device.memory.used_and_peak();
    machine().log.line(format_args!("allocate {bytes}: {allocated:x?}, {used} in all"));
    put(pointer, allocated?)
}

fn free(pointer: u64) -> Result<(), Failure> {
    let device = current()?;
    let bytes = device.memory.free(pointer)?;
    count(&device.counters.frees);
    machine().log.line(format_args!("free {bytes}"));
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> c_int {
    answer(allocate(pointer, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, _stream: *mut c_void) -> c_int {
    answer(allocate(pointer, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(pointer: u64) -> c_int {
    answer(free(pointer))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(pointer: u64, _stream: *mut c_void) -> c_int {
    answer(free(pointer))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    answer(current().and_then(|device| {
        let (free_bytes, total_bytes) = device.memory.info();
        put(free, free_bytes as usize).and_then(|()| put(total, total_bytes as usize))
    }))
}

/// Pinned host memory, by address.
static PINNED: Mutex<BTreeMap<usize, Layout>> = Mutex::new(BTreeMap::new());

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) -> c_int {
    let layout = Layout::from_size_align(bytes.max(1), 4_096).map_err(|_| Failure::InvalidValue);
    answer(layout.and_then(|layout| {
        // SAFETY: the size is not zero.
        let address = unsafe { alloc_zeroed(layout) };
        if address.is_null() {
            return Err(Failure::OutOfMemory);
        }
        PINNED.lock().unwrap_or_else(PoisonError::into_inner).insert(address as usize, layout);
        put(pointer, address.cast())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, _flags: c_uint) -> c_int {
    cuMemAllocHost_v2(pointer, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> c_int {
    let layout = PINNED.lock().unwrap_or_else(PoisonError::into_inner).remove(&(pointer as usize));
    // SAFETY: `cuMemAllocHost_v2` allocated it with this layout, and the list had it once.
    answer(layout.ok_or(Failure::InvalidValue).map(|layout| unsafe { dealloc(pointer.cast(), layout) }))
}

/// Fails unless the card has all these bytes.
fn check(device: &Device, address: u64, bytes: usize) -> Result<(), Failure> {
    if device.memory.contains(address, bytes as u64) { Ok(()) } else { Err(Failure::InvalidValue) }
}

fn count_to_device(device: &Device, bytes: usize) {
    count(&device.counters.copies_to_device);
    device.counters.bytes_to_device.fetch_add(bytes as u64, Relaxed);
    machine().log.line(format_args!("copy {bytes} to the device"));
    sleep(device.faults.copy_delay);
}

fn count_to_host(device: &Device, bytes: usize) {
    count(&device.counters.copies_to_host);
    device.counters.bytes_to_host.fetch_add(bytes as u64, Relaxed);
    machine().log.line(format_args!("copy {bytes} to the host"));
    sleep(device.faults.copy_delay);
}

fn count_on_device(device: &Device, bytes: usize) {
    count(&device.counters.copies_on_device);
    device.counters.bytes_on_device.fetch_add(bytes as u64, Relaxed);
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(
    target: u64,
    source: *const c_void,
    bytes: usize,
    _stream: *mut c_void,
) -> c_int {
    answer(current().and_then(|device| {
        check(device, target, bytes)?;
        count_to_device(device, bytes);
        // SAFETY: the card has these bytes, and the caller vouches for its own.
        unsafe { (target as *mut u8).copy_from_nonoverlapping(source.cast(), bytes) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(
    target: *mut c_void,
    source: u64,
    bytes: usize,
    _stream: *mut c_void,
) -> c_int {
    answer(current().and_then(|device| {
        check(device, source, bytes)?;
        count_to_host(device, bytes);
        // SAFETY: the card has these bytes, and the caller vouches for its own.
        unsafe { target.cast::<u8>().copy_from_nonoverlapping(source as *const u8, bytes) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, bytes: usize, _stream: *mut c_void) -> c_int {
    answer(current().and_then(|device| {
        check(device, target, bytes).and_then(|()| check(device, source, bytes))?;
        count_on_device(device, bytes);
        // SAFETY: the card has both.
        unsafe { (target as *mut u8).copy_from(source as *const u8, bytes) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(target: u64, value: u8, bytes: usize, _stream: *mut c_void) -> c_int {
    answer(current().and_then(|device| {
        check(device, target, bytes)?;
        count(&device.counters.fills);
        device.counters.bytes_filled.fetch_add(bytes as u64, Relaxed);
        // SAFETY: the card has these bytes.
        unsafe { (target as *mut u8).write_bytes(value, bytes) };
        Ok(())
    }))
}

/// `CUDA_MEMCPY2D` of `cuda.h`.
#[repr(C)]
struct Copy2d {
    source_x: usize,
    source_y: usize,
    source_type: c_uint,
    source_host: *const c_void,
    source_device: u64,
    source_array: *mut c_void,
    source_pitch: usize,
    target_x: usize,
    target_y: usize,
    target_type: c_uint,
    target_host: *mut c_void,
    target_device: u64,
    target_array: *mut c_void,
    target_pitch: usize,
    width: usize,
    height: usize,
}

/// `CU_MEMORYTYPE_HOST`.
const HOST: c_uint = 1;

impl Copy2d {
    /// Bytes from the first to behind the last.
    fn extent(&self, pitch: usize) -> usize {
        self.height.saturating_sub(1) * pitch + self.width
    }

    fn run(&self, device: &Device) -> Result<(), Failure> {
        let from_host = self.source_type == HOST;
        let to_host = self.target_type == HOST;
        let source = if from_host { self.source_host as u64 } else { self.source_device };
        let target = if to_host { self.target_host as u64 } else { self.target_device };
        let source = source + (self.source_y * self.source_pitch + self.source_x) as u64;
        let target = target + (self.target_y * self.target_pitch + self.target_x) as u64;
        if !from_host {
            check(device, source, self.extent(self.source_pitch))?;
        }
        if !to_host {
            check(device, target, self.extent(self.target_pitch))?;
        }
        match (from_host, to_host) {
            (true, _) => count_to_device(device, self.width * self.height),
            (false, true) => count_to_host(device, self.width * self.height),
            (false, false) => count_on_device(device, self.width * self.height),
        }
        for row in 0..self.height {
            let from = source as usize + row * self.source_pitch;
            let to = target as usize + row * self.target_pitch;
            // SAFETY: the card has its side, and the caller vouches for the host's.
            unsafe { (to as *mut u8).copy_from(from as *const u8, self.width) };
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpy2DAsync_v2(copy: *const Copy2d, _stream: *mut c_void) -> c_int {
    // SAFETY: the caller passes a description that it keeps for the time of the call.
    let copy = unsafe { copy.as_ref() }.ok_or(Failure::InvalidValue);
    answer(copy.and_then(|copy| current().and_then(|device| copy.run(device))))
}
