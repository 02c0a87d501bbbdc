use burn_flex::FlexTensor;

/// y ↦ (y − mean) · scale + shift, channel by channel.
pub(super) struct Affine<'a> {
    pub(super) mean: &'a [f32],
    pub(super) scale: &'a [f32],
    pub(super) shift: &'a [f32],
}

impl<'a> Affine<'a> {
    pub(super) fn of(vectors: &'a [FlexTensor]) -> Self {
        let [mean, scale, shift] = [0, 1, 2].map(|index: usize| vectors[index].storage());
        Self { mean, scale, shift }
    }

    #[inline]
    pub(super) fn of_channel(&self, channel: usize) -> impl Fn(f32) -> f32 + use<> {
        let (mean, scale, shift) = (self.mean[channel], self.scale[channel], self.shift[channel]);
        move |value| (value - mean) * scale + shift
    }

    #[inline]
    pub(super) fn apply(&self, channel: usize, block: &mut [f32]) {
        let affine = self.of_channel(channel);
        block.iter_mut().for_each(|value| *value = affine(*value));
    }

    #[inline]
    pub(super) fn add(&self, channel: usize, values: &[f32], block: &mut [f32]) {
        let affine = self.of_channel(channel);
        block.iter_mut().zip(values).for_each(|(sum, value)| *sum += affine(*value));
    }
}
