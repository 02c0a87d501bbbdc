/// Which kernels run an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Our own, on the CPU.
    Own,
    /// Burn's operations, on any backend.
    Composed,
}
