//! What goes wrong: at parse time ([`PtxError`]) and while a kernel runs ([`ExecError`]).

use thiserror::Error;

/// Why a PTX module was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PtxError {
    /// The text is not PTX as this parser knows it.
    #[error("line {line}: expected {expected}, found `{found}`")]
    Syntax {
        /// The line of the module.
        line: u32,
        /// What the grammar has at this place.
        expected: &'static str,
        /// The token that is there.
        found: String,
    },
    /// An instruction that the interpreter cannot execute.
    #[error("line {line}: instruction `{instruction}` is not supported")]
    Unsupported {
        /// The line of the module.
        line: u32,
        /// The opcode with all its modifiers.
        instruction: String,
    },
    /// An operand does not fit its instruction.
    #[error("line {line}: operand {operand} of `{instruction}` is not {expected}")]
    Operand {
        /// The line of the module.
        line: u32,
        /// The opcode with all its modifiers.
        instruction: String,
        /// The operand's place, from 0.
        operand: usize,
        /// What the instruction takes there.
        expected: &'static str,
    },
    /// A register, symbol or label without a declaration.
    #[error("line {line}: `{name}` is not declared")]
    Undeclared {
        /// The line of the module.
        line: u32,
        /// The name as written.
        name: String,
    },
    /// A declaration that the interpreter has no storage for.
    #[error("line {line}: declaration `{declaration}` is not supported")]
    Declaration {
        /// The line of the module.
        line: u32,
        /// The directive or the type.
        declaration: String,
    },
    /// More values live at once than a register slot number can name.
    #[error("kernel `{kernel}` needs more than 65535 register slots")]
    TooManyRegisters {
        /// The kernel.
        kernel: String,
    },
}

/// Why a launch stopped. Blocks that ran before the error have written their results.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExecError {
    /// The launch does not fit the kernel: parameters, sizes of the grid or the block.
    #[error("kernel `{kernel}` cannot be launched: {reason}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// The argument that does not fit, and what was expected.
        reason: LaunchFault,
    },
    /// An access outside all allocations.
    #[error("kernel `{kernel}`, line {line}: no allocation holds the {bytes} bytes at {address:#x}")]
    IllegalAddress {
        /// The kernel.
        kernel: String,
        /// The line of the module.
        line: u32,
        /// The address of the access.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// An address that is not a multiple of the access size.
    #[error("kernel `{kernel}`, line {line}: {address:#x} is not aligned to {bytes} bytes")]
    Misaligned {
        /// The kernel.
        kernel: String,
        /// The line of the module.
        line: u32,
        /// The address of the access.
        address: u64,
        /// The alignment that the access needs.
        bytes: usize,
    },
    /// The kernel executed `trap`.
    #[error("kernel `{kernel}`, line {line}: trap")]
    Trap {
        /// The kernel.
        kernel: String,
        /// The line of the module.
        line: u32,
    },
    /// A warp-wide instruction names lanes that can never execute it together.
    #[error("kernel `{kernel}`, line {line}: lanes {missing:#010x} of the warp never reach this instruction")]
    NotConverged {
        /// The kernel.
        kernel: String,
        /// The line of the module.
        line: u32,
        /// The lanes named but absent.
        missing: u32,
    },
    /// Threads wait at a barrier that others never reach.
    #[error("kernel `{kernel}`, line {line}: {waiting} threads wait at barrier {barrier} forever")]
    BarrierDeadlock {
        /// The kernel.
        kernel: String,
        /// The line of one of the waiting instructions.
        line: u32,
        /// The barrier's number.
        barrier: u32,
        /// The threads that wait there.
        waiting: u32,
    },
    /// A barrier number above 15, or an index outside a branch table.
    #[error("kernel `{kernel}`, line {line}: {value} is outside 0..{limit}")]
    OutOfRange {
        /// The kernel.
        kernel: String,
        /// The line of the module.
        line: u32,
        /// The value.
        value: u32,
        /// The first value that is not allowed.
        limit: u32,
    },
}

/// What of a launch does not fit its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LaunchFault {
    /// A different number of parameters.
    #[error("it takes {expected} parameters, given {given}")]
    ParameterCount {
        /// Parameters declared.
        expected: usize,
        /// Parameters given.
        given: usize,
    },
    /// A parameter of another size.
    #[error("parameter {index} has {expected} bytes, given {given}")]
    ParameterSize {
        /// The parameter, from 0.
        index: usize,
        /// Bytes declared.
        expected: usize,
        /// Bytes given.
        given: usize,
    },
    /// A block without threads, or with more than the kernel allows.
    #[error("a block of {threads} threads, allowed are 1 to {limit}")]
    BlockSize {
        /// Threads asked for.
        threads: u64,
        /// The most there may be.
        limit: u32,
    },
}
