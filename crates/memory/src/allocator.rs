use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

use oomph_core::MOST_DEVICES;

use crate::{account::Owner, limit, record::Claim};

/// The system's allocator, counting. See [`install_meter!`](crate::install_meter).
///
/// Each allocation carries a header that names its owner, as long as the alignment and at least 16 bytes. Counts are
/// of the bytes asked for; header and the system's own rounding are not counted.
#[derive(Debug)]
pub struct CountingAllocator;

/// The figures of a device. Two cache lines, which processors fetch as a pair, and no others on them.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Device {
    pub(crate) live: AtomicU64,
    pub(crate) peak: AtomicU64,
    pub(crate) allocations: AtomicU64,
}

/// The figure of the host. Of it nobody asks a peak, so that loading data costs one shared word.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Host {
    pub(crate) live: AtomicU64,
}

pub(crate) static HOST: Host = Host { live: AtomicU64::new(0) };
static DEVICES: [Device; MOST_DEVICES] = [const { Device::new() }; MOST_DEVICES];

impl Device {
    const fn new() -> Self {
        Self { live: AtomicU64::new(0), peak: AtomicU64::new(0), allocations: AtomicU64::new(0) }
    }

    /// Those of a device by its index, as [`on_device`](oomph_core::on_device) takes it.
    #[inline]
    pub(crate) fn of(device: usize) -> &'static Self {
        &DEVICES[device.min(MOST_DEVICES - 1)]
    }

    /// Counts an allocation of `size` bytes on a device, in place of one of `replaced` bytes where it is a block that
    /// grew.
    fn born(device: usize, size: usize, replaced: usize) {
        let figures = Self::of(device);
        figures.allocations.fetch_add(1, Relaxed);
        // Wraps where the block shrank. `Release`, so that a recording that reads the level knows of the event.
        let change = (size as u64).wrapping_sub(replaced as u64);
        let live = figures.live.fetch_add(change, Release).wrapping_add(change);
        // The plain load keeps the shared line readable in the usual case, where the peak is not exceeded.
        if live > figures.peak.load(Relaxed) {
            figures.peak.fetch_max(live, Relaxed);
        }
        limit::check(device, size as u64, live);
    }

    fn died(device: usize, size: usize) {
        Self::of(device).live.fetch_sub(size as u64, Release);
    }
}

/// Has the system's allocator keep what tensors free, for those of the next step, instead of giving it back to the
/// system and asking for it again page by page: an LSTM of 64 steps trained up to three times as fast for it, on two
/// cores (`tools/meter_cost`). Up to 1 GiB is kept at the heap's end. Does nothing where that is not glibc.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        // The largest that glibc takes; what is larger is mapped on its own.
        const MAPPED_FROM: libc::c_int = 32 << 20;
        const KEPT: libc::c_int = 1 << 30;
        // SAFETY: sets two numbers of the allocator under its own lock.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        }
    }
}

/// Gives what the system's allocator [kept](keep_freed_memory) of freed memory back to the system. Does nothing where
/// that is not glibc.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes the allocator's own lock, and touches nothing that is in use.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

const HEADER: usize = 16;

/// The layout with room for the header in front, and the header's length. `None` where that is no layout any more.
fn with_header(layout: Layout) -> Option<(Layout, usize)> {
    let align = layout.align().max(HEADER);
    let size = layout.size().checked_add(align)?;
    Some((Layout::from_size_align(size, align).ok()?, align))
}

/// Whether an allocation of a compute thread may be a tensor's or a kernel's, and not bookkeeping of the graph, which is
/// the program's: a step of a long LSTM makes 100,000 of those.
///
/// A tensor of Flex is a `Vec` of its elements, or bytes aligned to 16; a kernel's larger buffers are aligned to a cache
/// line. Nodes, shapes and lists have the alignment of a pointer, and are small where tensors of 64-bit numbers are not.
/// Hash tables are aligned to 16, but for a layout of their own. Some nodes are aligned to a cache line; they are small.
#[inline]
fn holds_tensor(layout: Layout) -> bool {
    const LIST: usize = 64 << 10;
    const NODE: usize = 4 << 10;
    let size = layout.size();
    match layout.align() {
        1..=4 => size >= 4,
        8 => size >= LIST,
        16 => !is_hash_table(size),
        _ => size >= NODE,
    }
}

/// Whether hashbrown asks for so many bytes: of each of 2ᵏ slots an entry of a multiple of 8 bytes and a control byte,
/// and 16 control bytes more.
fn is_hash_table(size: usize) -> bool {
    const LARGEST_ENTRY: usize = 512;
    let Some(slots) = size.checked_sub(16).filter(|slots| *slots > 0) else { return false };
    let entry = (slots >> slots.trailing_zeros()) - 1;
    slots.is_multiple_of(4) && (8..=LARGEST_ENTRY).contains(&entry) && entry.is_multiple_of(8)
}

/// Writes the header of a new allocation and gives the address behind it.
///
/// # Safety
/// `start` is null or the start of an allocation of the layout that `with_header` gave with `header`.
unsafe fn open(start: *mut u8, header: usize, layout: Layout) -> *mut u8 {
    if start.is_null() {
        return start;
    }
    let size = layout.size();
    let owner = if holds_tensor(layout) { Owner::current() } else { Owner::HOST };
    // SAFETY: the header's bytes are inside the allocation, the last 16 of them aligned to 16.
    let user = unsafe {
        let user = start.add(header);
        user.sub(HEADER).cast::<u64>().write(owner.word());
        user
    };
    match owner.device() {
        None => _ = HOST.live.fetch_add(size as u64, Relaxed),
        Some(device) => {
            let claim = Claim::take();
            Device::born(device, size, 0);
            if let Some(claim) = claim {
                claim.alloc(device, user.addr(), size);
            }
        }
    }
    user
}

/// Counts the end of an allocation, before the system may give its place to another thread.
fn close(owner: Owner, user: *mut u8, size: usize) {
    match owner.device() {
        None => _ = HOST.live.fetch_sub(size as u64, Relaxed),
        Some(device) => {
            let claim = Claim::take();
            Device::died(device, size);
            if let Some(claim) = claim {
                claim.free(device, user.addr(), size);
            }
        }
    }
}

/// Whom the header of an allocation names: its end is counted there, whichever thread frees it.
///
/// # Safety
/// `user` came from `open`.
unsafe fn owner_of(user: *mut u8) -> Owner {
    // SAFETY: `open` wrote the word there.
    Owner::from_word(unsafe { user.sub(HEADER).cast::<u64>().read() })
}

// SAFETY: all requests go to the system's allocator with a layout that is larger by the header; the address given out
// is `align` bytes behind an address aligned to `align`, and `dealloc` and `realloc` compute the same start from it.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((whole, header)) = with_header(layout) else { return std::ptr::null_mut() };
        // SAFETY: `whole` has a size above 0.
        unsafe { open(System.alloc(whole), header, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some((whole, header)) = with_header(layout) else { return std::ptr::null_mut() };
        // SAFETY: `whole` has a size above 0.
        unsafe { open(System.alloc_zeroed(whole), header, layout) }
    }

    unsafe fn dealloc(&self, user: *mut u8, layout: Layout) {
        // The layout was valid with a header when the memory was given out.
        let Some((whole, header)) = with_header(layout) else { return };
        // SAFETY: `user` came from `alloc` with this layout.
        unsafe {
            close(owner_of(user), user, layout.size());
            System.dealloc(user.sub(header), whole);
        }
    }

    unsafe fn realloc(&self, user: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let grown = Layout::from_size_align(size, layout.align()).ok().and_then(with_header);
        let (Some((whole, header)), Some((grown, _))) = (with_header(layout), grown) else {
            return std::ptr::null_mut();
        };
        // SAFETY: `user` came from `alloc` with `layout`; the header moves along with the contents. Where there is no
        // more memory the block stays as it was.
        let (owner, resize) = unsafe {
            let resize = || match System.realloc(user.sub(header), whole, grown.size()) {
                start if start.is_null() => (user, layout.size(), start),
                start => (start.add(header), size, start.add(header)),
            };
            (owner_of(user), resize)
        };
        // Where the system moves the block it holds both for a moment; that is not counted.
        match owner.device() {
            None => {
                let (_, size, result) = resize();
                HOST.live.fetch_add((size as u64).wrapping_sub(layout.size() as u64), Relaxed);
                result
            }
            Some(device) => {
                // Before, since the system may give the old place to another thread at once.
                let freed = Claim::take();
                let (address, size, result) = resize();
                let made = freed.as_ref().map(|_| Claim::next());
                Device::born(device, size, layout.size());
                if let (Some(freed), Some(made)) = (freed, made) {
                    freed.free(device, user.addr(), layout.size());
                    made.alloc(device, address.addr(), size);
                }
                result
            }
        }
    }
}
