use oomph_core::InputSpec;
use oomph_data::detect::Detected;
use oomph_memory::gpu::GpuMemory;

use crate::Facts;

/// What the user wants; the data decides the rest.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// `model.name`
    pub model: Option<String>,
    /// `data.size` of image files.
    pub size: Option<usize>,
    /// `train.epochs`
    pub epochs: Option<usize>,
    /// The GPU to train on; without one, the CPU of this machine.
    pub gpu: Option<GpuMemory>,
}

/// The settings that a config proposes, but for the batch.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The data.
    pub detected: Detected,
    /// What it says.
    pub facts: Facts,
    /// `model.name`
    pub model: String,
    /// The GPU to train on.
    pub gpu: Option<GpuMemory>,
    /// `data.size`; `None` where images have one size.
    pub(crate) size: Option<usize>,
    /// Whether all images are grey in files that could hold colours.
    pub(crate) is_grey: bool,
    /// Epochs as the user wants them.
    epochs: Option<usize>,
}

impl Proposal {
    /// The proposal for data with these facts and wishes.
    pub fn new(detected: Detected, facts: Facts, wishes: Wishes) -> Self {
        let Wishes { model, size, epochs, gpu } = wishes;
        let model = model.unwrap_or_else(|| facts.usual_model().to_owned());
        let stored = facts.images.as_ref().filter(|_| detected.source == "folder");
        let is_grey = stored.is_some_and(|images| images.by_channels.keys().all(|channels| *channels <= 2));
        let usual_size = stored.map(|images| size_of(images.most_frequent, gpu.is_some()));
        Self {
            size: usual_size.map(|usual| size.unwrap_or(usual)),
            is_grey,
            detected,
            facts,
            model,
            gpu,
            epochs,
        }
    }

    /// Whether samples are images.
    pub(crate) fn has_images(&self) -> bool {
        matches!(self.facts.spec.input, InputSpec::Image { .. })
    }

    /// The longer side of images.
    pub(crate) fn side(&self) -> usize {
        match (self.size, &self.facts.spec.input) {
            (Some(size), _) => size,
            (None, InputSpec::Image { height, width, .. }) => *height.max(width),
            (None, _) => 0,
        }
    }

    /// The input of the model, in words.
    pub fn input(&self) -> String {
        match (self.size, &self.facts.spec.input) {
            (Some(size), InputSpec::Image { .. }) => {
                let channels = if self.is_grey { 1 } else { 3 };
                InputSpec::Image { channels, height: size, width: size }.to_string()
            }
            (_, input) => input.to_string(),
        }
    }

    /// The largest batch to propose: with larger ones a small model needs another learning rate.
    pub(crate) fn largest_batch(&self) -> usize {
        let usual = if self.gpu.is_some() && self.has_images() { 256 } else { 64 };
        // Some steps in each epoch, also with few samples.
        usual.min((self.facts.train_samples / 8).max(2))
    }

    /// Epochs for about a thousand steps.
    pub(crate) fn epochs(&self, batch: usize) -> usize {
        let steps = self.facts.train_samples.div_ceil(batch.max(1)).max(1);
        self.epochs.unwrap_or_else(|| 1000usize.div_ceil(steps).clamp(10, 100))
    }
}

/// The side for images of this height and width: their shorter side, as a multiple of 32 if it is longer than that.
fn size_of([height, width]: [usize; 2], on_gpu: bool) -> usize {
    let most = if on_gpu { 224 } else { 128 };
    match height.min(width) {
        short @ ..=32 => short.max(8),
        short => (short / 32 * 32).min(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_that_of_the_images_within_bounds() {
        assert_eq!(size_of([28, 30], false), 28);
        assert_eq!(size_of([100, 75], false), 64);
        assert_eq!(size_of([3000, 4000], false), 128);
        assert_eq!(size_of([3000, 4000], true), 224);
        assert_eq!(size_of([4, 6], true), 8);
    }
}
