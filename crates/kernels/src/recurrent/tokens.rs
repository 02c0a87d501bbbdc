//! Layers whose inputs are tokens. Each of V tokens is multiplied by the weights of the input once, however often it stands
//! in the sequences; on the way back, the gradients of all its places are summed before they are multiplied.

use std::ops::Range;

use burn::tensor::{IndexingUpdateOp, Int, Tensor};
use burn_backend::DType;

use super::{RecurrentMatrix, place_products};
use crate::{
    cast::cast,
    custom_op::CustomOp,
    flex_tensor::floats,
    indices::indices,
    kernels::Kernels,
    sequence::{RunRows, zeros},
    simd::{SimdLoops, vectorised},
    workers,
};

/// The products of each token's vector, of `vectors`, `[V, I]`, and the weights of the input: `[V, 1, G·U]` in 32 bits.
pub(super) fn token_products(vectors: Tensor<2>, of_input: &RecurrentMatrix, kernels: Kernels) -> Tensor<3> {
    let [tokens, features] = vectors.dims();
    let products = zeros([tokens, 1, of_input.sizes.columns], DType::F32, vectors.clone(), kernels);
    let vectors = cast(vectors, DType::F32, kernels).reshape([tokens, 1, features]);
    place_products(products, vectors, &(0..1), of_input, kernels)
}

/// Adds the gradients of the products at a run of steps, `gates`, `[B, k, G·U]`, to the `sums` of their tokens,
/// `[V, 1, G·U]`: in place, if nobody else holds the sums. `tokens` are those of all steps, `[B, T]`.
pub(super) fn add_by_token(
    sums: Tensor<3>,
    gates: Tensor<3>,
    tokens: Tensor<2, Int>,
    steps: &Range<usize>,
    kernels: Kernels,
) -> Tensor<3> {
    let ([count, _, width], [batch, all_steps]) = (sums.dims(), tokens.dims());
    if kernels != Kernels::Cpu {
        let rows = batch * steps.len();
        let tokens = tokens.narrow(1, steps.start, steps.len()).reshape([rows]);
        let sums = sums.reshape([count, width]);
        let added = sums.select_assign(0, tokens, gates.reshape([rows, width]), IndexingUpdateOp::Add);
        return added.reshape([count, 1, width]);
    }
    let rows = RunRows { all_steps, first_step: steps.start, steps: steps.len(), features: 1 };
    CustomOp::change("add_by_token", sums, [gates.into(), tokens.into()], DType::F32, |mut sums, read| {
        let (gates, tokens) = (floats(&read[0]), indices(&read[1]));
        let gradients = Gradients { gates, tokens: &tokens, rows, width };
        let of_task = (count.div_ceil(TASKS) * width).max(1);
        let tasks = sums.storage_mut::<f32>().chunks_mut(of_task).enumerate();
        workers::all(TASKS, tasks, |(task, sums)| {
            vectorised(AddTokens { gradients, first: task * of_task / width.max(1), sums });
        });
        sums
    })
}

/// Parts of the tokens: some stand in a text more often than others, so that there are more parts than threads.
const TASKS: usize = 16;

/// The gradients of a run.
#[derive(Clone, Copy)]
struct Gradients<'a> {
    gates: &'a [f32],
    /// The tokens of all steps.
    tokens: &'a [usize],
    rows: RunRows,
    width: usize,
}

/// Adds the gradients of some tokens, from `first` on, in the order of the rows.
struct AddTokens<'a> {
    gradients: Gradients<'a>,
    first: usize,
    sums: &'a mut [f32],
}

impl SimdLoops for AddTokens<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { gradients: Gradients { gates, tokens, rows, width }, first, sums } = self;
        let count = sums.len() / width;
        for (row, gates) in gates.chunks_exact(width).enumerate() {
            let at = tokens[rows.begin(row)].wrapping_sub(first);
            if at < count {
                let sums = &mut sums[at * width..][..width];
                sums.iter_mut().zip(gates).for_each(|(sum, gradient)| *sum += gradient);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::truth::{distance, stored, values};

    const TOKENS: usize = 21;

    fn tokens([batch, steps]: [usize; 2]) -> Tensor<2, Int> {
        let tokens: Vec<i64> = (0..batch * steps).map(|at| (at * at % TOKENS) as i64).collect();
        Tensor::from_data(TensorData::new(tokens, [batch, steps]), &Device::flex())
    }

    #[test]
    fn products_are_those_of_the_vectors_in_either_format() {
        for (dtype, limit) in [(DType::F32, 1e-6), (DType::BF16, 1e-6)] {
            let made = [Kernels::Cpu, Kernels::Composed].map(|kernels| {
                let weight = stored::<2>("weight", [52, 37], DType::F32);
                let matrix = RecurrentMatrix::transposed(weight, dtype, TOKENS, kernels);
                values(token_products(stored("vectors", [TOKENS, 37], dtype), &matrix, kernels))
            });
            // Burn rounds products of 16 bits.
            let limit = if dtype == DType::BF16 { 5e-3 } else { limit };
            assert!(distance(&made[0], &made[1]) < limit, "{dtype:?}");
        }
    }

    #[test]
    fn gradients_are_summed_by_token_whatever_the_threads() {
        let (batch, all_steps, steps) = (5, 9, 3..7);
        let add = |kernels, threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("a pool of few threads").install(|| {
                let sums = stored("sums", [TOKENS, 1, 52], DType::F32);
                let gates = stored("gates", [batch, steps.len(), 52], DType::F32);
                values(add_by_token(sums, gates, tokens([batch, all_steps]), &steps, kernels))
            })
        };
        let own = add(Kernels::Cpu, 1);
        assert_eq!(own, add(Kernels::Cpu, 3));
        assert!(distance(&own, &add(Kernels::Composed, 1)) < 1e-6);
    }
}
