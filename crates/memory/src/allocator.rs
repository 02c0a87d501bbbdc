use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::account::{self, Account};

/// The system's allocator, counting. See [`install_meter!`](crate::install_meter).
///
/// Each allocation carries a header that names its account, as long as the alignment and at least 16 bytes. Counts are
/// of the bytes asked for; header and the system's own rounding are not counted.
#[derive(Debug)]
pub struct CountingAllocator;

/// The figures of one account.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) live: AtomicU64,
    pub(crate) peak: AtomicU64,
    pub(crate) allocations: AtomicU64,
}

impl Counter {
    const fn new() -> Self {
        Self { live: AtomicU64::new(0), peak: AtomicU64::new(0), allocations: AtomicU64::new(0) }
    }

    fn born(&self, size: usize) {
        self.allocations.fetch_add(1, Relaxed);
        let live = self.live.fetch_add(size as u64, Relaxed) + size as u64;
        // The plain load keeps the shared line readable in the usual case, where the peak is not exceeded.
        if live > self.peak.load(Relaxed) {
            self.peak.fetch_max(live, Relaxed);
        }
    }

    fn died(&self, size: usize) {
        self.live.fetch_sub(size as u64, Relaxed);
    }
}

pub(crate) static HOST: Counter = Counter::new();
pub(crate) static DEVICE: Counter = Counter::new();

fn counter(account: Account) -> &'static Counter {
    match account {
        Account::Host => &HOST,
        Account::Device => &DEVICE,
    }
}

const HEADER: usize = 16;

/// The layout with room for the header in front, and the header's length. `None` where that is no layout any more.
fn with_header(layout: Layout) -> Option<(Layout, usize)> {
    let align = layout.align().max(HEADER);
    let size = layout.size().checked_add(align)?;
    Some((Layout::from_size_align(size, align).ok()?, align))
}

/// Writes the header of a new allocation and gives the address behind it.
///
/// # Safety
/// `start` is null or the start of an allocation of the layout that `with_header` gave with `header`.
unsafe fn open(start: *mut u8, header: usize, size: usize) -> *mut u8 {
    if start.is_null() {
        return start;
    }
    let account = account::current();
    counter(account).born(size);
    // SAFETY: the header's bytes are inside the allocation, the last 16 of them aligned to 16.
    unsafe {
        let user = start.add(header);
        user.sub(HEADER).cast::<u64>().write(account as u64);
        user
    }
}

/// The account that the header of an allocation names.
///
/// # Safety
/// `user` came from `open`.
unsafe fn account_of(user: *mut u8) -> Account {
    // SAFETY: `open` wrote the word there.
    match unsafe { user.sub(HEADER).cast::<u64>().read() } {
        word if word == Account::Device as u64 => Account::Device,
        _ => Account::Host,
    }
}

// SAFETY: all requests go to the system's allocator with a layout that is larger by the header; the address given out
// is `align` bytes behind an address aligned to `align`, and `dealloc` and `realloc` compute the same start from it.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((whole, header)) = with_header(layout) else { return std::ptr::null_mut() };
        // SAFETY: `whole` has a size above 0.
        unsafe { open(System.alloc(whole), header, layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some((whole, header)) = with_header(layout) else { return std::ptr::null_mut() };
        // SAFETY: `whole` has a size above 0.
        unsafe { open(System.alloc_zeroed(whole), header, layout.size()) }
    }

    unsafe fn dealloc(&self, user: *mut u8, layout: Layout) {
        // The layout was valid with a header when the memory was given out.
        let Some((whole, header)) = with_header(layout) else { return };
        // SAFETY: `user` came from `alloc` with this layout.
        unsafe {
            counter(account_of(user)).died(layout.size());
            System.dealloc(user.sub(header), whole);
        }
    }

    unsafe fn realloc(&self, user: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let grown = Layout::from_size_align(size, layout.align()).ok().and_then(with_header);
        let (Some((whole, header)), Some((grown, _))) = (with_header(layout), grown) else {
            return std::ptr::null_mut();
        };
        // SAFETY: `user` came from `alloc` with `layout`; the header moves along with the contents.
        unsafe {
            let counter = counter(account_of(user));
            let start = System.realloc(user.sub(header), whole, grown.size());
            if start.is_null() {
                return start;
            }
            // Where the system moves the block it holds both for a moment; that is not counted.
            counter.died(layout.size());
            counter.born(size);
            start.add(header)
        }
    }
}
