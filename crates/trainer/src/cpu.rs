use std::{cell::Cell, sync::Once};

use burn::tensor::{Device, Tensor};
use oomph_memory::{Account, ComputePool, charge, keep_freed_memory, on_compute_threads};

/// Has freed memory kept, and gives every thread that computes, this one among them, its lasting buffer now: the first
/// larger matrix product of a thread allocates one of the size of its L2 cache and keeps it as long as it lives. So what
/// is in use does not depend on which thread came first.
pub(crate) fn prepare() {
    static COMPUTE_THREADS: Once = Once::new();
    thread_local! {
        static THIS_THREAD: Cell<bool> = const { Cell::new(false) };
    }
    COMPUTE_THREADS.call_once(|| {
        keep_freed_memory();
        on_compute_threads(product);
    });
    if !THIS_THREAD.replace(true) {
        charge(Account::Device, product);
    }
}

/// The same for the threads of a device of their own.
pub(crate) fn prepare_pool(pool: &ComputePool) {
    pool.on_every_thread(product);
}

/// The least product for which the kernels of gemm take the buffer, on one thread.
fn product() {
    let ones = Tensor::<2>::ones([64, 64], &Device::flex());
    drop(ones.clone().matmul(ones));
}
