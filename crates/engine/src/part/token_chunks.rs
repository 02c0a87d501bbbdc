use std::ops::Range;

use burn::tensor::{Int, Tensor};
use oomph_core::{Account, charge};
use oomph_model::AnyTensor;

use crate::task::{DeviceTargets, TOKENS, TaskError};

/// The tokens of a micro-batch in chunks, with `memory.loss_chunk`. The last stage and the loss are computed chunk by chunk, so the
/// logits of all tokens never exist at once (as in Liger Kernel, Hsu et al. 2024, <https://arxiv.org/abs/2410.10989>).
#[derive(Clone, Debug)]
pub struct TokenChunks {
    /// The tokens to tell, `[1, N]`: all steps of all samples.
    targets: Tensor<2, Int>,
    /// The steps of a sample.
    steps: usize,
    /// The tokens of a chunk.
    size: usize,
}

/// Some tokens of a micro-batch.
#[derive(Clone, Debug)]
pub(crate) struct TokenChunk {
    tokens: Range<usize>,
    /// The tokens to tell, `[1, n]`.
    pub(crate) targets: DeviceTargets,
    /// The share of all tokens, from 0 to 1.
    pub(crate) share: f64,
    /// So many samples have as many tokens.
    pub(crate) samples: f32,
}

impl TokenChunks {
    /// Chunks of at most `size` tokens.
    ///
    /// # Errors
    /// [`TaskError::Targets`] if the targets are no tokens.
    pub fn new(targets: DeviceTargets, size: usize) -> Result<Self, TaskError> {
        let DeviceTargets::Tokens(targets) = targets else {
            return Err(TaskError::Targets {
                task: "memory.loss_chunk",
                expected: TOKENS,
                found: targets.kind(),
            });
        };
        let [samples, steps] = targets.dims();
        Ok(Self { targets: targets.reshape([1, samples * steps]), steps, size })
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = TokenChunk> {
        let [_, all] = self.targets.dims();
        (0..all).step_by(self.size).map(move |start| {
            let tokens = start..all.min(start + self.size);
            TokenChunk {
                targets: DeviceTargets::Tokens(self.targets.clone().narrow(1, start, tokens.len())),
                share: tokens.len() as f64 / all as f64,
                samples: tokens.len() as f32 / self.steps as f32,
                tokens,
            }
        })
    }
}

impl TokenChunk {
    /// The inputs of its tokens, `[1, n, C]`, of those of all samples, `[B, T, C]`.
    pub(crate) fn input(&self, whole: &AnyTensor) -> AnyTensor {
        let dims = whole.dims();
        // A last stage whose loss is computed by chunks takes vectors.
        let features = dims.last().copied().unwrap_or(1);
        let rows = whole.clone().shaped(&[whole.elements() / features.max(1), features]);
        rows.rows(self.tokens.clone()).shaped(&[1, self.tokens.len(), features])
    }
}

/// The gradients of the inputs of all chunks as one, of the shape `dims`; `None` without gradients.
pub(crate) fn joined_chunks(chunks: Vec<AnyTensor>, dims: &[usize]) -> Option<AnyTensor> {
    let rows: Vec<_> = charge(Account::Host, || {
        let of_chunk = |chunk: AnyTensor| match *chunk.dims() {
            [_, tokens, features] => chunk.shaped(&[tokens, features]),
            _ => chunk,
        };
        chunks.into_iter().map(of_chunk).collect()
    });
    (!rows.is_empty()).then(|| AnyTensor::joined(rows).shaped(dims))
}
