use std::{cell::Cell, sync::Once};

use burn::tensor::{Device, Tensor};
use oomph_memory::{Account, ComputePool, charge, keep_freed_memory, on_compute_threads};

/// Keeps freed memory, and allocates the lasting buffer of every compute thread and of this thread.
///
/// The first larger matrix multiplication of a thread allocates a buffer as large as the L2 cache, and the thread keeps
/// it. Allocated now, it makes the bytes in use independent of the order of the threads.
pub(super) fn prepare() {
    static COMPUTE_THREADS: Once = Once::new();
    thread_local! {
        static THIS_THREAD: Cell<bool> = const { Cell::new(false) };
    }
    COMPUTE_THREADS.call_once(|| {
        keep_freed_memory();
        on_compute_threads(multiply);
    });
    if !THIS_THREAD.replace(true) {
        charge(Account::Device, multiply);
    }
}

/// Allocates the lasting buffers of the threads of `pool`.
pub(crate) fn prepare_pool(pool: &ComputePool) {
    pool.on_every_thread(multiply);
}

/// The smallest matrix multiplication for which gemm allocates the buffer, on one thread.
fn multiply() {
    let ones = Tensor::<2>::ones([64, 64], &Device::flex());
    drop(ones.clone().matmul(ones));
}
