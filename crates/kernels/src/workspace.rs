use burn_ir::ScalarIr;

/// Memory that a kernel allocates beside its outputs while it runs, in elements of 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// Elements that all threads share.
    pub(crate) shared: usize,
    /// Elements of each thread that has a task.
    pub(crate) of_each: usize,
    /// The most tasks, whatever the number of threads.
    pub(crate) tasks: usize,
}

impl Workspace {
    /// Bytes that all threads share, bytes of each thread, and the most tasks.
    pub(crate) fn scalars(self) -> [ScalarIr; 3] {
        let bytes = |elements: usize| (elements * size_of::<f32>()) as u64;
        [bytes(self.shared), bytes(self.of_each), self.tasks as u64].map(ScalarIr::UInt)
    }
}
