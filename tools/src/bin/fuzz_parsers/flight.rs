//! The input that each thread is parsing, kept for an end without a panic: an overflow of the stack, a refused allocation,
//! a loop without end.
//!
//! The standard library turns the first two into the signal SIGABRT on the thread; a watching thread sends the same
//! signal for the third. The handler writes the input to a file and ends the process.

use std::{
    cell::Cell,
    ffi::CString,
    ptr, slice,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::clock;

/// The exit code after such an end, as a shell shows SIGABRT.
const ABORTED: i32 = 134;
/// An input that takes more processor time is in a loop without end: the largest may take little more than a second.
const LONGEST: Duration = Duration::from_secs(10);
/// How often the threads are looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// The parser's name, and the input.
#[derive(Clone, Copy)]
struct Parsed {
    name: &'static str,
    input: *const u8,
    length: usize,
}

thread_local! {
    static NOW: Cell<Parsed> = const { Cell::new(Parsed { name: "", input: ptr::null(), length: 0 }) };
}

/// Where the handler writes. Set before any thread parses.
static FILE: OnceLock<CString> = OnceLock::new();

/// A thread that parses, for the one that watches.
pub(crate) struct Flight {
    /// Its POSIX thread; 0 before it starts and after its end.
    thread: AtomicU64,
    /// Inputs begun.
    begun: AtomicU64,
}

impl Flight {
    pub(crate) const fn new() -> Self {
        Self { thread: AtomicU64::new(0), begun: AtomicU64::new(0) }
    }

    /// Runs the work of this thread under watch.
    pub(crate) fn watched(&self, work: impl FnOnce()) {
        // SAFETY: it cannot fail.
        self.thread.store(unsafe { libc::pthread_self() }, Ordering::SeqCst);
        work();
        self.thread.store(0, Ordering::SeqCst);
    }

    /// Parses an input of the parser `name`.
    pub(crate) fn parse<T>(&self, name: &'static str, input: &[u8], parse: impl FnOnce() -> T) -> T {
        self.begun.fetch_add(1, Ordering::Relaxed);
        NOW.set(Parsed { name, input: input.as_ptr(), length: input.len() });
        let result = parse();
        NOW.set(Parsed { name: "", input: ptr::null(), length: 0 });
        result
    }
}

/// Lets an end without a panic write its input to a file.
pub(crate) fn keep_last_inputs() {
    let file = std::env::temp_dir().join(format!("fuzz-aborted-{}.bin", std::process::id()));
    let file = CString::new(file.to_string_lossy().into_owned()).unwrap_or_default();
    FILE.get_or_init(|| file);
    // SAFETY: the handler calls only what may be called in one: it reads a constant and a cell of its thread, and makes
    // system calls. An overflowed stack has a stack of its own for handlers, which `SA_ONSTACK` asks for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = aborted as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGABRT, &raw const action, ptr::null_mut());
    }
}

extern "C" fn aborted(_: libc::c_int) {
    let now = NOW.get();
    let write = |file: libc::c_int, bytes: &[u8]| {
        // SAFETY: the bytes are there, and `write` may be called in a handler.
        unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) };
    };
    if let Some(path) = FILE.get().filter(|_| !now.input.is_null()) {
        // SAFETY: this thread set the input before it parsed it, and has not returned from that.
        let input = unsafe { slice::from_raw_parts(now.input, now.length) };
        // SAFETY: the path ends with a zero.
        let file =
            unsafe { libc::open(path.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, 0o600) };
        write(file, input);
        for part in [b"aborted: ", now.name.as_bytes(), b": ", path.as_bytes(), b"\n"] {
            write(libc::STDOUT_FILENO, part);
        }
    }
    // SAFETY: it ends the process, without anything of Rust's.
    unsafe { libc::_exit(ABORTED) };
}

/// Watches threads until `is_over`: aborts one that stays with an input.
pub(crate) fn watch(flights: &[Flight], is_over: &AtomicBool) {
    let mut seen = vec![(0, Duration::ZERO); flights.len()];
    while !is_over.load(Ordering::SeqCst) {
        for (flight, seen) in flights.iter().zip(&mut seen) {
            let (thread, begun) =
                (flight.thread.load(Ordering::SeqCst), flight.begun.load(Ordering::Relaxed));
            if thread == 0 {
                continue;
            }
            let time = clock::of(thread);
            if begun != seen.0 {
                *seen = (begun, time);
            } else if time.saturating_sub(seen.1) > LONGEST {
                eprintln!("an input takes more than {} s", LONGEST.as_secs());
                // SAFETY: the thread has not ended, since it parses.
                unsafe { libc::pthread_kill(thread, libc::SIGABRT) };
            }
        }
        thread::park_timeout(PERIOD);
    }
}
