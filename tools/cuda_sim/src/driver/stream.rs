//! Streams and events. All work is done at the call, so that none has anything to wait for.

use std::{
    ffi::{c_int, c_uint, c_void},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use super::put;
use crate::{
    counters::count,
    failure::{Failure, answer},
    machine::{current, current_index, device},
};

/// Streams are numbers above this.
static STREAMS: AtomicUsize = AtomicUsize::new(0x2000);

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: *mut *mut c_void, _flags: c_uint) -> c_int {
    let handle = STREAMS.fetch_add(1, Relaxed);
    answer(current().and_then(|_| put(stream, handle as *mut c_void)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(stream: *mut *mut c_void, flags: c_uint, _priority: c_int) -> c_int {
    cuStreamCreate(stream, flags)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(_stream: *mut c_void) -> c_int {
    answer(Ok(()))
}

/// The host waits: counted, and the place where an error of an earlier launch is reported.
fn wait() -> Result<(), Failure> {
    let device = device(current_index().ok_or(Failure::InvalidContext)? as c_int)?;
    count(&device.counters.synchronisations);
    device.check()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(_stream: *mut c_void) -> c_int {
    answer(wait())
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> c_int {
    answer(wait())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(_stream: *mut c_void, _event: *mut Event, _flags: c_uint) -> c_int {
    answer(current().map(drop))
}

/// An event: the card's context, and when it was recorded.
struct Event {
    recorded: Option<Instant>,
    /// The card: an event can be waited for where no context is current.
    device: usize,
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: *mut *mut Event, _flags: c_uint) -> c_int {
    let made = current_index().ok_or(Failure::InvalidContext).and_then(|device| {
        current()?;
        put(event, Box::into_raw(Box::new(Event { recorded: None, device })))
    });
    answer(made)
}

/// The event behind a handle of the caller.
fn event(handle: *mut Event) -> Result<&'static mut Event, Failure> {
    // SAFETY: handles come from `cuEventCreate`, and their owner uses each from one thread at a time until it destroys it.
    unsafe { handle.as_mut() }.ok_or(Failure::InvalidHandle)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(handle: *mut Event, _stream: *mut c_void) -> c_int {
    answer(current().and_then(|_| event(handle)).map(|event| event.recorded = Some(Instant::now())))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(handle: *mut Event) -> c_int {
    answer(event(handle).and_then(|event| {
        let device = device(event.device as c_int)?;
        count(&device.counters.synchronisations);
        device.check()
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(handle: *mut Event) -> c_int {
    answer(event(handle).and_then(|event| device(event.device as c_int)?.check()))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: *mut Event, end: *mut Event) -> c_int {
    let elapsed = event(start).and_then(|start| {
        let recorded = start.recorded.zip(event(end)?.recorded).ok_or(Failure::InvalidHandle)?;
        put(milliseconds, recorded.1.saturating_duration_since(recorded.0).as_secs_f32() * 1e3)
    });
    answer(elapsed)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: *mut Event, end: *mut Event) -> c_int {
    cuEventElapsedTime_v2(milliseconds, start, end)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(handle: *mut Event) -> c_int {
    if handle.is_null() {
        return answer(Err(Failure::InvalidHandle));
    }
    // SAFETY: `cuEventCreate` made it, and its owner destroys it once.
    drop(unsafe { Box::from_raw(handle) });
    answer(Ok(()))
}
