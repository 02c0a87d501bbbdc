//! The end of a step: overflow check, unscaling, clipping, the optimizer.

use oomph_core::{Account, charge, on_device};
use oomph_kernels::gradients::Factor;
use oomph_memory::record::track;
use oomph_model::{AnyTensor, Carried, Named, Stages};
use oomph_timeline::TrackKind;

use super::stepper::Stepper;
use crate::{
    EngineError,
    clip::clip_parts,
    gradients::{call_hook, scaled},
    layout::Layout,
    loss_scale,
    optimizer::Optimizer,
    part::STEP,
    ranks::{Bucket, ShardStep},
    watch,
};

impl Stepper {
    /// Ends a step with the gradients of each owner of parameters. `left` is the carried state after the step, `step`
    /// the number of the step from 0.
    ///
    /// Returns `false` if the gradients overflowed and the step is skipped.
    pub(super) fn finish(
        &mut self,
        gradients: Vec<Named<AnyTensor>>,
        left: Carried,
        step: usize,
        lr: f64,
    ) -> Result<bool, EngineError> {
        if let Some(watch) = &mut self.watch {
            for (slot, gradients) in self.layout.owners().iter().zip(&gradients) {
                on_device(slot.metered_as, || watch::gradients(watch.as_mut(), gradients));
            }
        }
        let preparing = self.executes.then(|| track(TrackKind::Step, STEP, None));
        let Some(mut gradients) = self.unscaled(gradients, step, lr)? else {
            self.add_to_average(step, true);
            return Ok(false);
        };
        if let Some(hook) = &self.gradient_hook {
            let mut kept = gradients.iter().filter(|gradients| !gradients.is_empty());
            kept.try_for_each(|gradients| call_hook(hook, gradients))?;
        }
        let (reads, kernels) = (self.executes, self.settings.policy.kernels);
        let sums = self.ranks.sums();
        self.norms.gradients(&gradients, kernels, sums.as_ref())?;
        gradients = match (self.settings.optimizer.clip, sums) {
            (Some(limit), Some(sums)) => {
                let bucket: Bucket = charge(Account::Host, || self.buckets[0].concat());
                let clipped = |gradients| sums.clip(gradients, &bucket, limit, kernels);
                gradients.into_iter().map(clipped).collect::<Result<_, _>>()?
            }
            (Some(limit), None) => {
                clip_parts(gradients, limit, self.layout.is_split(), kernels, |norm| read(norm, reads))?
            }
            (None, _) => gradients,
        };
        drop(preparing);
        self.optimize(gradients, lr)?;
        self.add_to_average(step, false);
        // A skipped step also keeps the old carried state: the overflow may have reached the new one.
        self.carried = self.carried.take().map(|_| left);
        Ok(true)
    }

    fn add_to_average(&mut self, step: usize, is_skipped: bool) {
        if let Some(average) = &mut self.average {
            average.stepped(step, is_skipped, &self.model, &self.layout, self.settings.policy.kernels);
        }
    }

    /// The gradients divided by the loss scale; `None` if they overflowed. Updates the loss scale for the next step.
    fn unscaled(
        &mut self,
        gradients: Vec<Named<AnyTensor>>,
        step: usize,
        lr: f64,
    ) -> Result<Option<Vec<Named<AnyTensor>>>, EngineError> {
        let Some(loss_scale) = &self.loss_scale else { return Ok(Some(gradients)) };
        let kernels = self.settings.policy.kernels;
        let check = |gradients| loss_scale::zero_if_finite(gradients, kernels);
        let checks: Vec<_> = gradients.iter().filter_map(check).collect();
        let scale = loss_scale.scale();
        let mut is_finite = true;
        for check in checks {
            is_finite &= read(check.into(), self.executes)?.is_finite();
        }
        if let Some(sums) = self.ranks.sums() {
            // The other ranks have other shards.
            is_finite = sums.of(f64::from(u8::from(!is_finite)))? == 0.0;
        }
        let Some(loss_scale) = &mut self.loss_scale else { return Ok(Some(gradients)) };
        if !is_finite {
            if loss_scale.overflowed() {
                return Ok(None);
            }
            return Err(EngineError::LossScale { step: step + 1, scale, lr });
        }
        loss_scale.succeeded();
        let unscaled = |gradients| scaled(gradients, Factor::Number(scale.recip()), kernels);
        Ok(Some(gradients.into_iter().map(unscaled).collect()))
    }

    /// Runs the optimizer on each device that has parameters.
    fn optimize(&mut self, gradients: Vec<Named<AnyTensor>>, lr: f64) -> Result<(), EngineError> {
        let model = std::mem::take(&mut self.model);
        let parts = self.layout.split(model);
        let slots = self.layout.owners().iter();
        let (optimizer, executes) = (&mut self.optimizer, self.executes);
        // Released gradients have taken their steps.
        let step = || if self.settings.releases { None } else { self.ranks.shard_step() };
        let mut stepped = Ok(());
        let done = slots.zip(parts).zip(gradients).map(|((slot, mut part), gradients)| {
            slot.run(|| {
                let _track = executes.then(|| track(TrackKind::Step, STEP, None));
                match step() {
                    Some(step) => {
                        stepped = sharded(step, optimizer, lr, &mut part, &self.buckets[0], gradients)
                    }
                    None => optimizer.step(lr, &mut part, gradients),
                }
            });
            part
        });
        let parts: Vec<_> = done.collect();
        let sums = self.ranks.sums().filter(|_| self.ranks.shard_step().is_none());
        let measured = self.norms.parameters(&parts, self.settings.policy.kernels, sums.as_ref());
        self.model = Layout::joined(parts);
        stepped?;
        measured
    }
}

/// Steps the shards of all buckets, in the order in which backward completed them.
fn sharded(
    mut step: ShardStep,
    optimizer: &mut Optimizer,
    lr: f64,
    model: &mut Stages,
    buckets: &[Bucket],
    mut gradients: Named<AnyTensor>,
) -> Result<(), EngineError> {
    for bucket in buckets.iter().rev() {
        let own = bucket.iter().filter_map(|(name, _)| gradients.remove_entry(name));
        let own = charge(Account::Host, || own.collect());
        step.step(optimizer, lr, model, bucket, own)?;
    }
    step.end(model)
}

/// Reads one element. A recorded tensor has no value: it counts as zero, which is finite.
fn read(tensor: AnyTensor, executes: bool) -> Result<f32, EngineError> {
    if !executes {
        return Ok(0.0);
    }
    Ok(tensor.to_host()?.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use oomph_config::{Clip, Config, Precision};
    use oomph_core::Key;
    use oomph_model::Policy;

    use super::*;
    use crate::{
        part::UndoMode,
        ranks::Replicas,
        record::{HostTensor, model_record},
        session::StepSplit,
        step::StepSettings,
        tests::{FEATURES, STAGES, device, layout, model},
    };

    fn stepper(split_points: &[usize], precision: Precision, clip: Option<Clip>) -> Stepper {
        let config = Config::from_toml("finish", "optimizer = { name = 'sgd', momentum = 0.9 }");
        let mut optimizer = config.expect("the settings are valid").optimizer;
        optimizer.clip = clip;
        let settings = StepSettings {
            policy: Policy { precision, ..Policy::default() },
            optimizer,
            average: None,
            split: StepSplit { micro_batch: 1, recompute: vec![false; STAGES.len()] },
            leading_frozen: 0,
            bucket_bytes: None,
            shard: None,
            releases: false,
            loss_chunk: None,
            offload: Default::default(),
            shares_statistics: false,
            is_continuous: true,
            undo: UndoMode::Copies,
            key: Key::new(0),
        };
        Stepper::new(settings, layout(split_points), model(), Replicas::alone())
    }

    /// A gradient for each parameter, one map per owner. `factor` multiplies all elements.
    fn gradients(stepper: &Stepper, factor: f32) -> Vec<Named<AnyTensor>> {
        let parts = stepper.layout.split(stepper.model.clone());
        let mut elements = 0;
        let of_part = |part: &oomph_model::Stages| {
            let mut gradients = Named::new();
            part.visit(&mut |info, tensor| {
                let values = (elements..elements + tensor.elements()).map(|it| (it as f32).sin() * factor);
                elements += tensor.elements();
                let gradient = AnyTensor::floats(values.collect(), &tensor.dims(), &device().inner());
                gradients.insert(info.name.to_owned(), gradient);
            });
            gradients
        };
        parts.iter().map(of_part).collect()
    }

    fn carried(value: f32) -> Carried {
        let state = AnyTensor::floats(vec![value; FEATURES], &[1, FEATURES], &device().inner());
        [("middle.state".to_owned(), state)].into_iter().collect()
    }

    fn values(carried: &Carried) -> Vec<HostTensor> {
        let tensors = carried.tensors().values();
        tensors.map(|tensor| HostTensor::from_tensor(tensor).expect("the CPU does not fail")).collect()
    }

    fn record(stepper: &Stepper) -> Named<HostTensor> {
        model_record(&stepper.model).expect("the CPU does not fail")
    }

    const LR: f64 = 0.1;

    #[test]
    fn a_skipped_step_changes_only_the_loss_scale() {
        for split_points in [&[][..], &[1], &[1, 2]] {
            let mut stepper = stepper(split_points, Precision::Fp16, Some(Clip::GlobalNorm(1.0)));
            let good = gradients(&stepper, 65_536.0);
            assert!(stepper.finish(good, carried(1.0), 0, LR).expect("the gradients are finite"));
            let parameters = record(&stepper);
            let state = stepper.optimizer.record().expect("the CPU does not fail");
            assert!(stepper.optimizer.has_state());

            let mut overflowed = gradients(&stepper, 65_536.0);
            let last = overflowed.last_mut().and_then(|part| part.values_mut().next()).expect("a gradient");
            *last = last.clone().scale(f32::INFINITY);
            assert!(!stepper.finish(overflowed, carried(2.0), 0, LR).expect("a smaller scale is left"));

            assert_eq!(record(&stepper), parameters, "split points {split_points:?}");
            assert_eq!(stepper.optimizer.record().expect("the CPU does not fail"), state);
            assert_eq!(stepper.carried.as_ref().map(values), Some(values(&carried(1.0))));
            let loss_scale = stepper.loss_scale.expect("fp16 has a loss scale");
            assert_eq!((loss_scale.scale(), loss_scale.skipped_steps()), (32_768.0, 1));
        }
    }

    #[test]
    fn gradients_are_divided_by_the_loss_scale() {
        let mut scaled = stepper(&[], Precision::Fp16, None);
        let mut plain = stepper(&[], Precision::Fp32, None);
        let (of_scaled, of_plain) = (gradients(&scaled, 65_536.0), gradients(&plain, 1.0));
        assert!(scaled.finish(of_scaled, Carried::new(), 0, LR).expect("the gradients are finite"));
        assert!(plain.finish(of_plain, Carried::new(), 0, LR).expect("the gradients are finite"));
        assert_eq!(record(&scaled), record(&plain));
    }

    #[test]
    fn norms_are_those_of_the_unscaled_gradients_before_clipping_on_any_split() {
        for split_points in [&[][..], &[1], &[1, 2]] {
            let mut stepper = stepper(split_points, Precision::Fp16, Some(Clip::GlobalNorm(0.1)));
            let elements = stepper.model.trainable_elements();
            let squares: f64 = (0..elements).map(|it| f64::from((it as f32).sin()).powi(2)).sum();
            let scaled = gradients(&stepper, 65_536.0);
            assert!(stepper.finish(scaled, carried(1.0), 0, LR).expect("the gradients are finite"));
            assert_eq!(stepper.norms(), None, "nobody asked for them");

            stepper.measure_norms(true);
            let scaled = gradients(&stepper, 65_536.0);
            assert!(stepper.finish(scaled, carried(1.0), 1, LR).expect("the gradients are finite"));
            let norms = stepper.norms().expect("norms");
            let close = |here: f64, there: f64| (here - there).abs() < 1e-6 * there;
            assert!(close(norms.gradient, squares.sqrt()), "{norms:?} instead of {}", squares.sqrt());
            let mut squares = 0.0;
            stepper.model.visit(&mut |info, tensor| {
                let values = tensor.to_host().expect("the CPU does not fail").into_iter();
                squares += values.filter(|_| info.trainable).map(|it| f64::from(it).powi(2)).sum::<f64>();
            });
            assert!(close(norms.parameter, squares.sqrt()), "{norms:?} instead of {}", squares.sqrt());

            let overflowed = gradients(&stepper, f32::INFINITY);
            stepper.norms.begin();
            assert!(!stepper.finish(overflowed, carried(2.0), 2, LR).expect("a smaller scale is left"));
            assert_eq!(stepper.norms(), None, "a skipped step has no norms");
        }
    }

    #[test]
    fn clipping_a_split_model_equals_clipping_the_whole() {
        let finished = |split_points: &[usize], clip| {
            let mut stepper = stepper(split_points, Precision::Fp32, clip);
            let gradients = gradients(&stepper, 1.0);
            assert!(stepper.finish(gradients, Carried::new(), 0, LR).expect("the gradients are finite"));
            record(&stepper)
        };
        let unclipped = finished(&[], None);
        for clip in [Clip::Value(0.05), Clip::Norm(0.1), Clip::GlobalNorm(0.1)] {
            let whole = finished(&[], Some(clip));
            assert_ne!(whole, unclipped, "{clip:?} changes the step");
            for split_points in [&[1][..], &[2], &[1, 2]] {
                let split = finished(split_points, Some(clip));
                assert!(whole.keys().eq(split.keys()));
                for (name, tensor) in &whole {
                    let pairs = tensor.values.iter().zip(&split[name].values);
                    let error = pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
                    assert!(error <= 1e-6, "{clip:?}, split points {split_points:?}, `{name}`: {error}");
                }
            }
        }
    }
}
