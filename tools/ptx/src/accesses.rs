//! Which of a kernel's buffers it reads and writes, from its text: nothing runs.
//!
//! The address of each load, store, atomic operation and asynchronous copy is traced back to the parameters that it was
//! computed from, through every instruction between. An address that comes from two parameters counts for both.

use crate::error::PtxError;
use crate::parse;
use crate::parse::syntax::{Function, Operand, Parameter, Register, Statement, Symbol};

/// Parameters that a set can hold. Later ones are taken to be read and written.
const MOST: usize = 128;

/// Bytes of a pointer. No other parameter can be one.
const POINTER: usize = 8;

/// A set of parameters: a bit each.
type Set = u128;

/// What a kernel does with the memory that its parameters point to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelAccesses {
    /// The name of its entry.
    pub name: String,
    /// Each parameter, in order.
    pub parameters: Vec<Access>,
}

/// What a kernel does with the memory behind a parameter. Both are false of a parameter that is no pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Loads, asynchronous copies and atomic operations read.
    pub is_read: bool,
    /// Stores and atomic operations write.
    pub is_written: bool,
}

/// The accesses of all kernels of a module. Instructions need not be known to the interpreter; text that is no PTX, or uses
/// tensors' coordinates or calls, is an error.
pub fn accesses(ptx: &str) -> Result<Vec<KernelAccesses>, PtxError> {
    let source = parse::parse(ptx)?;
    Ok(source.functions.iter().map(of_kernel).collect())
}

fn of_kernel(function: &Function<'_>) -> KernelAccesses {
    let origins = Origins::of(function);
    let (mut read, mut written) = (0, 0);
    for statement in &function.statements {
        let operand = |index: usize| statement.operands.get(index).map_or(0, |it| origins.of_operand(it));
        if let Some(kind) = MemoryKind::of(statement) {
            let sources = operand(kind.address);
            read |= if kind.access.is_read { sources } else { 0 };
            written |= if kind.access.is_written { sources } else { 0 };
        }
        // What is done with a pointer that was stored is not traced.
        if statement.opcode.starts_with("st.") {
            read |= operand(1);
            written |= operand(1);
        }
    }
    let access = |(index, parameter): (usize, &Parameter)| {
        let is_in = |set: Set| if index < MOST { set >> index & 1 == 1 } else { parameter.bytes == POINTER };
        Access { is_read: is_in(read), is_written: is_in(written) }
    };
    let parameters = function.parameters.iter().enumerate().map(access).collect();
    KernelAccesses { name: function.name.to_owned(), parameters }
}

/// From which parameters each register was computed.
struct Origins<'f> {
    function: &'f Function<'f>,
    registers: Vec<Set>,
}

impl<'f> Origins<'f> {
    /// Passes origins on until nothing changes, in any order of execution.
    fn of(function: &'f Function<'f>) -> Self {
        let mut origins = Self { function, registers: vec![0; function.registers.len()] };
        let mut changes = true;
        while changes {
            changes = false;
            for statement in &function.statements {
                changes |= origins.pass(statement);
            }
        }
        origins
    }

    /// Gives a statement's result the origins of its operands. Returns whether it did not have them.
    fn pass(&mut self, statement: &Statement<'_>) -> bool {
        let [result, operands @ ..] = &*statement.operands else { return false };
        let origins = if statement.opcode.starts_with("ld.param") {
            operands.first().map_or(0, |address| self.parameter(address))
        } else if MemoryKind::of(statement).is_some() || is_memory(statement) {
            0
        } else {
            operands.iter().map(|operand| self.of_operand(operand)).fold(0, |all, one| all | one)
        };
        let mut changes = false;
        each_register(result, &mut |register| {
            let known = &mut self.registers[register.0 as usize];
            changes |= *known | origins != *known;
            *known |= origins;
        });
        changes
    }

    /// The parameter of 8 bytes that an address names.
    fn parameter(&self, address: &Operand<'_>) -> Set {
        let Operand::Address(base, plus) = address else { return 0 };
        let Operand::Name(name) = **base else { return 0 };
        let Some(&Symbol::Parameter(offset)) = self.function.symbols.get(name) else { return 0 };
        let at = offset as i64 + plus;
        let is_it = |index: usize| {
            let parameter = &self.function.parameters[index];
            parameter.bytes == POINTER && parameter.offset as i64 == at
        };
        (0..self.function.parameters.len().min(MOST))
            .find(|index| is_it(*index))
            .map_or(0, |index| 1 << index)
    }

    fn of_operand(&self, operand: &Operand<'_>) -> Set {
        let mut all = 0;
        each_register(operand, &mut |register| all |= self.registers[register.0 as usize]);
        all
    }
}

fn each_register(operand: &Operand<'_>, visit: &mut impl FnMut(Register)) {
    match operand {
        Operand::Register(register) | Operand::Not(register) => visit(*register),
        Operand::Pair(one, other) => [one, other].into_iter().for_each(|part| each_register(part, visit)),
        Operand::Vector(parts) => parts.iter().for_each(|part| each_register(part, visit)),
        Operand::Address(base, _) => each_register(base, visit),
        _ => {}
    }
}

const READ: Access = Access { is_read: true, is_written: false };
const WRITE: Access = Access { is_read: false, is_written: true };
const BOTH: Access = Access { is_read: true, is_written: true };

/// How an instruction accesses memory that may be global.
struct MemoryKind {
    access: Access,
    /// The operand that holds the address.
    address: usize,
}

impl MemoryKind {
    fn of(statement: &Statement<'_>) -> Option<Self> {
        let mut words = statement.opcode.split('.');
        let head = words.next()?;
        let has =
            |word: &str| words.clone().any(|part| part == word || part.starts_with(&format!("{word}::")));
        let is_elsewhere = ["shared", "local", "param", "const"].into_iter().any(has);
        let (access, address) = match head {
            "ld" | "ldu" if !is_elsewhere => (READ, 1),
            "st" if !is_elsewhere => (WRITE, 0),
            "atom" if !is_elsewhere => (BOTH, 1),
            "red" if !is_elsewhere => (BOTH, 0),
            "cp" if has("async") && has("global") && statement.operands.len() >= 3 => (READ, 1),
            _ => return None,
        };
        Some(Self { access, address })
    }
}

/// Whether the instruction accesses memory of any kind: what it loads is no pointer.
fn is_memory(statement: &Statement<'_>) -> bool {
    let head = statement.opcode.split('.').next().unwrap_or_default();
    ["ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "prefetch"].contains(&head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Vec<(bool, bool)> {
        let ptx = format!(
            ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .align 8 .b8 d[16]) {{
                .reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;
                ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [c]; ld.param.u64 %rd3, [d+8];
                {body}
                ret;
            }}"
        );
        let kernels = accesses(&ptx).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(kernels[0].name, "k");
        kernels[0].parameters.iter().map(|access| (access.is_read, access.is_written)).collect()
    }

    const NOTHING: (bool, bool) = (false, false);

    #[test]
    fn loads_read_and_stores_write_what_their_address_came_from() {
        let body = "cvta.to.global.u64 %rd4, %rd0; add.s64 %rd5, %rd4, %rd3; ld.global.nc.v2.f32 {%f0, %f1}, [%rd5+4];
            mul.wide.u32 %rd6, %r0, 4; add.s64 %rd7, %rd6, %rd1; st.global.f32 [%rd7], %f0;";
        assert_eq!(of(body), [(true, false), (false, true), NOTHING, NOTHING]);
    }

    #[test]
    fn atomic_operations_read_and_write() {
        let body = "atom.global.add.f32 %f0, [%rd0], %f1; red.global.add.f32 [%rd1], %f1;";
        assert_eq!(of(body), [(true, true), (true, true), NOTHING, NOTHING]);
    }

    #[test]
    fn an_asynchronous_copy_reads_its_source() {
        let body = "cp.async.cg.shared.global [%r0], [%rd2], 16; cp.async.commit_group; cp.async.wait_all;";
        assert_eq!(of(body), [NOTHING, NOTHING, (true, false), NOTHING]);
    }

    #[test]
    fn other_memory_and_scalars_do_not_count() {
        let body = "ld.shared.f32 %f0, [%rd0]; st.local.f32 [%rd1], %f0; ld.global.u32 %r1, [%rd3];";
        assert_eq!(of(body), [NOTHING; 4]);
    }

    #[test]
    fn an_address_of_two_buffers_counts_for_both_in_any_order() {
        let body = "LOOP: ld.global.f32 %f0, [%rd5]; selp.b64 %rd5, %rd4, %rd2, %p1; mov.b64 %rd4, %rd1; @%p0 bra LOOP;";
        assert_eq!(of(body), [NOTHING, (true, false), (true, false), NOTHING]);
    }

    #[test]
    fn a_loaded_value_has_no_origin_but_a_stored_pointer_escapes() {
        let body = "ld.global.u64 %rd4, [%rd0]; st.global.f32 [%rd4], %f0; st.shared.u64 [%r0], %rd1;
            st.global.u64 [%rd0], %rd2;";
        assert_eq!(of(body), [(true, true); 3].into_iter().chain([NOTHING]).collect::<Vec<_>>());
    }
}
