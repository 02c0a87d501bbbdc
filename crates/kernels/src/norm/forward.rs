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
        let channel = self.shape.channel(at);
        let normed = self.norm.of_channel(channel);
        block.iter_mut().for_each(|value| *value = normed(*value));
        if let Some(addend) = self.addend {
            let addend = addend.read(at..at + block.len(), beside);
            let both = block.iter_mut().zip(addend);
            match self.addend_norm.as_ref().map(|norm| norm.of_channel(channel)) {
                Some(normed) => both.for_each(|(value, addend)| *value += normed(*addend)),
                None => both.for_each(|(value, addend)| *value += addend),
            }
        }
        if self.rectify {
            block.iter_mut().for_each(|value| *value = value.max(0.0));
        }
    }
}
