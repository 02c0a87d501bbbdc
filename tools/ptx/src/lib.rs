//! Runs the kernels of a PTX module on the processor, so that what a CUDA backend compiles can be computed and checked on
//! a machine without a GPU.
//!
//! [`accesses`] says which buffers a kernel reads and writes, without running it.
//!
//! [`Module::parse`] reads PTX as NVIDIA's compiler writes it and refuses what it cannot execute; [`Kernel::run`] runs a
//! grid of blocks. Warps run in lockstep: every instruction is a loop over 32 lanes, which compiles to vector
//! instructions.
//!
//! ```
//! use oomph_ptx::{GlobalMemory, Launch, Module};
//!
//! /// One allocation: the buffer of the example.
//! struct One(u64, u64);
//! impl GlobalMemory for One {
//!     fn allocation(&self, address: u64) -> Option<(u64, u64)> {
//!         (address >= self.0 && address < self.1).then_some((self.0, self.1))
//!     }
//! }
//!
//! let module = Module::parse(
//!     ".visible .entry add_one(.param .u64 out) {
//!         .reg .b32 %r<3>; .reg .b64 %rd<3>;
//!         ld.param.u64 %rd0, [out];
//!         mov.u32 %r0, %tid.x;
//!         mul.wide.u32 %rd1, %r0, 4;
//!         add.s64 %rd2, %rd0, %rd1;
//!         ld.global.u32 %r1, [%rd2];
//!         add.s32 %r2, %r1, 1;
//!         st.global.u32 [%rd2], %r2;
//!         ret;
//!     }",
//! )?;
//! let mut data: Vec<u32> = (0..64).collect();
//! let start = data.as_mut_ptr().expose_provenance() as u64;
//! let memory = One(start, start + 256);
//! module.kernel("add_one").unwrap().run(&Launch {
//!     grid: [1, 1, 1],
//!     block: [64, 1, 1],
//!     dynamic_shared_bytes: 0,
//!     parameters: &[&start.to_ne_bytes()],
//!     memory: &memory,
//!     threads: 1,
//!     sectors: None,
//! })?;
//! assert_eq!(data[63], 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! - Bulk copies by TMA, `wgmma`, clusters, textures, surfaces and calls of device functions are refused.
//! - Approximate instructions (`ex2.approx`, `sin.approx`, …) are computed as exactly as Rust's own functions are, which
//!   is closer than a device comes. NaNs are NaNs, with other payloads than a device's.
//! - Blocks of a grid do not wait for each other: a kernel that spins until another block has written may never end.
//! - Clock registers count nanoseconds since the launch, whatever the clock rate of a device.

mod accesses;
mod decode;
mod error;
mod exec;
mod number;
mod parse;
mod program;
mod sectors;

use std::ops::{Add, AddAssign};

pub use accesses::{Access, KernelAccesses, accesses};
pub use error::{ExecError, LaunchFault, PtxError};
pub use sectors::Sectors;

use decode::Layout;
use exec::Arena;
use parse::syntax::{Function, Source};
use program::Code;

/// The alignment of dynamic shared memory, whatever its declaration says.
const DYNAMIC_SHARED_ALIGNMENT: usize = 128;

/// The kernels of a PTX module.
pub struct Module {
    kernels: Vec<Kernel>,
}

impl Module {
    /// Parses everything. An instruction that the interpreter does not know is an error that names it with its line: a
    /// kernel that cannot be run is refused when it is loaded, never ignored.
    pub fn parse(ptx: &str) -> Result<Module, PtxError> {
        let source = parse::parse(ptx)?;
        let data = std::sync::Arc::new(data(&source));
        let data_bytes = source.data.bytes.len();
        let kernels = source
            .functions
            .iter()
            .map(|function| Kernel::decode(function, data.clone(), data_bytes))
            .collect::<Result<_, _>>()?;
        Ok(Module { kernels })
    }

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// All kernels, in order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }
}

/// The module's variables in memory, with the addresses that they hold of each other.
fn data(source: &Source<'_>) -> Arena {
    let mut arena = Arena::new(source.data.bytes.len());
    let mut bytes = source.data.bytes.clone();
    for &(at, target) in &source.data.pointers {
        bytes[at..at + 8].copy_from_slice(&(arena.address() + target as u64).to_le_bytes());
    }
    arena.fill(&bytes);
    arena
}

/// A kernel that is ready to run.
pub struct Kernel {
    name: String,
    code: Code,
    /// Bytes of each parameter.
    parameters: Vec<usize>,
    /// Offset and bytes of each parameter.
    parameter_offsets: Vec<(usize, usize)>,
    static_shared: usize,
    /// The offset of dynamic shared memory.
    dynamic_shared: usize,
    local_bytes: usize,
    max_threads: Option<u32>,
    data: std::sync::Arc<Arena>,
    data_bytes: usize,
}

impl Kernel {
    fn decode(
        function: &Function<'_>,
        data: std::sync::Arc<Arena>,
        data_bytes: usize,
    ) -> Result<Kernel, PtxError> {
        let dynamic_shared = function.shared_bytes.next_multiple_of(DYNAMIC_SHARED_ALIGNMENT);
        let layout = Layout { module_data: data.address(), dynamic_shared: dynamic_shared as u64 };
        Ok(Kernel {
            name: function.name.to_owned(),
            code: decode::decode(function, &layout)?,
            parameters: function.parameters.iter().map(|parameter| parameter.bytes).collect(),
            parameter_offsets: function.parameters.iter().map(|p| (p.offset, p.bytes)).collect(),
            static_shared: function.shared_bytes,
            dynamic_shared,
            local_bytes: function.local_bytes,
            max_threads: function.max_threads,
            data,
            data_bytes,
        })
    }

    /// The name of its entry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of each parameter, in order.
    pub fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// Bytes of shared memory that every block has, whatever the launch asks for.
    pub fn static_shared_bytes(&self) -> usize {
        self.static_shared
    }

    /// Bytes of local memory of each thread.
    pub fn local_bytes(&self) -> usize {
        self.local_bytes
    }

    /// The most threads of a block, from `.maxntid` or `.reqntid` where they are given.
    pub fn max_threads(&self) -> Option<u32> {
        self.max_threads
    }
}

/// A grid to run.
pub struct Launch<'a> {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of shared memory behind the static ones.
    pub dynamic_shared_bytes: usize,
    /// The bytes of every parameter.
    pub parameters: &'a [&'a [u8]],
    /// Which addresses kernels may read and write.
    pub memory: &'a dyn GlobalMemory,
    /// Blocks that run at the same time.
    pub threads: usize,
    /// What is told of each access to global memory, if anything: a run takes many times as long.
    pub sectors: Option<&'a Sectors>,
}

/// Which addresses are allocated. Global addresses are addresses of this process.
///
/// Kernels read and write what this says is allocated: it has to stay so, and unused by others, until the launch ends.
pub trait GlobalMemory: Sync {
    /// The allocation that contains the address, as start and end.
    fn allocation(&self, address: u64) -> Option<(u64, u64)>;
}

/// What a launch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Executed {
    /// Instructions, of a warp each.
    pub warp_instructions: u64,
    /// Bytes that lanes read from global memory.
    pub global_bytes_read: u64,
    /// Bytes that lanes wrote to global memory.
    pub global_bytes_written: u64,
}

impl Add for Executed {
    type Output = Executed;

    fn add(self, other: Executed) -> Executed {
        Executed {
            warp_instructions: self.warp_instructions + other.warp_instructions,
            global_bytes_read: self.global_bytes_read + other.global_bytes_read,
            global_bytes_written: self.global_bytes_written + other.global_bytes_written,
        }
    }
}

impl AddAssign for Executed {
    fn add_assign(&mut self, other: Executed) {
        *self = *self + other;
    }
}
