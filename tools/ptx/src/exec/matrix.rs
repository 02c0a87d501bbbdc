//! Tensor-core instructions: fragments of matrices that the lanes of a warp hold together.
//!
//! Fragments are taken apart into whole matrices, which are multiplied by plain loops. Products are exact and are added
//! up in binary32, in order of the common dimension.

use super::access::{Fault, Windows};
use super::lanes::{LANES, Lanes, vectorised};
use super::memory::addresses;
use super::registers::Registers;
use crate::number::half::{Bf16, F16, Half, tf32_operand};
use crate::program::{Address, Element, Matrix, Shape, Slot, Word};

/// The most elements that a matrix of any shape has.
const MOST: usize = 32 * 16;

/// A matrix, row after row.
struct Dense {
    columns: usize,
    values: [f32; MOST],
}

/// Where a lane's element of a fragment is in the matrix: row and column.
type Layout = fn(Shape, Matrix, lane: usize, index: usize) -> (usize, usize);

/// The layouts of `mma.m16n8k*`, from the PTX ISA. Lanes come in groups of four; elements of 16 bits in pairs.
fn mma_layout(pairs: bool) -> Layout {
    fn place(matrix: Matrix, lane: usize, index: usize, per: usize) -> (usize, usize) {
        let (group, within) = (lane / 4, lane % 4);
        let (register, part) = (index / per, index % per);
        match matrix {
            // Registers go down by eight rows first, then right by four registers' worth of columns.
            Matrix::A => (group + register % 2 * 8, within * per + part + register / 2 * 4 * per),
            Matrix::B => (within * per + part + register * 4 * per, group),
            Matrix::Accumulator => (group + index / 2 * 8, within * 2 + index % 2),
        }
    }
    if pairs {
        |_, matrix, lane, index| place(matrix, lane, index, 2)
    } else {
        |_, matrix, lane, index| place(matrix, lane, index, 1)
    }
}

/// The layout of `wmma` fragments, which is ours to choose: each lane has a run of the matrix's rows.
fn fragment_layout(shape: Shape, matrix: Matrix, lane: usize, index: usize) -> (usize, usize) {
    let (rows, columns) = shape.of(matrix);
    let at = lane * (rows * columns / LANES) + index;
    (at / columns, at % columns)
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
fn gather(r: &Registers, shape: Shape, matrix: Matrix, element: Element, from: &[Slot], layout: Layout) -> Dense {
    let (rows, columns) = shape.of(matrix);
    let mut out = Dense { columns, values: [0.0; MOST] };
    let per = per_register(element);
    for index in 0..rows * columns / LANES {
        let register = r.word(word(from[index / per]));
        for lane in 0..LANES {
            let (row, column) = layout(shape, matrix, lane, index);
            let value = number(element, register.0[lane] >> (16 * (index % per)));
            out.values[row * columns + column] = value;
        }
    }
    out
}

/// A matrix as a fragment.
#[inline(always)]
fn scatter(r: &mut Registers, shape: Shape, element: Element, from: &Dense, to: &[Slot], layout: Layout, mask: u32) {
    let matrix = Matrix::Accumulator;
    let (rows, columns) = shape.of(matrix);
    let per = per_register(element);
    for (register, &slot) in to.iter().enumerate().take(rows * columns / LANES / per) {
        let mut out = Lanes::all(0u32);
        for part in 0..per {
            for lane in 0..LANES {
                let (row, column) = layout(shape, matrix, lane, register * per + part);
                out.0[lane] |= bits(element, from.values[row * columns + column]) << (16 * part);
            }
        }
        r.set_word(word(slot), &out, mask);
    }
}

/// accumulator += a × b
#[inline(always)]
fn multiply(a: &Dense, b: &Dense, accumulator: &mut Dense, shape: Shape) {
    let (rows, common) = shape.of(Matrix::A);
    let columns = accumulator.columns;
    let (out, _) = accumulator.values.split_at_mut(rows * columns);
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        for k in 0..common {
            let factor = a.values[row * a.columns + k];
            for (out, &b) in out.iter_mut().zip(&b.values[k * columns..][..columns]) {
                *out += factor * b;
            }
        }
    }
}

/// The types and the registers of a product.
pub(super) struct Product<'c> {
    pub(super) shape: Shape,
    pub(super) ab: Element,
    pub(super) c: Element,
    pub(super) d: Element,
    /// D, A, B and C.
    pub(super) registers: &'c [Slot],
    /// Whether it is `wmma`, of which we choose the layout.
    pub(super) opaque: bool,
}

vectorised! {
    /// D = A × B + C
    pub(super) fn product(r: &mut Registers, product: &Product<'_>, mask: u32) {
        let &Product { shape, ab, c, d, registers, opaque } = product;
        let layout = if opaque { fragment_layout } else { mma_layout(ab.bytes() == 2) };
        let (d_registers, rest) = registers.split_at(shape.registers(Matrix::Accumulator, d));
        // Fragments of binary16 have eight registers, of which small matrices leave some unused.
        let fixed = |matrix| if opaque && ab == Element::F16 { 8 } else { shape.registers(matrix, ab) };
        let (a_registers, rest) = rest.split_at(fixed(Matrix::A));
        let (b_registers, c_registers) = rest.split_at(fixed(Matrix::B));
        let a = gather(r, shape, Matrix::A, ab, a_registers, layout);
        let b = gather(r, shape, Matrix::B, ab, b_registers, layout);
        let mut accumulator = gather(r, shape, Matrix::Accumulator, c, c_registers, layout);
        multiply(&a, &b, &mut accumulator, shape);
        scatter(r, shape, d, &accumulator, d_registers, layout, mask);
    }
}

/// Loads or stores of whole fragments.
pub(super) struct Fragment<'c> {
    pub(super) shape: Shape,
    pub(super) matrix: Matrix,
    pub(super) element: Element,
    pub(super) column_major: bool,
    pub(super) address: Address,
    pub(super) stride: Word,
    pub(super) registers: &'c [Slot],
}

impl Fragment<'_> {
    /// The addresses of every lane's element of an index.
    fn addresses(&self, start: &Lanes<u64>, stride: &Lanes<u32>, index: usize) -> Lanes<u64> {
        Lanes::by_lane(|lane| {
            let (row, column) = fragment_layout(self.shape, self.matrix, lane, index);
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
pub(super) fn load_fragment(
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
pub(super) fn store_fragment(
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

/// The addresses of the two elements next to each other that each lane has of the 8 × 8 matrix of a number: lane 8m + r
/// gives the address of row r of matrix m.
fn elements_of(rows: &Lanes<u64>, matrix: usize, transpose: bool, part: usize) -> Lanes<u64> {
    Lanes::by_lane(|lane| {
        let (outer, inner) = (lane / 4, lane % 4 * 2 + part);
        let (row, column) = if transpose { (inner, outer) } else { (outer, inner) };
        rows.0[matrix * 8 + row].wrapping_add(2 * column as u64)
    })
}

/// Rows are of 16 bytes and aligned to that, which is checked of those lanes that give an address.
fn check_rows(windows: &mut Windows<'_>, address: Address, rows: &Lanes<u64>, matrices: usize) -> Result<(), Fault> {
    let givers = if matrices == 4 { u32::MAX } else { (1 << (8 * matrices)) - 1 };
    windows.check(address.space, rows, givers, 16).map(|_| ())
}

/// `ldmatrix`
pub(super) fn load_matrices(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    address: Address,
    transpose: bool,
    to: &[Slot],
    mask: u32,
) -> Result<(), Fault> {
    let rows = addresses(r, windows, address);
    check_rows(windows, address, &rows, to.len())?;
    for (matrix, &slot) in to.iter().enumerate() {
        let mut out = Lanes::all(0u32);
        for part in 0..2 {
            let at = elements_of(&rows, matrix, transpose, part);
            let half = windows.check(address.space, &at, mask, 2)?.read::<u16>(0);
            for lane in 0..LANES {
                out.0[lane] |= u32::from(half.0[lane]) << (16 * part);
            }
        }
        r.set_word(word(slot), &out, mask);
    }
    Ok(())
}

/// `stmatrix`
pub(super) fn store_matrices(
    r: &Registers,
    windows: &mut Windows<'_>,
    address: Address,
    transpose: bool,
    from: &[Slot],
    mask: u32,
) -> Result<(), Fault> {
    let rows = addresses(r, windows, address);
    check_rows(windows, address, &rows, from.len())?;
    for (matrix, &slot) in from.iter().enumerate() {
        let value = r.word(word(slot));
        for part in 0..2 {
            let at = elements_of(&rows, matrix, transpose, part);
            let half = Lanes::by_lane(|lane| (value.0[lane] >> (16 * part)) as u16);
            windows.check(address.space, &at, mask, 2)?.write(0, &half);
        }
    }
    Ok(())
}
