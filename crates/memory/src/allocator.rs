use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

use oomph_core::{Account, MOST_DEVICES, charged_account, current_device};

use crate::{limit, record::Claim, refusal};

/// The counting allocator on top of the system's. See [`install_meter!`](crate::install_meter).
///
/// Each allocation has a header with its owner, as long as the alignment and at least 16 bytes. An allocation of 4 KiB or more
/// begins at a cache line: a vector of a tensor or of a packed matrix then lies in one line, and not in two (a 3×3 convolution of a
/// ResNet-18 took 7 to 12 % less time on two cores of a Xeon). Counts are requested bytes, without headers and the system's
/// rounding.
#[derive(Debug)]
pub struct CountingAllocator;

/// The owner of an allocation, as a word of its header: 0 is the host, 1 the first CPU device, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner(u64);

impl Owner {
    const HOST: Self = Self(0);

    /// The owner of this thread's allocations.
    #[inline]
    fn current() -> Self {
        match charged_account() {
            Account::Host => Self::HOST,
            Account::Device => Self(current_device() as u64 + 1),
        }
    }

    /// The CPU device; `None` for the host.
    #[inline]
    fn device(self) -> Option<usize> {
        let device = self.0.wrapping_sub(1);
        (device < MOST_DEVICES as u64).then_some(device as usize)
    }

    fn word(self) -> u64 {
        self.0
    }

    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

/// The figures of a device, alone on two cache lines, which processors fetch as a pair.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Device {
    pub(crate) live: AtomicU64,
    pub(crate) peak: AtomicU64,
    pub(crate) allocations: AtomicU64,
}

/// The figure of the host. It has no peak, so loading data costs one shared word.
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

    /// The figures of the device of that index.
    #[inline]
    pub(crate) fn of(device: usize) -> &'static Self {
        &DEVICES[device.min(MOST_DEVICES - 1)]
    }

    /// Counts an allocation of `size` bytes on a device, replacing `replaced` bytes if a block was resized.
    fn born(device: usize, size: usize, replaced: usize) {
        let figures = Self::of(device);
        figures.allocations.fetch_add(1, Relaxed);
        // Wraps if the block shrank. `Release`: a recording that reads the level must see the event.
        let change = (size as u64).wrapping_sub(replaced as u64);
        let live = figures.live.fetch_add(change, Release).wrapping_add(change);
        // Usually the peak is not exceeded; then the plain load keeps the cache line shared.
        if live > figures.peak.load(Relaxed) {
            figures.peak.fetch_max(live, Relaxed);
        }
        limit::check(device, size as u64, live);
    }
}

/// Makes the system's allocator keep freed memory for the next step, instead of returning it and requesting it again page
/// by page. An LSTM of 64 steps trained up to three times as fast on two cores (`tools/meter_cost`). Up to 1 GiB is kept at
/// the heap's end. Threads that start afterwards share it: else a block that one thread freed would serve no other, and the process of a
/// ResNet-18 with 245 MiB in use grew by 389 instead of 267 MiB. It has no effect without glibc.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // The largest value that glibc accepts; larger blocks are mapped separately.
        const MAPPED_FROM: libc::c_int = 32 << 20;
        const KEPT: libc::c_int = 1 << 30;
        // SAFETY: sets numbers of the allocator under its own lock.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        }
    }
}

/// Returns the freed memory that the system's allocator [kept](keep_freed_memory). It has no effect without glibc.
pub fn give_back_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: takes the allocator's own lock, and touches nothing that is in use.
        unsafe { libc::malloc_trim(0) };
    }
}

/// The bytes of a header: the owner's word, and the distance from the begin of the whole allocation.
const HEADER: usize = 16;

/// Allocations of so many bytes begin at a cache line.
const LARGE: usize = 4 << 10;

const CACHE_LINE: usize = 64;

/// The alignment that an allocation gets.
fn alignment(layout: Layout) -> usize {
    let least = if layout.size() >= LARGE { CACHE_LINE } else { HEADER };
    layout.align().max(least)
}

/// The layout of a whole allocation, in which the layout begins so far behind the start, or as far as its alignment asks for.
/// `None` if that exceeds the limits of a layout.
fn whole(layout: Layout, distance: usize) -> Option<Layout> {
    let size = layout.size().checked_add(alignment(layout).max(distance))?;
    Layout::from_size_align(size, layout.align().max(HEADER)).ok()
}

/// The distance from the `start` of a new allocation to where its layout begins.
fn distance(start: *mut u8, layout: Layout) -> usize {
    // A start is a multiple of the system's alignment, 16 or more, so the header fits before.
    (start.addr() + HEADER).next_multiple_of(alignment(layout)) - start.addr()
}

/// Whether an allocation of a compute thread may belong to a tensor or kernel. The others are bookkeeping of the graph and
/// count as host: a step of a long LSTM makes 100,000 of them.
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

/// Whether hashbrown allocates `size` bytes: 2ᵏ slots, each with an entry of a multiple of 8 bytes and a control byte,
/// and 16 control bytes more.
fn is_hash_table(size: usize) -> bool {
    const LARGEST_ENTRY: usize = 512;
    let Some(slots) = size.checked_sub(16).filter(|slots| *slots > 0) else { return false };
    let entry = (slots >> slots.trailing_zeros()) - 1;
    slots.is_multiple_of(4) && (8..=LARGEST_ENTRY).contains(&entry) && entry.is_multiple_of(8)
}

/// Writes the header of a new allocation and returns the address after it.
///
/// # Safety
/// `start` is null or the start of an allocation of the [`whole`] of the layout.
unsafe fn open(start: *mut u8, layout: Layout) -> *mut u8 {
    let size = layout.size();
    if start.is_null() {
        refusal::note(size);
        return start;
    }
    let owner = if holds_tensor(layout) { Owner::current() } else { Owner::HOST };
    let distance = distance(start, layout);
    // SAFETY: the header's 16 bytes are inside the allocation, aligned to 16.
    let user = unsafe {
        let user = start.add(distance);
        user.sub(HEADER).cast::<[u64; 2]>().write([owner.word(), distance as u64]);
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

/// Counts a free, before the system can give the address to another thread.
fn close(owner: Owner, user: *mut u8, size: usize) {
    match owner.device() {
        None => _ = HOST.live.fetch_sub(size as u64, Relaxed),
        Some(device) => {
            let claim = Claim::take();
            Device::of(device).live.fetch_sub(size as u64, Release);
            if let Some(claim) = claim {
                claim.free(device, user.addr(), size);
            }
        }
    }
}

/// The owner in the header of an allocation, whichever thread frees it, and the distance from its start.
///
/// # Safety
/// `user` came from `open`.
unsafe fn header_of(user: *mut u8) -> (Owner, usize) {
    // SAFETY: `open` wrote the words there.
    let [owner, distance] = unsafe { user.sub(HEADER).cast::<[u64; 2]>().read() };
    (Owner::from_word(owner), distance as usize)
}

// SAFETY: all requests go to the system's allocator with a layout that is larger by the header. The address given out is aligned,
// and `dealloc` and `realloc` find the start from the distance in the header, and from it the same whole layout.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(whole) = whole(layout, HEADER) else { return std::ptr::null_mut() };
        // SAFETY: `whole` has a size above 0.
        unsafe { open(System.alloc(whole), layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(whole) = whole(layout, HEADER) else { return std::ptr::null_mut() };
        // SAFETY: `whole` has a size above 0.
        unsafe { open(System.alloc_zeroed(whole), layout) }
    }

    unsafe fn dealloc(&self, user: *mut u8, layout: Layout) {
        // SAFETY: `user` came from `alloc` or `realloc` with this layout, which was valid with a header then.
        unsafe {
            let (owner, distance) = header_of(user);
            let Some(whole) = whole(layout, distance) else { return };
            close(owner, user, layout.size());
            System.dealloc(user.sub(distance), whole);
        }
    }

    unsafe fn realloc(&self, user: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: `user` came from `alloc` or `realloc`.
        let (owner, distance) = unsafe { header_of(user) };
        let of_new = Layout::from_size_align(size, layout.align()).ok();
        let wholes = of_new.and_then(|new| Some([whole(layout, distance)?, whole(new, distance)?]));
        let Some([old, new]) = wholes else { return std::ptr::null_mut() };
        // SAFETY: as above, with this layout; the header moves along with the contents, and stays as far from the start. That may
        // be less than a cache line from one. Where there is no more memory the block stays as it was.
        let resize = || unsafe {
            match System.realloc(user.sub(distance), old, new.size()) {
                start if start.is_null() => {
                    refusal::note(size);
                    (user, layout.size(), start)
                }
                start => (start.add(distance), size, start.add(distance)),
            }
        };
        // If the system moves the block, both exist for a moment; that is not counted.
        match owner.device() {
            None => {
                let (_, size, result) = resize();
                HOST.live.fetch_add((size as u64).wrapping_sub(layout.size() as u64), Relaxed);
                result
            }
            Some(device) => {
                // Counted before: the system may give the old address to another thread at once.
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

#[cfg(test)]
mod tests {
    use super::*;
    use oomph_core::{charge, on_device};

    /// A new allocation, filled with numbers.
    unsafe fn filled(layout: Layout) -> *mut u8 {
        // SAFETY: the layout is not empty, and its bytes are written within it.
        unsafe {
            let made = CountingAllocator.alloc(layout);
            (0..layout.size()).for_each(|at| made.add(at).write(at as u8));
            made
        }
    }

    #[test]
    fn large_allocations_begin_at_a_cache_line() {
        for (size, align) in
            [(1, 1), (4095, 4), (4096, 4), (70_000, 16), (70_001, 1), (5000, 64), (64, 128), (9000, 256)]
        {
            let layout = Layout::from_size_align(size, align).unwrap();
            let expected = if size >= LARGE { align.max(64) } else { align };
            // SAFETY: the allocation is freed with its layout.
            unsafe {
                let made = [filled(layout), CountingAllocator.alloc_zeroed(layout)];
                for made in made {
                    assert!(made.addr().is_multiple_of(expected), "{size} bytes aligned to {align}");
                    CountingAllocator.dealloc(made, layout);
                }
            }
        }
    }

    #[test]
    fn contents_stay_where_a_size_crosses_that_of_large_allocations() {
        for align in [1, 16, 64, 128] {
            for [before, after] in
                [[100, 100_000], [100_000, 100], [5000, 9_000_000], [9_000_000, 5000], [40, 80]]
            {
                let layout = Layout::from_size_align(before, align).unwrap();
                // SAFETY: the allocation is freed with its last size.
                unsafe {
                    let moved = CountingAllocator.realloc(filled(layout), layout, after);
                    assert!(moved.addr().is_multiple_of(align), "{before} to {after} aligned to {align}");
                    let kept = (0..before.min(after)).all(|at| moved.add(at).read() == at as u8);
                    assert!(kept, "{before} to {after} aligned to {align}");
                    CountingAllocator.dealloc(moved, Layout::from_size_align(after, align).unwrap());
                }
            }
        }
    }

    #[test]
    fn an_allocation_is_the_hosts_or_of_the_device_that_the_thread_works_for() {
        let owner = |device, account| on_device(device, || charge(account, Owner::current));
        assert_eq!(owner(3, Account::Host), Owner::HOST);
        assert_eq!(Owner::HOST.device(), None);
        for device in [0, 1, MOST_DEVICES - 1] {
            let owner = owner(device, Account::Device);
            assert_eq!((owner.device(), Owner::from_word(owner.word())), (Some(device), owner));
        }
    }
}
