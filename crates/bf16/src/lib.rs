//! Products of matrices of bf16 by the fastest instructions of a processor: AMX, which Intel's Xeons have since Sapphire Rapids, or else
//! the dot products of AVX-512 BF16, which AMD's processors have since Zen 4. Where Intel's have no AMX, or a virtual machine hides it,
//! their dot products are slower than products of 32 bits: pairs are widened to these.
//!
//! A product multiplies *strips*: 32 rows of the left matrix by 32 columns of the right one, which are packed first. Products of two
//! bf16 numbers are exact in 32 bits, and are summed in 32 bits. Of 32 inner indices AMX sums the even and the odd products alone, then
//! adds both to the sum so far. AVX-512 BF16 adds one product after the other, of each two the odd one first. Both take numbers below
//! 2⁻¹²⁶ for zeros (Intel, Architecture Instruction Set Extensions Programming Reference, AMX; Software Developer's Manual, `VDPBF16PS`).
//! Widened pairs are added in the order of dot products, and with their bits, but smaller numbers count.
//! Numbers of 32 bits are [taken apart](Element) first.
//!
//! ```
//! use half::bf16;
//! use oomph_bf16::{Line, MatrixUnit, SIDE, Vectors, lines};
//!
//! let (left, right) = (vec![bf16::from_f32(2.0); 3 * 5], vec![bf16::from_f32(0.5); 5 * 7]);
//! if let Some(unit) = MatrixUnit::of_this_processor() {
//!     let mut strips = [Line::ZERO; lines(1, 5, 1)];
//!     let [mut rows, mut columns] = [strips; 2];
//!     unit.pack_left(Vectors::along(&left, 5, 3), &mut rows);
//!     unit.pack_right(Vectors::across(&right, 7, 7, 5), &mut columns);
//!     let mut sums = [1.0; SIDE * SIDE];
//!     unit.multiply::<bf16>([&rows, &columns], 5, &mut sums, false);
//!     assert_eq!(sums[2 * SIDE + 6], 5.0);
//!     assert_eq!(sums[3 * SIDE], 0.0);
//! }
//! ```

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod blocks;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod dots;
mod line;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod packing;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod packing {
    /// Nothing loads elements for a unit that is not there.
    pub trait Load {}

    impl<E> Load for E {}
}
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod pairs;
mod planes;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod points;
mod shift;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tiles;
#[cfg(test)]
mod truth;
mod unit;
mod vectors;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod wide;
mod winograd;

pub use line::{FEW_ROWS, Line, SIDE, lines};
pub use planes::{PlaneUnit, Planes, pair};
pub use shift::Shift;
pub use unit::MatrixUnit;
pub use vectors::{Element, Rounded, Vectors};
pub use winograd::{Neighbours, POINTS, PairLine, WindowLines, WinogradUnit};
