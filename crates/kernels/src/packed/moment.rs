use burn::tensor::bf16;

use super::{
    codes::{decode, encode},
    format::{BLOCK, MomentKind, PackedFormat},
};

/// A packed moment in host memory, as checkpoints hold it.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredMoment {
    /// An element for each of the parameter.
    Bf16(Vec<bf16>),
    /// Codes and scales.
    Int8 {
        /// A code for each element of the parameter.
        codes: Vec<u8>,
        /// The scales of blocks of 128 codes; the last block may be shorter.
        scales: Vec<f32>,
    },
}

impl StoredMoment {
    /// The number of scales for so many codes.
    pub fn scales(codes: usize) -> usize {
        codes.div_ceil(BLOCK)
    }

    /// The moment of a parameter with so many `elements`, from the [words](PackedFormat::words) of its tensor.
    pub fn of_words(format: PackedFormat, words: &[u32], elements: usize) -> Self {
        match format {
            PackedFormat::Bf16 => {
                let halves = words.iter().flat_map(|word| [*word as u16, (*word >> 16) as u16]);
                Self::Bf16(halves.take(elements).map(bf16::from_bits).collect())
            }
            PackedFormat::Int8 => {
                let (codes, scales) = words.split_at(format.words_of_codes(elements));
                let codes = codes.iter().flat_map(|word| word.to_le_bytes()).take(elements).collect();
                Self::Int8 { codes, scales: scales.iter().map(|bits| f32::from_bits(*bits)).collect() }
            }
        }
    }

    /// The words of its tensor: the inverse of [`of_words`](Self::of_words).
    pub fn into_words(self) -> Vec<u32> {
        match self {
            Self::Bf16(values) => {
                let bits = |value: &bf16| u32::from(value.to_bits());
                let word = |pair: &[bf16]| bits(&pair[0]) | pair.get(1).map_or(0, bits) << 16;
                values.chunks(2).map(word).collect()
            }
            Self::Int8 { mut codes, scales } => {
                codes.resize(codes.len().div_ceil(BLOCK) * BLOCK, 0);
                let words = codes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
                words.chain(scales.iter().map(|scale| scale.to_bits())).collect()
            }
        }
    }

    /// A moment of 32-bit values in `format`; bf16 rounds to the nearest.
    pub fn of_values(format: PackedFormat, values: &[f32], kind: MomentKind) -> Self {
        match format {
            PackedFormat::Bf16 => Self::Bf16(values.iter().copied().map(bf16::from_f32).collect()),
            PackedFormat::Int8 => {
                let (mut codes, mut scales) = (Vec::with_capacity(values.len()), Vec::new());
                for values in values.chunks(BLOCK) {
                    let (mut block, mut coded) = ([0.0; BLOCK], [0; BLOCK]);
                    block[..values.len()].copy_from_slice(values);
                    scales.push(encode(kind, &block, &mut coded));
                    codes.extend_from_slice(&coded[..values.len()]);
                }
                Self::Int8 { codes, scales }
            }
        }
    }

    /// The moment in 32 bits.
    pub fn values(&self, kind: MomentKind) -> Vec<f32> {
        match self {
            Self::Bf16(values) => values.iter().map(|value| value.to_f32()).collect(),
            Self::Int8 { codes, scales } => {
                let mut values = Vec::with_capacity(codes.len());
                for (codes, scale) in codes.chunks(BLOCK).zip(scales) {
                    let (mut coded, mut block) = ([0; BLOCK], [0.0; BLOCK]);
                    coded[..codes.len()].copy_from_slice(codes);
                    decode(kind, &coded, *scale, &mut block);
                    values.extend_from_slice(&block[..codes.len()]);
                }
                values
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_was_stored() {
        for elements in [1, 2, 127, 128, 129, 1000] {
            let values: Vec<f32> = (0..elements).map(|at| (at as f32 * 0.7).sin()).collect();
            for format in [PackedFormat::Bf16, PackedFormat::Int8] {
                for kind in [MomentKind::Signed, MomentKind::Square] {
                    let values: Vec<f32> = match kind {
                        MomentKind::Signed => values.clone(),
                        MomentKind::Square => values.iter().map(|value| value * value).collect(),
                    };
                    let stored = StoredMoment::of_values(format, &values, kind);
                    let words = stored.clone().into_words();
                    assert_eq!(words.len(), format.words(elements), "{format:?} {elements}");
                    assert_eq!(StoredMoment::of_words(format, &words, elements), stored);
                    let found = stored.values(kind);
                    // What was rounded once stays.
                    assert_eq!(StoredMoment::of_values(format, &found, kind).values(kind).len(), elements);
                    for (found, value) in found.iter().zip(&values) {
                        assert!((found - value).abs() <= 0.01 * value.abs() + 0.008, "{found} {value}");
                    }
                }
            }
        }
    }
}
