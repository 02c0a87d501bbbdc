//! What NVIDIA's assembler says of kernels, by `ptxas -v`, and the limits that they must keep.
//!
//! Registers are known only after `ptxas`, which runs on a real card when the driver loads a module. `ptxas` stands alone
//! in PyPI's `nvidia-cuda-nvcc-cu12` and needs no GPU.

use crate::{card::SHARED_BYTES, ptx::Kernel};

/// What a kernel takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The name of its entry.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory of fixed size, of a block.
    pub shared_bytes: u32,
    /// Bytes of a thread's stack, in the card's memory.
    pub stack_bytes: u32,
    /// Bytes that a thread writes to memory because registers are short.
    pub spilled_bytes: u32,
}

/// Registers of a thread.
const MOST_REGISTERS: u32 = 255;
/// Registers of a block, and of a multiprocessor: from compute capability 5.0 on.
const REGISTER_FILE: u32 = 65_536;
/// A warp gets registers in portions of this number.
const PORTION: u32 = 256;
const WARP: u32 = 32;

/// Reads the messages of `ptxas -v`: one answer for each kernel, in their order.
pub fn read(messages: &str) -> Vec<Usage> {
    let mut usages: Vec<Usage> = Vec::new();
    for line in messages.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            usages.push(Usage { kernel, ..Usage::default() });
        } else if let Some(usage) = usages.last_mut() {
            usage.add(line);
        }
    }
    usages
}

impl Usage {
    /// Adds what a line says: numbers, each before its words.
    fn add(&mut self, line: &str) {
        for part in line.split(',') {
            let part = part.trim().rsplit(" : Used ").next().unwrap_or_default();
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse() else { continue };
            match what {
                "registers" => self.registers = number,
                "bytes smem" => self.shared_bytes = number,
                "bytes stack frame" => self.stack_bytes = number,
                "bytes spill stores" => self.spilled_bytes = number,
                _ => {}
            }
        }
    }

    /// The limits that the kernel breaks, each as a sentence. `kernel` is what its PTX says of it.
    pub fn broken_limits(&self, kernel: &Kernel) -> Vec<String> {
        let mut broken = Vec::new();
        if self.registers > MOST_REGISTERS {
            broken.push(format!("{} registers a thread, {MOST_REGISTERS} at most", self.registers));
        }
        // Without a limit of its own a kernel may be launched with the most threads that there are.
        let threads = kernel.most_threads.unwrap_or(1_024);
        let of_warp = (self.registers * WARP).next_multiple_of(PORTION);
        let of_block = of_warp * threads.div_ceil(WARP);
        if of_block > REGISTER_FILE {
            broken.push(format!(
                "{of_block} registers of a block ({} in each of {threads} threads), {REGISTER_FILE} at most",
                self.registers
            ));
        }
        if self.shared_bytes > SHARED_BYTES as u32 {
            broken
                .push(format!("{} bytes of fixed shared memory, {SHARED_BYTES} at most", self.shared_bytes));
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = "ptxas info    : 0 bytes gmem\n\
        ptxas info    : Compiling entry function 'add' for 'sm_75'\n\
        ptxas info    : Function properties for add\n    \
            16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n\
        ptxas info    : Used 40 registers, used 1 barriers, 4096 bytes smem, 368 bytes cmem[0]\n\
        ptxas info    : Compile time = 3.243 ms\n\
        ptxas info    : Compiling entry function 'empty' for 'sm_75'\n\
        ptxas info    : Used 2 registers, 352 bytes cmem[0]\n";

    fn usage(registers: u32, shared_bytes: u32) -> Usage {
        Usage { kernel: "k".into(), registers, shared_bytes, ..Usage::default() }
    }

    fn kernel(most_threads: Option<u32>) -> Kernel {
        Kernel { name: "k".into(), most_threads, shared_bytes: 0 }
    }

    #[test]
    fn each_kernel_has_its_numbers() {
        let add = Usage {
            kernel: "add".into(),
            registers: 40,
            shared_bytes: 4_096,
            stack_bytes: 16,
            spilled_bytes: 24,
        };
        let empty = Usage { kernel: "empty".into(), registers: 2, ..Usage::default() };
        assert_eq!(read(MESSAGES), [add, empty]);
        assert_eq!(read("ptxas fatal   : Unresolved extern function 'f'\n"), []);
    }

    #[test]
    fn a_limit_counts_the_threads_of_a_block() {
        assert_eq!(usage(255, 49_152).broken_limits(&kernel(Some(256))), [""; 0]);
        assert_eq!(usage(64, 0).broken_limits(&kernel(None)), [""; 0]);
        let broken = usage(65, 0).broken_limits(&kernel(None));
        assert_eq!(broken, ["73728 registers of a block (65 in each of 1024 threads), 65536 at most"]);
        assert!(usage(256, 0).broken_limits(&kernel(Some(32)))[0].contains("255 at most"));
        assert!(usage(8, 49_153).broken_limits(&kernel(Some(32)))[0].contains("shared memory"));
    }
}
