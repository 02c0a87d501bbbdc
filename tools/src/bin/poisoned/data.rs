//! Small images of random numbers, each a function of its index, with one sample that can be poisoned.

use std::sync::Arc;

use oomph::{
    ConfigError, DataError, Generator, InputSpec, Key, OpenContext, OpenSource, Sample, SampleError,
    SampleSpec, Section, Source, Split, Target, TargetSpec, Values,
};

use crate::poison::Poison;

/// Channels of an image.
pub(crate) const CHANNELS: usize = 4;
const SIZE: usize = 3;
const CLASSES: usize = 3;

/// Reads the data from `[data]`: `target`, `carry`, `train_samples`.
pub(crate) fn read(settings: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    let target = settings.choice("target", "values", &[("values", false), ("class", true)])?;
    let is_continuous = settings.boolean("carry", false)?;
    let train_samples = settings.integer("train_samples", 48, 1..=1_000_000)?;
    Ok(Box::new(Open { has_classes: target, is_continuous, train_samples }))
}

#[derive(Clone, Copy)]
struct Open {
    has_classes: bool,
    is_continuous: bool,
    train_samples: usize,
}

impl OpenSource for Open {
    fn open(&self, _: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        let spec = SampleSpec {
            input: InputSpec::Image { channels: CHANNELS, height: SIZE, width: SIZE },
            target: match self.has_classes {
                true => TargetSpec::Class { count: CLASSES },
                false => TargetSpec::Values { features: 2 },
            },
        };
        Ok(Arc::new(Images { settings: *self, spec }))
    }
}

struct Images {
    settings: Open,
    spec: SampleSpec,
}

impl Source for Images {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn len(&self, split: Split) -> usize {
        match split {
            Split::Train => self.settings.train_samples,
            Split::Test => 16,
        }
    }

    fn is_continuous(&self) -> bool {
        self.settings.is_continuous
    }

    fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        let mut random = Generator::at(Key::new(1).with_name(&split.to_string()).with(index as u64));
        let mut input: Vec<f32> = (0..self.spec.input.elements()).map(|_| random.normal()).collect();
        let mut values = vec![input[0] - input[1], input[2..9].iter().sum::<f32>() / 3.0];
        let class = index % CLASSES;
        if self.settings.has_classes {
            input[class] += 1.0;
        }
        // The rectifier of the CPU turns NaN into 0, so a held-out sample has the value in its target too.
        let (of_input, of_target) = match split {
            Split::Train => ("input", "target"),
            Split::Test => ("held-out", "held-out"),
        };
        if let Some(poison) = Poison::of_sample(of_input, index) {
            poison.put(&mut input);
        }
        if let Some(poison) = Poison::of_sample(of_target, index) {
            poison.put(&mut values);
        }
        let target = if self.settings.has_classes { Target::Class(class) } else { Target::Values(values) };
        Ok(Sample { input: Values::Floats(input), target })
    }
}
