//! The functions of `nccl.h` that Burn calls, between cards of this process.
//!
//! A collective is done when all ranks have called it; each call waits for the others.

mod element;
mod group;

use std::{
    ffi::{c_char, c_int, c_void},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use element::Element;
use group::{Group, Rank};

use crate::pointer;

/// `ncclResult_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    System = 2,
    InvalidArgument = 4,
}

fn answer(result: Result<(), Failure>) -> c_int {
    result.map_or_else(|failure| failure as c_int, |()| 0)
}

/// `ncclUniqueId`: the number of a group in its first bytes.
#[derive(Clone, Copy)]
#[repr(C)]
struct UniqueId([u8; 128]);

/// A rank's communicator.
struct Communicator {
    group: Arc<Group>,
    rank: usize,
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    put(version, 22_703)
}

fn put<T>(target: *mut T, value: T) -> c_int {
    answer(pointer::put(target, value).ok_or(Failure::InvalidArgument))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 128];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Relaxed).to_le_bytes());
    put(id, UniqueId(bytes))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommInitRank(
    communicator: *mut *mut Communicator,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
) -> c_int {
    let (Ok(ranks), Ok(rank)) = (usize::try_from(ranks), usize::try_from(rank)) else {
        return answer(Err(Failure::InvalidArgument));
    };
    if rank >= ranks {
        return answer(Err(Failure::InvalidArgument));
    }
    let group = Group::of(id.0, ranks);
    put(communicator, Box::into_raw(Box::new(Communicator { group, rank })))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDestroy(communicator: *mut Communicator) -> c_int {
    if !communicator.is_null() {
        // SAFETY: `ncclCommInitRank` made it, and its owner destroys it once.
        drop(unsafe { Box::from_raw(communicator) });
    }
    answer(Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommAbort(communicator: *mut Communicator) -> c_int {
    ncclCommDestroy(communicator)
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> c_int {
    answer(Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> c_int {
    answer(Ok(()))
}

/// `ncclSum` and `ncclAvg`.
const SUM: c_int = 0;
const MEAN: c_int = 4;

fn communicator(handle: *const Communicator) -> Result<&'static Communicator, Failure> {
    // SAFETY: handles come from `ncclCommInitRank`, and live until their owner destroys them.
    unsafe { handle.as_ref() }.ok_or(Failure::InvalidArgument)
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllReduce(
    source: *const c_void,
    target: *mut c_void,
    count: usize,
    element: c_int,
    operation: c_int,
    handle: *const Communicator,
    _stream: *mut c_void,
) -> c_int {
    answer(communicator(handle).and_then(|Communicator { group, rank }| {
        let element = Element::of(element).ok_or(Failure::InvalidArgument)?;
        if ![SUM, MEAN].contains(&operation) {
            return Err(Failure::InvalidArgument);
        }
        let part = Rank { source: source as usize, target: target as usize, count, element };
        group.all_reduce(*rank, part, operation == MEAN)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn ncclSend(
    source: *const c_void,
    count: usize,
    element: c_int,
    peer: c_int,
    handle: *const Communicator,
    _stream: *mut c_void,
) -> c_int {
    answer(communicator(handle).and_then(|Communicator { group, rank }| {
        let bytes = count * Element::of(element).ok_or(Failure::InvalidArgument)?.bytes();
        // SAFETY: the caller passes a buffer of so many elements.
        let message = unsafe { std::slice::from_raw_parts(source.cast::<u8>(), bytes) }.to_vec();
        group.send(*rank, peer as usize, message)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn ncclRecv(
    target: *mut c_void,
    count: usize,
    element: c_int,
    peer: c_int,
    handle: *const Communicator,
    _stream: *mut c_void,
) -> c_int {
    answer(communicator(handle).and_then(|Communicator { group, rank }| {
        let bytes = count * Element::of(element).ok_or(Failure::InvalidArgument)?.bytes();
        let message = group.receive(peer as usize, *rank)?;
        if message.len() != bytes {
            return Err(Failure::InvalidArgument);
        }
        // SAFETY: the caller passes a buffer of so many elements.
        unsafe { target.cast::<u8>().copy_from_nonoverlapping(message.as_ptr(), bytes) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(number: c_int) -> *const c_char {
    let text: &[u8] = match number {
        0 => b"no error\0",
        2 => b"unhandled system error: a rank did not take part\0",
        4 => b"invalid argument\0",
        _ => b"unknown result code\0",
    };
    text.as_ptr().cast()
}
