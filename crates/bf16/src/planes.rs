use half::bf16;

use crate::{
    Line, MatrixUnit, Shift,
    line::{OF_TILE, SIDE},
};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::{dots::Dots, pairs, unit::Instructions, wide::Wide};

/// Multiplies rows by columns that overlap in memory, so that these need not be packed: those of a convolution, whose taps read the same
/// pixels at some distance.
///
/// A *plane* holds a pair of numbers for each position, [`pair`] by pair: those of two inner indices that follow each other. A column begins at
/// a position, and reads 16 planes at each of some shifts from there, then the next 16 planes.
#[derive(Clone, Copy, Debug)]
pub struct PlaneUnit {
    /// Dot products, or wide ones.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    instructions: Instructions,
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    never: std::convert::Infallible,
}

/// Planes of pairs.
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a> {
    /// All planes, one behind the other.
    pub pairs: &'a [f32],
    /// Positions of a plane.
    pub of_plane: usize,
}

/// Two numbers in the bits of one.
#[inline(always)]
pub fn pair(first: bf16, second: bf16) -> f32 {
    f32::from_bits(u32::from(second.to_bits()) << 16 | u32::from(first.to_bits()))
}

impl MatrixUnit {
    /// What multiplies planes. `None` where this unit has tiles.
    pub fn for_planes(self) -> Option<PlaneUnit> {
        if self.has_tiles() {
            return None;
        }
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        return Some(PlaneUnit { instructions: self.instructions });
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        None
    }
}

impl PlaneUnit {
    /// Multiplies 32 rows by 32 columns, which begin at the positions from `first` on. `left` has for each 16 planes the lines of `of_step`
    /// times 32 inner indices, as [`MatrixUnit::pack_left`] makes them of the rows. Those of no shift are left out. `sums` has 32 columns of
    /// all rows.
    ///
    /// # Panics
    /// Panics unless there are rows of all shifts, all planes of the rows, all positions in them, and as many sums.
    pub fn multiply(
        self,
        left: &[Line],
        of_step: usize,
        right: Planes<'_>,
        shifts: &[Shift],
        first: usize,
        sums: &mut [f32],
    ) {
        let Planes { pairs, of_plane } = right;
        let Some(last) = shifts.iter().map(|shift| shift.by).max() else { return sums.fill(0.0) };
        let of_step = of_step * SIDE;
        assert!(left.len().is_multiple_of(of_step), "there are rows for all steps");
        assert!(
            shifts.iter().all(|shift| (shift.index + 1) * SIDE <= of_step),
            "there are rows for all shifts"
        );
        assert!(left.len() / of_step * OF_TILE * of_plane <= pairs.len(), "there are all planes");
        assert!(first + last + SIDE <= of_plane, "all positions are in the planes");
        assert_eq!(sums.len(), SIDE * SIDE, "the sums are those of 32 rows");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: `for_planes` found the instructions. Rows, positions and sums are there, as asserted above.
        unsafe {
            let (left, right) = (left.chunks_exact(of_step), pairs[first..].as_ptr());
            match self.instructions {
                Instructions::Wide => pairs::planes::<Wide>(left, right, of_plane, shifts, sums),
                _ => pairs::planes::<Dots>(left, right, of_plane, shifts, sums),
            }
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match (self.never, pairs) {}
    }
}
