use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use oomph_core::{InputSpec, Key, SampleSpec, Split, TargetSpec};

use crate::{
    Batch, DataError, OnCorrupt, Sample, SampleError, Source, Target, Targets, Values,
    batch::Samples,
    mix::Mix,
    sample_order::{EpochOrder, Visit},
};

/// Makes any batch of one epoch, in any thread.
pub(super) struct Assembler {
    pub(super) source: Arc<dyn Source>,
    pub(super) spec: SampleSpec,
    pub(super) split: Split,
    pub(super) order: EpochOrder,
    /// The key of (seed, epoch), if samples are augmented.
    pub(super) augment: Option<Key>,
    pub(super) mix: Mix,
    /// The key of (seed, epoch), if batches may be mixed.
    pub(super) mix_key: Option<Key>,
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
        self.assemble(position, stopped).transpose()
    }

    fn assemble(&self, position: usize, stopped: impl Fn() -> bool) -> Result<Option<Batch>, DataError> {
        let mix = self.mix_key.and_then(|key| self.mix.draw(&self.spec.input, key.with(position as u64)));
        let before_first = match mix {
            Some(_) => self.before_first(position)?,
            None => None,
        };
        let visits: Vec<_> = self.order.visits(position).collect();
        let mut samples = self.no_samples(visits.len());
        // Of each sample that is read: whether the one before it in the batch is.
        let mut follows = Vec::with_capacity(visits.len());
        let (mut is_before_read, mut skipped) = (before_first.is_some(), Vec::new());
        for visit in visits {
            if stopped() {
                return Ok(None);
            }
            let error = self.add(visit, &mut samples)?;
            if error.is_none() {
                follows.push(is_before_read);
            }
            is_before_read = error.is_none();
            skipped.extend(error);
        }
        let size = follows.len();
        if let Some(mix) = mix {
            samples = mix.apply(samples, before_first, &follows);
        }
        let Samples { input, targets } = samples;
        let shape = [vec![size], self.spec.input.shape()].concat();
        let continues = self.order.continues(position);
        Ok(Some(Batch { input, shape, targets, size, position, continues, skipped }))
    }

    /// The sample before the first one of this rank in the whole batch; `None` if it cannot be read. The rank that has it
    /// reports it.
    fn before_first(&self, position: usize) -> Result<Option<Samples>, DataError> {
        let Some(visit) = self.order.before_first(position) else { return Ok(None) };
        let mut sample = self.no_samples(1);
        Ok(self.add(visit, &mut sample)?.is_none().then_some(sample))
    }

    /// No samples, with capacity for `count`.
    fn no_samples(&self, count: usize) -> Samples {
        let room = count * self.spec.input.elements();
        let input = match self.spec.input {
            InputSpec::Tokens { .. } => Values::Tokens(Vec::with_capacity(room)),
            InputSpec::Image { .. } | InputSpec::Sequence { .. } | InputSpec::Vector { .. } => {
                Values::Floats(Vec::with_capacity(room))
            }
        };
        Samples { input, targets: Targets::with_capacity(&self.spec.target, count) }
    }

    /// Reads a sample and adds it. The result is the error of a sample that is skipped.
    fn add(&self, visit: Visit, samples: &mut Samples) -> Result<Option<SampleError>, DataError> {
        match self.sample(visit)? {
            Ok(sample) => self.push(visit.index, sample, samples).map(|()| None),
            Err(error) if self.on_corrupt == OnCorrupt::Skip => Ok(Some(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// One sample of the source. The outer error is a panic of the source, the inner one an unreadable sample.
    fn sample(&self, visit: Visit) -> Result<Result<Sample, SampleError>, DataError> {
        let Visit { index, occurrence } = visit;
        let sample = || {
            let Some(epoch) = self.augment else { return self.source.sample(self.split, index, None) };
            let of_sample = epoch.with(index as u64);
            // Each occurrence of a sample is augmented differently.
            let augment = occurrence.map_or(of_sample, |place| of_sample.with(place as u64));
            self.source.sample_in_epoch(self.split, index, epoch, augment)
        };
        catch_unwind(AssertUnwindSafe(sample))
            .map_err(|panic| DataError::Panicked { sample: self.name(index), message: message(&*panic) })
    }

    /// Checks a sample and adds it to others.
    fn push(&self, index: usize, sample: Sample, samples: &mut Samples) -> Result<(), DataError> {
        let Samples { input, targets } = samples;
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
            (TargetSpec::Labels { count }, Target::Labels(labels)) => {
                if let Some(&class) = labels.iter().find(|label| *label >= count) {
                    return Err(DataError::LabelOutOfRange {
                        sample: self.name(index),
                        class,
                        count: *count,
                    });
                }
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
                Target::Labels(labels) => format!("{} labels", labels.len()),
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
