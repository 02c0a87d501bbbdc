//! Tensor-core instructions: fragments of matrices that the lanes of a warp hold together.
//!
//! Fragments are taken apart into whole matrices, which are multiplied by plain loops. Products are exact and are added
//! up in binary32, in order of the common dimension.

use super::access::{Fault, Windows};
use super::lanes::{LANES, Lanes, vectorised};
use super::memory::addresses;
use super::registers::Registers;
use super::shared_matrix::{self, Rows};
use crate::number::half::{Bf16, F16, Half, tf32_operand};
use crate::program::{Address, Code, Element, Matrix, MatrixOp, Shape, Slot, Word};

/// Executes an operation of a whole warp.
pub(super) fn execute(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    code: &Code,
    op: MatrixOp,
    mask: u32,
) -> Result<(), Fault> {
    match op {
        MatrixOp::LoadMatrix { address, transpose, to } => {
            shared_matrix::load(r, windows, &Rows { address, transpose }, code.list(to), mask)?;
        }
        MatrixOp::StoreMatrix { address, transpose, from } => {
            shared_matrix::store(r, windows, &Rows { address, transpose }, code.list(from), mask)?;
        }
        MatrixOp::Mma { shape, ab, c, d, registers } => {
            let registers = code.list(registers);
            product(r, &Product { shape, ab, c, d, registers, opaque: false }, mask);
        }
        MatrixOp::FragmentLoad { shape, matrix, element, column_major, address, stride, to } => {
            let registers = code.list(to);
            let fragment = Fragment { shape, matrix, element, column_major, address, stride, registers };
            load_fragment(r, windows, &fragment, mask)?;
        }
        MatrixOp::FragmentStore { shape, element, column_major, address, stride, from } => {
            let (registers, matrix) = (code.list(from), Matrix::Accumulator);
            let fragment = Fragment { shape, matrix, element, column_major, address, stride, registers };
            store_fragment(r, windows, &fragment, mask)?;
        }
        MatrixOp::FragmentMma { shape, ab, c, d, registers } => {
            let registers = code.list(registers);
            product(r, &Product { shape, ab, c, d, registers, opaque: true }, mask);
        }
    }
    Ok(())
}

/// The most elements that a matrix of any shape has.
const MOST: usize = 32 * 16;

/// A matrix, row after row.
type Dense = [f32; MOST];

/// Where a lane's element of a fragment is in the matrix: the sum of what the lane and the element's index add.
struct Layout {
    lanes: Lanes<usize>,
    indices: fn(shape: Shape, matrix: Matrix, index: usize) -> usize,
}

impl Layout {
    /// The layouts of `mma.m16n8k*`, from the PTX ISA. Lanes come in groups of four; elements of 16 bits in pairs.
    fn of_mma(shape: Shape, matrix: Matrix, pairs: bool) -> Layout {
        let columns = shape.of(matrix).1;
        let per = if pairs || matrix == Matrix::Accumulator { 2 } else { 1 };
        let lanes = Lanes::by_lane(|lane| {
            let (group, within) = (lane / 4, lane % 4 * per);
            if matrix == Matrix::B { within * columns + group } else { group * columns + within }
        });
        let indices = if pairs {
            |s, m, index| mma_index(s, m, index, 2)
        } else {
            |s, m, index| mma_index(s, m, index, 1)
        };
        Layout { lanes, indices }
    }

    /// The layout of `wmma` fragments, which is ours to choose: each lane has a run of the matrix's rows.
    fn of_fragment(shape: Shape, matrix: Matrix) -> Layout {
        let (rows, columns) = shape.of(matrix);
        Layout { lanes: Lanes::by_lane(|lane| lane * (rows * columns / LANES)), indices: |_, _, index| index }
    }
}

/// What the index of an element adds to its place. Registers of A go down by eight rows first, then right by four
/// registers' worth of columns; those of B go down by as much.
fn mma_index(shape: Shape, matrix: Matrix, index: usize, per: usize) -> usize {
    let columns = shape.of(matrix).1;
    let (register, part) = (index / per, index % per);
    match matrix {
        Matrix::A => register % 2 * 8 * columns + register / 2 * 4 * per + part,
        Matrix::B => (register * 4 * per + part) * columns,
        Matrix::Accumulator => index / 2 * 8 * columns + index % 2,
    }
}

/// An element of 16 or 32 bits as a number.
#[inline(always)]
fn number(element: Element, bits: u32) -> f32 {
    match element {
        Element::F16 => F16::widen(bits & 0xffff),
        Element::Bf16 => Bf16::widen(bits & 0xffff),
        Element::Tf32 => tf32_operand(bits),
        Element::F32 => f32::from_bits(bits),
    }
}

/// A number as an element.
#[inline(always)]
fn bits(element: Element, value: f32) -> u32 {
    match element {
        Element::F16 => F16::narrow(value),
        Element::Bf16 => Bf16::narrow(value),
        Element::Tf32 | Element::F32 => value.to_bits(),
    }
}

#[inline(always)]
fn word(slot: Slot) -> Word {
    match slot {
        Slot::Word(word) => word,
        Slot::Long(_) => Word::SINK,
    }
}

/// How many elements a register holds.
fn per_register(element: Element) -> usize {
    4 / element.bytes()
}

/// A fragment's matrix.
#[inline(always)]
fn gather(
    r: &Registers,
    shape: Shape,
    matrix: Matrix,
    element: Element,
    from: &[Slot],
    layout: &Layout,
) -> Dense {
    let (rows, columns) = shape.of(matrix);
    let mut out = [0.0; MOST];
    let per = per_register(element);
    for index in 0..rows * columns / LANES {
        let register = r.word(word(from[index / per]));
        let shift = 16 * (index % per);
        let values: Lanes<f32> = match element {
            Element::F16 => Lanes::by_lane(|lane| number(Element::F16, register.0[lane] >> shift)),
            _ => Lanes::by_lane(|lane| number(element, register.0[lane] >> shift)),
        };
        let at = (layout.indices)(shape, matrix, index);
        for lane in 0..LANES {
            out[(layout.lanes.0[lane] + at) % MOST] = values.0[lane];
        }
    }
    out
}

/// A matrix as a fragment.
#[inline(always)]
fn scatter(
    r: &mut Registers,
    shape: Shape,
    element: Element,
    from: &Dense,
    to: &[Slot],
    layout: &Layout,
    mask: u32,
) {
    let per = per_register(element);
    for (register, &slot) in to.iter().enumerate() {
        let mut out = Lanes::all(0u32);
        for part in 0..per {
            let at = (layout.indices)(shape, Matrix::Accumulator, register * per + part);
            for lane in 0..LANES {
                out.0[lane] |= bits(element, from[(layout.lanes.0[lane] + at) % MOST]) << (16 * part);
            }
        }
        r.set_word(word(slot), &out, mask);
    }
}

/// accumulator += a × b, of as many columns.
#[inline(always)]
fn multiply<const COLUMNS: usize>(a: &Dense, b: &Dense, accumulator: &mut Dense, shape: Shape) {
    let (rows, common) = shape.of(Matrix::A);
    for (a, out) in a.chunks_exact(common).zip(accumulator.as_chunks_mut::<COLUMNS>().0).take(rows) {
        let mut sums = *out;
        for (factor, b) in a.iter().zip(b.as_chunks::<COLUMNS>().0) {
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += factor * b;
            }
        }
        *out = sums;
    }
}

/// The types and the registers of a product.
struct Product<'c> {
    shape: Shape,
    ab: Element,
    c: Element,
    d: Element,
    /// D, A, B and C.
    registers: &'c [Slot],
    /// Whether it is `wmma`, of which we choose the layout.
    opaque: bool,
}

vectorised! {
    /// D = A × B + C
    fn product(r: &mut Registers, product: &Product<'_>, mask: u32) {
        let &Product { shape, ab, c, d, registers, opaque } = product;
        let layout = |matrix| match opaque {
            true => Layout::of_fragment(shape, matrix),
            false => Layout::of_mma(shape, matrix, ab.bytes() == 2),
        };
        let in_accumulator = layout(Matrix::Accumulator);
        let (d_registers, rest) = registers.split_at(shape.registers(Matrix::Accumulator, d));
        // Fragments of binary16 have eight registers, of which small matrices leave some unused.
        let fixed = |matrix| if opaque && ab == Element::F16 { 8 } else { shape.registers(matrix, ab) };
        let (a_registers, rest) = rest.split_at(fixed(Matrix::A));
        let (b_registers, c_registers) = rest.split_at(fixed(Matrix::B));
        let a = gather(r, shape, Matrix::A, ab, a_registers, &layout(Matrix::A));
        let b = gather(r, shape, Matrix::B, ab, b_registers, &layout(Matrix::B));
        let mut sums = gather(r, shape, Matrix::Accumulator, c, c_registers, &in_accumulator);
        match shape.n {
            8 => multiply::<8>(&a, &b, &mut sums, shape),
            16 => multiply::<16>(&a, &b, &mut sums, shape),
            _ => multiply::<32>(&a, &b, &mut sums, shape),
        }
        scatter(r, shape, d, &sums, d_registers, &in_accumulator, mask);
    }
}

/// Loads or stores of whole fragments.
struct Fragment<'c> {
    shape: Shape,
    matrix: Matrix,
    element: Element,
    column_major: bool,
    address: Address,
    stride: Word,
    registers: &'c [Slot],
}

impl Fragment<'_> {
    /// The addresses of every lane's element of an index.
    fn addresses(&self, start: &Lanes<u64>, stride: &Lanes<u32>, index: usize) -> Lanes<u64> {
        Lanes::by_lane(|lane| {
            let at = lane * self.elements() + index;
            let columns = self.shape.of(self.matrix).1;
            let (row, column) = (at / columns, at % columns);
            let (major, minor) = if self.column_major { (column, row) } else { (row, column) };
            let element = major as u64 * u64::from(stride.0[lane]) + minor as u64;
            start.0[lane].wrapping_add(element * self.element.bytes() as u64)
        })
    }

    fn elements(&self) -> usize {
        let (rows, columns) = self.shape.of(self.matrix);
        rows * columns / LANES
    }
}

/// `wmma.load`
fn load_fragment(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    fragment: &Fragment<'_>,
    mask: u32,
) -> Result<(), Fault> {
    let (start, stride) = (addresses(r, windows, fragment.address), *r.word(fragment.stride));
    let (bytes, per) = (fragment.element.bytes(), per_register(fragment.element));
    let mut out = Lanes::all(0u32);
    for index in 0..fragment.elements() {
        let at = fragment.addresses(&start, &stride, index);
        let checked = windows.check(fragment.address.space, &at, mask, bytes)?;
        if per == 1 {
            out = checked.read::<u32>(0);
        } else {
            let half = checked.read::<u16>(0);
            let before = if index % 2 == 0 { Lanes::all(0) } else { out };
            out = Lanes::by_lane(|lane| before.0[lane] | u32::from(half.0[lane]) << (16 * (index % 2)));
        }
        if index % per == per - 1 {
            r.set_word(word(fragment.registers[index / per]), &out, mask);
        }
    }
    Ok(())
}

/// `wmma.store`
fn store_fragment(
    r: &Registers,
    windows: &mut Windows<'_>,
    fragment: &Fragment<'_>,
    mask: u32,
) -> Result<(), Fault> {
    let (start, stride) = (addresses(r, windows, fragment.address), *r.word(fragment.stride));
    let (bytes, per) = (fragment.element.bytes(), per_register(fragment.element));
    for index in 0..fragment.elements() {
        let at = fragment.addresses(&start, &stride, index);
        let checked = windows.check(fragment.address.space, &at, mask, bytes)?;
        let value = r.word(word(fragment.registers[index / per]));
        if per == 1 {
            checked.write(0, value);
        } else {
            checked.write(0, &Lanes::by_lane(|lane| (value.0[lane] >> (16 * (index % 2))) as u16));
        }
    }
    Ok(())
}
