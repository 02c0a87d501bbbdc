/// Elements with one scale.
pub(super) const BLOCK: usize = 128;

/// The values of a block.
pub(super) type Values = [f32; BLOCK];

/// What a moment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentKind {
    /// A mean of gradients.
    Signed,
    /// A mean of their squares.
    Square,
}

/// How moments are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PackedFormat {
    /// 16 bits with the exponent of 32, rounded stochastically: the mean of what is stored is what was computed. The random
    /// bits depend on the element and the step alone.
    Bf16,
    /// 8 bits, with a scale of 32 bits for each 128 elements: block-wise dynamic quantisation (Dettmers et al. 2022,
    /// <https://arxiv.org/abs/2110.02861>). Of a mean of squares the root is stored.
    Int8,
}

impl PackedFormat {
    /// Words of 32 bits of a moment with so many elements.
    pub fn words(self, elements: usize) -> usize {
        match self {
            Self::Bf16 => self.words_of_codes(elements),
            Self::Int8 => self.words_of_codes(elements) + elements.div_ceil(BLOCK),
        }
    }

    /// The words before the scales.
    pub(super) const fn words_of_codes(self, elements: usize) -> usize {
        match self {
            Self::Bf16 => elements.div_ceil(2),
            Self::Int8 => elements.div_ceil(BLOCK) * (BLOCK / 4),
        }
    }
}
