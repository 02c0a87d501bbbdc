//! Devices, their attributes and contexts.

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    sync::atomic::Ordering::Relaxed,
};

use super::put;
use crate::{
    card::attribute,
    failure::{Failure, answer, texts},
    machine::{current_index, device, machine, set_current},
};

/// CUDA 13.5: as new as the newest compiler in use.
const VERSION: c_int = 13_050;

/// Contexts are numbers: that of a card is its index above this.
const CONTEXT: usize = 0x1000;

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> c_int {
    machine();
    answer(Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    answer(put(version, VERSION))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    answer(put(count, machine().devices.len() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(handle: *mut c_int, index: c_int) -> c_int {
    answer(device(index).and_then(|_| put(handle, index)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, index: c_int) -> c_int {
    answer(device(index).and_then(|device| text(name, length, device.card.name)))
}

/// Writes a text with its closing zero, cut to the buffer.
pub(crate) fn text(target: *mut c_char, length: c_int, text: &str) -> Result<(), Failure> {
    let room = usize::try_from(length).ok().filter(|room| *room > 0).ok_or(Failure::InvalidValue)?;
    if target.is_null() {
        return Err(Failure::InvalidValue);
    }
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: the caller says that the buffer has `length` bytes.
    unsafe {
        target.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        target.add(bytes.len()).write(0);
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, index: c_int) -> c_int {
    answer(device(index).and_then(|device| put(bytes, device.card.memory_bytes as usize)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], index: c_int) -> c_int {
    answer(device(index).and_then(|_| put(uuid, [0x5a + index as u8; 16])))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], index: c_int) -> c_int {
    cuDeviceGetUuid_v2(uuid, index)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: *mut c_int, number: c_int, index: c_int) -> c_int {
    answer(device(index).and_then(|device| {
        let found = attribute(&device.card, number);
        if found.is_none() {
            machine().log.line(format_args!("attribute {number} is not simulated: 0"));
        }
        put(value, found.unwrap_or(0))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, index: c_int) -> c_int {
    answer(device(index).and_then(|device| {
        device.has_context.store(true, Relaxed);
        put(context, (CONTEXT + index as usize) as *mut c_void)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(index: c_int) -> c_int {
    answer(device(index).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    if context.is_null() {
        set_current(None);
        return answer(Ok(()));
    }
    let index = (context as usize).checked_sub(CONTEXT).filter(|index| *index < machine().devices.len());
    answer(index.ok_or(Failure::InvalidContext).map(|index| set_current(Some(index))))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> c_int {
    let handle = current_index().map_or(0, |index| CONTEXT + index);
    answer(put(context, handle as *mut c_void))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(handle: *mut c_int) -> c_int {
    let index = current_index().ok_or(Failure::InvalidContext);
    answer(index.and_then(|index| put(handle, index as c_int)))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> c_int {
    answer(put(least, 0).and_then(|()| put(greatest, -5)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, one: c_int, other: c_int) -> c_int {
    answer(device(one).and_then(|_| device(other)).and_then(|_| put(can, c_int::from(one != other))))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(number: c_int, name: *mut *const c_char) -> c_int {
    let known = texts(number).ok_or(Failure::InvalidValue);
    answer(known.and_then(|(known, _)| put(name, known.as_ptr().cast())))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(number: c_int, message: *mut *const c_char) -> c_int {
    let known = texts(number).ok_or(Failure::InvalidValue);
    answer(known.and_then(|(_, known)| put(message, known.as_ptr().cast())))
}
