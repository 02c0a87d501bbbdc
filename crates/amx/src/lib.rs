//! Products of matrices by the matrix unit of a processor: AMX, which Intel's Xeons have since Sapphire Rapids.
//!
//! A product multiplies *strips*: 32 rows of the left matrix by 32 columns of the right one, which are packed first. Products of two
//! bf16 numbers are exact in 32 bits; of 32 inner indices the unit sums the even and the odd products alone, then adds both to the
//! sum so far. It takes numbers below 2⁻¹²⁶ for zeros (Intel, Architecture Instruction Set Extensions Programming Reference, AMX).
//! Numbers of 32 bits are [taken apart](Element) first.
//!
//! ```
//! use half::bf16;
//! use oomph_amx::{Line, MatrixUnit, SIDE, Vectors, lines};
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
mod registers;
#[cfg(test)]
mod truth;
mod unit;
mod vectors;

pub use line::{FEW_ROWS, Line, SIDE, lines};
pub use unit::MatrixUnit;
pub use vectors::{Element, Rounded, Vectors};
