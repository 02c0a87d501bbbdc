/// Whose allocator is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Burn's Flex, on this machine's processor.
    Cpu {
        /// Compute threads: each has workspaces of its own.
        threads: usize,
    },
}
