use super::channel_rows::{Affine, ChannelRows};
use crate::{
    blocks::Change,
    stored_float::{Buffer, StoredFloats},
};

/// Normalises the input, and adds what there is to add.
pub(super) struct Normalised<'a> {
    pub(super) shape: ChannelRows,
    pub(super) norm: Affine<'a>,
    pub(super) addend: Option<StoredFloats<'a>>,
    /// The normalisation of the addend, if it has one.
    pub(super) addend_norm: Option<Affine<'a>>,
    pub(super) rectify: bool,
}

impl Change for Normalised<'_> {
    #[inline(always)]
    fn change(&self, at: usize, block: &mut [f32], beside: &mut Buffer) {
        match self.rectify {
            true => self.normalise::<true>(at, block, beside),
            false => self.normalise::<false>(at, block, beside),
        }
    }
}

impl Normalised<'_> {
    /// Normalises a block, adds, and rectifies, in one pass over it.
    #[inline(always)]
    fn normalise<const RECTIFY: bool>(&self, at: usize, block: &mut [f32], beside: &mut Buffer) {
        let channel = self.shape.channel(at);
        let normed = self.norm.of_channel(channel);
        let Some(addend) = self.addend else {
            for value in block {
                *value = rectified::<RECTIFY>(normed(*value));
            }
            return;
        };
        let addend = addend.read(at..at + block.len(), beside);
        match self.addend_norm.as_ref().map(|norm| norm.of_channel(channel)) {
            Some(other) => {
                for (value, addend) in block.iter_mut().zip(addend) {
                    *value = rectified::<RECTIFY>(normed(*value) + other(*addend));
                }
            }
            None => {
                for (value, addend) in block.iter_mut().zip(addend) {
                    *value = rectified::<RECTIFY>(normed(*value) + addend);
                }
            }
        }
    }
}

#[inline(always)]
fn rectified<const RECTIFY: bool>(value: f32) -> f32 {
    if RECTIFY { value.max(0.0) } else { value }
}
