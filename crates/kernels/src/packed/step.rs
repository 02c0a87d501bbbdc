//! The rules of the steps for one element, and the loop over blocks.

use super::{
    codes::{Codes, decode, encode},
    format::{BLOCK, MomentKind, PackedFormat, Values},
    halves,
};
use crate::{
    optimizer_step::{AdamFactors, SgdStep},
    simd::SimdLoops,
};

/// The step of one element. It has `M` moments.
pub(super) trait Update<const M: usize>: Copy + Sync {
    /// What the moments hold.
    const KINDS: [MomentKind; M];

    /// Moves the parameter, and gives its new moments.
    fn update(self, parameter: &mut f32, gradient: f32, moments: [f32; M]) -> [f32; M];
}

/// SGD with momentum. The first gradient enters it whole.
#[derive(Clone, Copy)]
pub(super) struct Sgd {
    pub(super) step: SgdStep,
    pub(super) share: f32,
}

impl Update<1> for Sgd {
    const KINDS: [MomentKind; 1] = [MomentKind::Signed];

    #[inline(always)]
    fn update(self, parameter: &mut f32, gradient: f32, [velocity]: [f32; 1]) -> [f32; 1] {
        let gradient = self.step.decayed(*parameter, gradient);
        let velocity = gradient * self.share + velocity * self.step.momentum;
        *parameter -= self.step.direction(gradient, velocity) * self.step.lr as f32;
        [velocity]
    }
}

/// Adam and AdamW.
#[derive(Clone, Copy)]
pub(super) struct Adam {
    pub(super) lr: f32,
    pub(super) betas: [f32; 2],
    pub(super) factors: AdamFactors,
}

impl Update<2> for Adam {
    const KINDS: [MomentKind; 2] = [MomentKind::Signed, MomentKind::Square];

    #[inline(always)]
    fn update(self, parameter: &mut f32, gradient: f32, [m, v]: [f32; 2]) -> [f32; 2] {
        self.factors.update(self.lr, self.betas, parameter, gradient, [m, v])
    }
}

/// Lion.
#[derive(Clone, Copy)]
pub(super) struct Lion {
    pub(super) lr: f32,
    pub(super) betas: [f32; 2],
    /// 1 − lr λ.
    pub(super) kept: f32,
}

impl Update<1> for Lion {
    const KINDS: [MomentKind; 1] = [MomentKind::Signed];

    #[inline(always)]
    fn update(self, parameter: &mut f32, gradient: f32, [momentum]: [f32; 1]) -> [f32; 1] {
        let [beta1, beta2] = self.betas;
        let direction = momentum * beta1 + gradient * (1.0 - beta1);
        // The sign of 0 is 0, unlike that of `signum`.
        let sign = if direction == 0.0 { 0.0 } else { direction.signum() };
        *parameter = *parameter * self.kept - sign * self.lr;
        [momentum * beta2 + gradient * (1.0 - beta2)]
    }
}

/// A part of a parameter and its moments, which begins with a block.
pub(super) struct Piece<'a, const M: usize> {
    /// The number of its first element.
    pub(super) first: usize,
    pub(super) parameter: &'a mut [f32],
    pub(super) gradient: &'a [f32],
    pub(super) moments: [MomentPiece<'a>; M],
}

/// A part of a moment's words.
pub(super) struct MomentPiece<'a> {
    pub(super) words: &'a mut [u32],
    /// Empty in bf16.
    pub(super) scales: &'a mut [u32],
}

/// The step of a piece. As a closure it would be too long for the compiler to inline it where wide vectors are enabled.
pub(super) struct Loops<'p, 'a, U, const M: usize> {
    pub(super) update: U,
    pub(super) format: PackedFormat,
    /// The number of the step.
    pub(super) time: u32,
    pub(super) piece: &'p mut Piece<'a, M>,
}

impl<const M: usize, U: Update<M>> SimdLoops for Loops<'_, '_, U, M> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        step(self.update, self.format, self.time, self.piece);
    }
}

#[inline(always)]
fn step<const M: usize, U: Update<M>>(update: U, format: PackedFormat, time: u32, piece: &mut Piece<'_, M>) {
    let Piece { first, parameter, gradient, moments } = piece;
    let blocks = parameter.chunks_mut(BLOCK).zip(gradient.chunks(BLOCK));
    for (block, (parameter, gradient)) in blocks.enumerate() {
        let mut values = [[0.0; BLOCK]; M];
        for ((moment, values), kind) in moments.iter().zip(&mut values).zip(U::KINDS) {
            load(format, kind, moment, block, values);
        }
        match (parameter.as_mut_array(), gradient.as_array()) {
            (Some(parameter), Some(gradient)) => update_block(update, parameter, gradient, &mut values),
            // The last block may be shorter.
            _ => {
                let (mut whole, mut gradients) = ([0.0; BLOCK], [0.0; BLOCK]);
                whole[..parameter.len()].copy_from_slice(parameter);
                gradients[..gradient.len()].copy_from_slice(gradient);
                update_block(update, &mut whole, &gradients, &mut values);
                parameter.copy_from_slice(&whole[..parameter.len()]);
            }
        }
        let element = |at: usize| (*first + block * BLOCK + at) as u32;
        let noise = match format {
            PackedFormat::Bf16 => std::array::from_fn(|at| halves::noise(element(at), time)),
            PackedFormat::Int8 => [0; BLOCK],
        };
        for (index, ((moment, values), kind)) in moments.iter_mut().zip(&values).zip(U::KINDS).enumerate() {
            match format {
                PackedFormat::Bf16 => {
                    halves::store(values, &noise, 16 * index as u32, of_block(moment.words, block))
                }
                PackedFormat::Int8 => store(kind, values, moment, block),
            }
        }
    }
}

/// Takes the step of a block. All lengths are constant, so that the loop becomes vectors.
#[inline(always)]
fn update_block<const M: usize, U: Update<M>>(
    update: U,
    parameter: &mut Values,
    gradient: &Values,
    values: &mut [Values; M],
) {
    for at in 0..BLOCK {
        let before = std::array::from_fn(|moment| values[moment][at]);
        let after = update.update(&mut parameter[at], gradient[at], before);
        for moment in 0..M {
            values[moment][at] = after[moment];
        }
    }
}

/// The words of a block: at the end of a moment in bf16 there may be fewer.
#[inline(always)]
fn of_block(words: &mut [u32], block: usize) -> &mut [u32] {
    let begin = block * (BLOCK / 2);
    let end = words.len().min(begin + BLOCK / 2);
    &mut words[begin..end]
}

#[inline(always)]
fn load(format: PackedFormat, kind: MomentKind, moment: &MomentPiece<'_>, block: usize, values: &mut Values) {
    match format {
        PackedFormat::Bf16 => {
            let begin = block * (BLOCK / 2);
            halves::load(&moment.words[begin..moment.words.len().min(begin + BLOCK / 2)], values);
        }
        PackedFormat::Int8 => {
            let mut codes: Codes = [0; BLOCK];
            let words = &moment.words[block * (BLOCK / 4)..][..BLOCK / 4];
            for (bytes, word) in codes.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            decode(kind, &codes, f32::from_bits(moment.scales[block]), values);
        }
    }
}

#[inline(always)]
fn store(kind: MomentKind, values: &Values, moment: &mut MomentPiece<'_>, block: usize) {
    let mut codes: Codes = [0; BLOCK];
    moment.scales[block] = encode(kind, values, &mut codes).to_bits();
    let words = &mut moment.words[block * (BLOCK / 4)..][..BLOCK / 4];
    for (word, bytes) in words.iter_mut().zip(codes.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
}
