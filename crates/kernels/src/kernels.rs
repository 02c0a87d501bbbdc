/// Which kernels run an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Our own, on the CPU.
    Cpu,
    /// Our own, on a GPU. A build without CUDA can only record them.
    Gpu,
    /// Burn's operations, on any backend.
    Composed,
}
