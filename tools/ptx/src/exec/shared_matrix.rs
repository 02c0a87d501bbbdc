//! `ldmatrix` and `stmatrix`: matrices of 8 × 8 elements of 16 bits, of which lane 8m + r gives the address of row r of
//! matrix m, and each lane has two elements next to each other.

use super::access::{Checked, Fault, Windows};
use super::lanes::{LANES, Lanes, lanes_of};
use super::memory::addresses;
use super::registers::Registers;
use crate::program::{Address, Slot, Word};

/// Bytes of a row.
const ROW: usize = 16;

/// Where both instructions have their matrices.
pub(super) struct Rows {
    pub(super) address: Address,
    pub(super) transpose: bool,
}

/// The lanes that give addresses.
fn givers(matrices: usize) -> u32 {
    if matrices == 4 { u32::MAX } else { (1 << (8 * matrices)) - 1 }
}

/// Row and column of the elements of a lane.
#[inline(always)]
fn place(lane: usize, part: usize, transpose: bool) -> (usize, usize) {
    let (outer, inner) = (lane / 4, lane % 4 * 2 + part);
    if transpose { (inner, outer) } else { (outer, inner) }
}

fn word(slot: Slot) -> Word {
    match slot {
        Slot::Word(word) => word,
        Slot::Long(_) => Word::SINK,
    }
}

/// `ldmatrix`
pub(super) fn load(
    r: &mut Registers,
    windows: &mut Windows<'_>,
    rows: &Rows,
    to: &[Slot],
    mask: u32,
) -> Result<(), Fault> {
    let at = addresses(r, windows, rows.address);
    let checked = windows.check(rows.address.space, &at, givers(to.len()), ROW)?;
    for (matrix, &slot) in to.iter().enumerate() {
        let elements = read(&checked, matrix);
        let mut out = Lanes::all(0);
        for part in 0..2 {
            for lane in 0..LANES {
                let (row, column) = place(lane, part, rows.transpose);
                out.0[lane] |= u32::from(elements[row % 8][column % 8]) << (16 * part);
            }
        }
        r.set_word(word(slot), &out, mask);
    }
    Ok(())
}

#[inline(always)]
fn read(checked: &Checked<'_>, matrix: usize) -> [[u16; 8]; 8] {
    let mut elements = [[0; 8]; 8];
    for (row, elements) in elements.iter_mut().enumerate() {
        let mut bytes = [0; ROW];
        checked.read_bytes(matrix * 8 + row, &mut bytes);
        for (element, bytes) in elements.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *element = u16::from_le_bytes(*bytes);
        }
    }
    elements
}

/// `stmatrix`
pub(super) fn store(
    r: &Registers,
    windows: &mut Windows<'_>,
    rows: &Rows,
    from: &[Slot],
    mask: u32,
) -> Result<(), Fault> {
    let at = addresses(r, windows, rows.address);
    let checked = windows.check(rows.address.space, &at, givers(from.len()), ROW)?;
    for (matrix, &slot) in from.iter().enumerate() {
        let value = r.word(word(slot));
        let mut elements = [[0u8; ROW]; 8];
        for lane in 0..LANES {
            for part in 0..2 {
                let (row, column) = place(lane, part, rows.transpose);
                let bytes = ((value.0[lane] >> (16 * part)) as u16).to_le_bytes();
                elements[row][2 * column..][..2].copy_from_slice(&bytes);
            }
        }
        for row in lanes_of(mask & 0xff) {
            checked.write_bytes(matrix * 8 + row, &elements[row]);
        }
    }
    Ok(())
}
