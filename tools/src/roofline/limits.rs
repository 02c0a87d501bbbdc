//! What this machine can do at most, measured with all threads at work.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use burn::tensor::{DType, bf16};
use macerator::{Arch, Scalar, Simd, Vector, WithSimd};
use oomph_bf16::{Element, Line, MatrixUnit, SIDE, Vectors, lines};
use rayon::prelude::*;

/// Rates of the machine.
pub(super) struct Limits {
    /// Multiplications and additions of 32 bits a second by vectors: independent sums in registers.
    pub(super) vectors: f64,
    /// Those of products by the matrix unit: of strips in the first-level cache. 0 if it does not multiply the format.
    pub(super) unit: f64,
    /// Bytes a second, read and written, of arrays larger than the caches.
    pub(super) bandwidth: f64,
}

impl Limits {
    /// The rates for products of a format.
    pub(super) fn measure(format: DType) -> Self {
        let unit = MatrixUnit::of_this_processor().filter(|unit| format == DType::BF16 || unit.has_tiles());
        let strips = |unit| match format {
            DType::BF16 => strips(unit, bf16::ONE),
            _ => strips(unit, 1.0f32),
        };
        Self {
            vectors: of_all_threads(|| Arch::new().dispatch(Sums)),
            unit: unit.map_or(0.0, |unit| of_all_threads(|| strips(unit))),
            bandwidth: bandwidth(),
        }
    }
}

/// The fastest of some rounds: other programs only slow a round down.
const ROUNDS: usize = 7;

/// How long a round takes about.
const ROUND: Duration = Duration::from_millis(60);

/// Multiplications and additions a second, where each call of `work` returns how many it did.
fn of_all_threads(work: impl Fn() -> usize + Sync) -> f64 {
    let round = || {
        let rates = rayon::broadcast(|_| {
            let (begun, mut done) = (Instant::now(), 0);
            while begun.elapsed() < ROUND {
                done += work();
            }
            done as f64 / begun.elapsed().as_secs_f64()
        });
        rates.into_iter().sum()
    };
    (0..ROUNDS).map(|_| round()).fold(0.0, f64::max)
}

/// As many sums as hide how long an instruction takes, and fit into registers with their factors.
const SUMS: usize = 12;

/// Steps of a call.
const STEPS: usize = 10_000;

struct Sums;

impl WithSimd for Sums {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self) -> usize {
        let factor: Vector<S, f32> = black_box(1.0f32).splat();
        let mut sums: [Vector<S, f32>; SUMS] = [black_box(0.0f32).splat(); SUMS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = factor.mul_add(factor, *sum);
            }
        }
        black_box(sums);
        2 * STEPS * SUMS * S::lanes32()
    }
}

/// A product of a few strips.
fn strips<E: Element>(unit: MatrixUnit, one: E) -> usize {
    let inner = 4 * SIDE;
    let ones = vec![one; SIDE * inner];
    let mut packed = [(); 2].map(|()| vec![Line::ZERO; lines(1, inner, E::PARTS)]);
    unit.pack_left(Vectors::along(&ones, inner, SIDE), &mut packed[0]);
    unit.pack_right(Vectors::across(&ones, SIDE, SIDE, inner), &mut packed[1]);
    let mut sums = [0.0; SIDE * SIDE];
    let calls = 200;
    for _ in 0..calls {
        unit.multiply::<E>([&packed[0], &packed[1]], inner, &mut sums, true);
    }
    black_box(sums);
    calls * 2 * SIDE * SIDE * inner
}

/// Adds one array to another.
fn bandwidth() -> f64 {
    const ELEMENTS: usize = 32 << 20;
    const TASK: usize = 64 << 10;
    let (from, mut to) = (vec![1.0f32; ELEMENTS], vec![0.0f32; ELEMENTS]);
    let mut round = || {
        let begun = Instant::now();
        let both = to.par_chunks_mut(TASK).zip(from.par_chunks(TASK));
        both.for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(to, from)| *to += from));
        (3 * ELEMENTS * size_of::<f32>()) as f64 / begun.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| round()).fold(0.0, f64::max)
}
