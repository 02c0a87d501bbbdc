//! Where registers are live: NVRTC gives every value a register of its own, thousands in a large kernel, of which few
//! are live at once.

use crate::parse::syntax::{Function, Operand, Register, Statement};

/// The statements between which a register holds a value: even positions read, odd ones write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LiveRange {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Statements that are entered at the first and left at the last.
struct Block {
    start: usize,
    end: usize,
    next: Vec<usize>,
    live_in: Set,
}

/// The range of every register; none for a register that no statement names.
pub(super) fn live_ranges(function: &Function<'_>) -> Vec<Option<LiveRange>> {
    let mut blocks = blocks(function);
    let count = function.registers.len();
    let mut changed = true;
    while changed {
        changed = false;
        for at in (0..blocks.len()).rev() {
            let mut live = live_out(&blocks, at, count);
            for statement in function.statements[blocks[at].start..blocks[at].end].iter().rev() {
                step_back(statement, &mut live);
            }
            if live != blocks[at].live_in {
                blocks[at].live_in = live;
                changed = true;
            }
        }
    }
    let mut live_ranges = vec![None; count];
    for (at, block) in blocks.iter().enumerate() {
        for register in block.live_in.iter() {
            extend(&mut live_ranges, register, 2 * block.start);
        }
        for register in live_out(&blocks, at, count).iter() {
            extend(&mut live_ranges, register, 2 * block.end);
        }
        for position in block.start..block.end {
            visit(&function.statements[position], &mut |register, written| {
                extend(&mut live_ranges, register.0 as usize, 2 * position + usize::from(written));
            });
        }
    }
    live_ranges
}

fn extend(live_ranges: &mut [Option<LiveRange>], register: usize, position: usize) {
    let range = live_ranges[register].get_or_insert(LiveRange { start: position, end: position });
    range.start = range.start.min(position);
    range.end = range.end.max(position);
}

fn live_out(blocks: &[Block], at: usize, count: usize) -> Set {
    let mut live = Set::new(count);
    for &next in &blocks[at].next {
        live.union(&blocks[next].live_in);
    }
    live
}

/// From what is live behind a statement to what is live before it.
fn step_back(statement: &Statement<'_>, live: &mut Set) {
    // Where the guard is false the old value stays.
    if statement.guard.is_none() {
        visit(statement, &mut |register, written| {
            if written {
                live.remove(register.0 as usize);
            }
        });
    }
    visit(statement, &mut |register, written| {
        if !written {
            live.insert(register.0 as usize);
        }
    });
}

/// Calls back with every register of a statement, and whether it is written.
fn visit(statement: &Statement<'_>, found: &mut dyn FnMut(Register, bool)) {
    if let Some((guard, _)) = statement.guard {
        found(guard, false);
    }
    let head = statement.opcode.split('.').next().unwrap_or_default();
    let writes_first = !matches!(head, "bar" | "barrier" | "brx" | "nanosleep");
    for (place, operand) in statement.operands.iter().enumerate() {
        visit_operand(operand, place == 0 && writes_first, found);
    }
}

fn visit_operand(operand: &Operand<'_>, written: bool, found: &mut dyn FnMut(Register, bool)) {
    match operand {
        Operand::Register(register) => found(*register, written),
        Operand::Not(register) => found(*register, false),
        Operand::Pair(first, second) => {
            visit_operand(first, written, found);
            visit_operand(second, written, found);
        }
        Operand::Vector(parts) => parts.iter().for_each(|part| visit_operand(part, written, found)),
        Operand::Address(base, _) => visit_operand(base, false, found),
        Operand::Name(_)
        | Operand::Sum(..)
        | Operand::Integer(_)
        | Operand::Single(_)
        | Operand::Double(_)
        | Operand::Sink => {}
    }
}

/// Where a statement goes besides the next one, and whether it may go to the next one.
fn jumps(function: &Function<'_>, statement: &Statement<'_>) -> Option<(Vec<usize>, bool)> {
    let falls_through = statement.guard.is_some();
    let head = statement.opcode.split('.').next().unwrap_or_default();
    let label = |name: &str| function.label(statement.scope, name);
    match head {
        "bra" => match statement.operands.first() {
            Some(Operand::Name(name)) => Some((label(name).into_iter().collect(), falls_through)),
            _ => Some((Vec::new(), true)),
        },
        "brx" => {
            let table = match statement.operands.get(1) {
                Some(Operand::Name(name)) => function.table(statement.scope, name).unwrap_or_default(),
                _ => &[],
            };
            Some((table.iter().filter_map(|name| label(name)).collect(), falls_through))
        }
        "ret" | "exit" | "trap" => Some((Vec::new(), falls_through)),
        _ => None,
    }
}

fn blocks(function: &Function<'_>) -> Vec<Block> {
    let count = function.statements.len();
    let mut starts = vec![false; count + 1];
    starts[0] = true;
    let jumps: Vec<_> = function.statements.iter().map(|statement| jumps(function, statement)).collect();
    for (at, jump) in jumps.iter().enumerate() {
        if let Some((targets, _)) = jump {
            starts[at + 1] = true;
            targets.iter().for_each(|&target| starts[target] = true);
        }
    }
    let firsts: Vec<usize> = (0..count).filter(|&at| starts[at]).collect();
    let block_of = |statement: usize| firsts.binary_search(&statement).ok();
    let mut blocks = Vec::with_capacity(firsts.len());
    for (index, &start) in firsts.iter().enumerate() {
        let end = firsts.get(index + 1).copied().unwrap_or(count);
        let mut next: Vec<usize> = Vec::new();
        let falls_through = match &jumps[end - 1] {
            Some((targets, falls_through)) => {
                next.extend(targets.iter().filter_map(|&target| block_of(target)));
                *falls_through
            }
            None => true,
        };
        if falls_through {
            next.extend(block_of(end));
        }
        blocks.push(Block { start, end, next, live_in: Set::new(function.registers.len()) });
    }
    blocks
}

/// A set of registers.
#[derive(PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn new(count: usize) -> Set {
        Set(vec![0; count.div_ceil(64)])
    }

    fn insert(&mut self, item: usize) {
        self.0[item / 64] |= 1 << (item % 64);
    }

    fn remove(&mut self, item: usize) {
        self.0[item / 64] &= !(1 << (item % 64));
    }

    fn union(&mut self, other: &Set) {
        for (word, &more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn check(body: &str, expected: &[Option<(usize, usize)>]) {
        let text = format!(".visible .entry k() {{ .reg .pred %p<1>; .reg .b32 %r<3>; {body} }}");
        let source = parse(&text).unwrap();
        let found: Vec<_> =
            live_ranges(&source.functions[0]).iter().map(|i| i.map(|i| (i.start, i.end))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_straight_line_is_from_definition_to_last_use() {
        check(
            "mov.u32 %r0, 1; add.u32 %r1, %r0, %r0; add.u32 %r2, %r1, 1; ret;",
            &[None, Some((1, 2)), Some((3, 4)), Some((5, 5))],
        );
    }

    #[test]
    fn a_value_used_in_a_loop_lives_to_the_loops_end() {
        check(
            "mov.u32 %r0, 1; L: add.u32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 3; @%p0 bra L; mov.u32 %r2, 0; ret;",
            &[Some((5, 6)), Some((1, 8)), Some((3, 4)), Some((9, 9))],
        );
    }

    #[test]
    fn a_guarded_definition_keeps_the_older_value_alive() {
        check(
            "mov.u32 %r0, 1; setp.eq.u32 %p0, %r0, 3; mov.u32 %r1, 5; @%p0 mov.u32 %r1, 0; mov.u32 %r2, %r1; ret;",
            &[Some((3, 6)), Some((1, 2)), Some((5, 8)), Some((9, 9))],
        );
    }
}
