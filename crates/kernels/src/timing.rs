//! How long each of our operations takes, in a program that runs as ever.

use std::{
    cell::RefCell,
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use burn_ir::OperationIr;

/// An operation that ran on a CPU.
#[derive(Debug)]
pub struct TimedOperation {
    /// The operation, as a capture device records it. Its tensors have no identities.
    pub operation: OperationIr,
    /// How long its kernel ran.
    pub time: Duration,
    /// Products of two numbers that vectors computed, with those of rows and columns that only fill tiles. 0 where the matrix unit
    /// multiplies, and where nothing is a product of matrices.
    pub products: u64,
    /// Behind [`timed_for`], the times of the tasks of each region. Threads can do the tasks of a region at once. Between two regions
    /// all wait, and before the first and behind the last one thread works alone.
    pub regions: Vec<Vec<Duration>>,
}

/// How many calls of [`timed`] run, in any thread.
static TIMERS: AtomicUsize = AtomicUsize::new(0);

/// The products so far, while somebody asks.
static PRODUCTS: AtomicU64 = AtomicU64::new(0);

/// The threads that work is divided for, while [`timed_for`] runs; 0 else.
static ASSUMED: AtomicUsize = AtomicUsize::new(0);

/// The regions of the operation that runs, while [`timed_for`] runs.
static REGIONS: Mutex<Vec<Vec<Duration>>> = Mutex::new(Vec::new());

thread_local! {
    /// The operations of this thread so far; `None` if nobody asks.
    static TIMED: RefCell<Option<Vec<TimedOperation>>> = const { RefCell::new(None) };
}

/// Runs `work`, and times the kernel of each operation of this crate that this thread runs on a CPU.
///
/// ```
/// use burn::tensor::{DType, Device, Tensor};
/// use oomph_kernels::{Kernels, cast, timed};
///
/// let ones = Tensor::<1>::ones([1024], &Device::flex());
/// let (_, operations) = timed(|| cast(ones, DType::BF16, Kernels::Cpu));
/// assert_eq!(operations.len(), 1);
/// ```
pub fn timed<R>(work: impl FnOnce() -> R) -> (R, Vec<TimedOperation>) {
    /// Ends the timing, also where `work` panics.
    struct Timer;

    impl Drop for Timer {
        fn drop(&mut self) {
            TIMERS.fetch_sub(1, Relaxed);
            TIMED.set(None);
        }
    }

    TIMED.set(Some(Vec::new()));
    TIMERS.fetch_add(1, Relaxed);
    let _timer = Timer;
    let result = work();
    (result, TIMED.take().unwrap_or_default())
}

/// As [`timed`], with the work divided as for `threads` threads, and the time of each task. To be called where one thread computes: only
/// then no task waits for a core.
///
/// ```
/// use burn::tensor::{DType, Device, Tensor};
/// use oomph_kernels::{Kernels, cast, timed_for};
///
/// let ones = Tensor::<1>::ones([1 << 20], &Device::flex());
/// let (_, operations) = timed_for(8, || cast(ones, DType::BF16, Kernels::Cpu));
/// assert_eq!(operations[0].regions.len(), 1);
/// assert!(operations[0].regions[0].len() >= 8);
/// ```
///
/// One caller at a time: regions of several mix.
pub fn timed_for<R>(threads: usize, work: impl FnOnce() -> R) -> (R, Vec<TimedOperation>) {
    /// Ends the assumption, also where `work` panics.
    struct Assumption;

    impl Drop for Assumption {
        fn drop(&mut self) {
            ASSUMED.store(0, Relaxed);
        }
    }

    ASSUMED.store(threads, Relaxed);
    let _assumption = Assumption;
    timed(work)
}

/// The threads to divide work for, if they are not those of the pool.
pub(crate) fn assumed_threads() -> Option<usize> {
    Some(ASSUMED.load(Relaxed)).filter(|threads| *threads > 0)
}

/// Tells that all threads begin to work, if somebody asks for tasks.
pub(crate) fn begin_region() {
    if ASSUMED.load(Relaxed) > 0 {
        regions().push(Vec::new());
    }
}

/// Does a task of a region.
#[inline]
pub(crate) fn task<R>(work: impl FnOnce() -> R) -> R {
    if ASSUMED.load(Relaxed) == 0 {
        return work();
    }
    let begun = Instant::now();
    let made = work();
    if let Some(region) = regions().last_mut() {
        region.push(begun.elapsed());
    }
    made
}

fn regions() -> MutexGuard<'static, Vec<Vec<Duration>>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts products, if somebody asks for them.
#[inline]
pub(crate) fn count(products: impl FnOnce() -> usize) {
    if TIMERS.load(Relaxed) > 0 {
        PRODUCTS.fetch_add(products() as u64, Relaxed);
    }
}

/// The description of an operation of these inputs and outputs, if somebody asks for times.
pub(crate) fn described(describe: impl FnOnce() -> OperationIr) -> Option<OperationIr> {
    TIMED.with_borrow(Option::is_some).then(describe)
}

/// Runs the kernel of an operation.
pub(crate) fn kernel<R>(operation: Option<OperationIr>, kernel: impl FnOnce() -> R) -> R {
    let Some(operation) = operation else { return kernel() };
    regions().clear();
    let (begun, before) = (Instant::now(), PRODUCTS.load(Relaxed));
    let made = kernel();
    let (time, products) = (begun.elapsed(), PRODUCTS.load(Relaxed) - before);
    let regions = mem::take(&mut *regions());
    TIMED.with_borrow_mut(|timed| {
        if let Some(timed) = timed {
            timed.push(TimedOperation { operation, time, products, regions });
        }
    });
    made
}
