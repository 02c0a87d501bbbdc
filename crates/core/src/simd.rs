//! Loops that are compiled for several generations of processors; the widest vectors that the processor supports run.
//!
//! They are plain loops over slices, which the compiler vectorises. `#[inline(always)]` inlines them into the functions in
//! which vector instructions are enabled.
//!
//! ```
//! use oomph_core::simd::{SimdLoops, multiply_add, vectorised};
//!
//! struct Doubled<'a>(&'a mut [f32]);
//!
//! impl SimdLoops for Doubled<'_> {
//!     #[inline(always)]
//!     fn run<const FUSED: bool>(self) {
//!         self.0.iter_mut().for_each(|value| *value = multiply_add::<FUSED>(*value, 2.0, 1.0));
//!     }
//! }
//!
//! let mut values = [1.0, 2.0, 3.0];
//! vectorised(Doubled(&mut values));
//! assert_eq!(values, [3.0, 5.0, 7.0]);
//! ```

use macerator::{Arch, Simd, WithSimd};

/// Loops to vectorise together.
pub trait SimdLoops {
    /// Runs the loops. `FUSED`: whether the processor multiplies and adds by one instruction, see [`multiply_add`].
    fn run<const FUSED: bool>(self);
}

/// Runs `loops` by the widest vectors that this processor has.
pub fn vectorised(loops: impl SimdLoops) {
    Arch::new().dispatch(Vectorised(loops));
}

/// Runs `work` by the widest vectors that this processor has, if the compiler inlines it: a closure of some lines it does not, and
/// then runs it without. Such loops are [`SimdLoops`]. The results are the same either way: sums keep their order.
#[inline]
pub fn by_vectors<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(Closure(work))
}

/// Whether vectors of `S` come with an instruction that multiplies and adds: on x86 those of eight numbers do, and on ARM all.
///
/// It is constant, so that the loops below are compiled for two generations of x86, AVX2 and AVX-512, and once for all older
/// ones: each copy takes as long to compile as any other.
const fn is_fused<S: Simd>() -> bool {
    size_of::<S::Register>() >= 32 || cfg!(target_arch = "aarch64")
}

struct Vectorised<L>(L);

impl<L: SimdLoops> WithSimd for Vectorised<L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        if const { is_fused::<S>() } { self.0.run::<true>() } else { run_unfused(self.0) }
    }
}

/// Outside of the functions in which newer instructions are enabled.
#[inline(never)]
fn run_unfused(loops: impl SimdLoops) {
    loops.run::<false>();
}

struct Closure<F>(F);

impl<R, F: FnOnce() -> R> WithSimd for Closure<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> R {
        if const { is_fused::<S>() } { (self.0)() } else { call(self.0) }
    }
}

/// Outside of the functions in which newer instructions are enabled.
#[inline(never)]
fn call<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// a·b + c, rounded once if `FUSED`, else twice: on a processor without the instruction a fused product is a call.
#[inline(always)]
pub fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}
