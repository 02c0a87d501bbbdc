use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use oomph_core::{InputSpec, Key, SampleSpec, Split, TargetSpec};

use crate::{
    Batch, DataError, OnCorrupt, Sample, SampleError, Source, Target, Targets, Values,
    sample_order::EpochOrder,
};

/// Makes any batch of one epoch, in any thread.
pub(super) struct Assembler {
    pub(super) source: Arc<dyn Source>,
    pub(super) spec: SampleSpec,
    pub(super) split: Split,
    pub(super) order: EpochOrder,
    /// The key of (seed, epoch), if samples are augmented.
    pub(super) augment: Option<Key>,
    pub(super) on_corrupt: OnCorrupt,
}

impl Assembler {
    pub(super) fn batches(&self) -> usize {
        self.order.batches()
    }

    /// The batch at `position`; `None` if `stopped` becomes true.
    pub(super) fn batch(
        &self,
        position: usize,
        stopped: impl Fn() -> bool,
    ) -> Option<Result<Batch, DataError>> {
        let indices = self.order.indices(position);
        let room = indices.len() * self.spec.input.elements();
        let mut input = match self.spec.input {
            InputSpec::Tokens { .. } => Values::Tokens(Vec::with_capacity(room)),
            InputSpec::Image { .. } | InputSpec::Sequence { .. } | InputSpec::Vector { .. } => {
                Values::Floats(Vec::with_capacity(room))
            }
        };
        let mut targets = Targets::with_capacity(&self.spec.target, indices.len());
        let (mut size, mut skipped) = (0, Vec::new());
        let first_place = self.order.first_place(position);
        for (place, index) in indices.into_iter().enumerate() {
            if stopped() {
                return None;
            }
            match self.sample(index, first_place.map(|first| first + place)) {
                Ok(Ok(sample)) => {
                    if let Err(error) = self.push(index, sample, &mut input, &mut targets) {
                        return Some(Err(error));
                    }
                    size += 1;
                }
                Ok(Err(error)) if self.on_corrupt == OnCorrupt::Skip => skipped.push(error),
                Ok(Err(error)) => return Some(Err(error.into())),
                Err(error) => return Some(Err(error)),
            }
        }
        let shape = [vec![size], self.spec.input.shape()].concat();
        let continues = self.order.continues(position);
        Some(Ok(Batch { input, shape, targets, size, position, continues, skipped }))
    }

    /// One sample of the source, at a `place` of the epoch if it can occur several times. The outer error is a panic of the source, the inner one an unreadable sample.
    fn sample(&self, index: usize, place: Option<usize>) -> Result<Result<Sample, SampleError>, DataError> {
        let of_sample = self.augment.map(|key| key.with(index as u64));
        // Each occurrence of a sample is augmented differently.
        let augment = of_sample.map(|key| place.map_or(key, |place| key.with(place as u64)));
        catch_unwind(AssertUnwindSafe(|| self.source.sample(self.split, index, augment)))
            .map_err(|panic| DataError::Panicked { sample: self.name(index), message: message(&*panic) })
    }

    /// Checks a sample and adds it to the batch.
    fn push(
        &self,
        index: usize,
        sample: Sample,
        input: &mut Values,
        targets: &mut Targets,
    ) -> Result<(), DataError> {
        let wrong_input = |found| DataError::WrongInput {
            sample: self.name(index),
            found,
            expected: self.spec.input.clone(),
        };
        let elements = self.spec.input.elements();
        match (input, sample.input) {
            (Values::Floats(all), Values::Floats(one)) if one.len() == elements => all.extend(one),
            (Values::Tokens(all), Values::Tokens(one)) if one.len() == elements => {
                if let InputSpec::Tokens { vocabulary, .. } = self.spec.input {
                    self.check_tokens(index, &one, vocabulary)?;
                }
                all.extend(one);
            }
            (_, Values::Floats(one)) => return Err(wrong_input(format!("{} floats", one.len()))),
            (_, Values::Tokens(one)) => return Err(wrong_input(format!("{} tokens", one.len()))),
        }
        match (&self.spec.target, &sample.target) {
            (TargetSpec::Class { count }, &Target::Class(class)) if class >= *count => {
                return Err(DataError::LabelOutOfRange { sample: self.name(index), class, count: *count });
            }
            (TargetSpec::Tokens { vocabulary, .. }, Target::Tokens(tokens)) => {
                self.check_tokens(index, tokens, *vocabulary)?;
            }
            _ => {}
        }
        targets.push(sample.target).map_err(|target| DataError::WrongTarget {
            sample: self.name(index),
            found: match target {
                Target::Class(class) => format!("class {class}"),
                Target::Values(values) => format!("{} values", values.len()),
                Target::Tokens(tokens) => format!("{} tokens", tokens.len()),
            },
            expected: self.spec.target.clone(),
        })
    }

    fn check_tokens(&self, index: usize, tokens: &[i32], vocabulary: usize) -> Result<(), DataError> {
        match tokens.iter().find(|&&token| usize::try_from(token).map_or(true, |token| token >= vocabulary)) {
            Some(&token) => Err(DataError::TokenOutOfRange { sample: self.name(index), token, vocabulary }),
            None => Ok(()),
        }
    }

    /// The name of the sample, even if the source panics here too.
    fn name(&self, index: usize) -> String {
        catch_unwind(AssertUnwindSafe(|| self.source.sample_name(self.split, index)))
            .unwrap_or_else(|_| format!("{} sample {index}", self.split))
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        (None, None) => "(no message)".to_owned(),
    }
}
