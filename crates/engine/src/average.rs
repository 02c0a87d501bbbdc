//! The average of a model's weights over steps.

use oomph_config::sections::averaging::{Averaging, Ema};
use oomph_core::{Account, charge};
use oomph_kernels::averaged;
use oomph_model::{AnyTensor, Kernels, Named, Stages};

use crate::{
    layout::Layout,
    optimizer::placeholder,
    session::{Session, steps, steps_per_epoch},
};

/// When a step moves the averages, and by how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AverageRule {
    /// After every step, a = d a + (1 − d) v, as PyTorch's `get_ema_multi_avg_fn`. With warm-up the decay d of the update
    /// after n others is at most (1 + n) / (10 + n), as in TensorFlow: early averages forget the randomly initialised model
    /// soon.
    Ema(Ema),
    /// At the end of each interval after the step `first`, a = a + (v − a) / (n + 1) after n others: the mean, as PyTorch's
    /// `get_swa_multi_avg_fn`.
    Swa {
        /// The steps before averaging begins.
        first: usize,
        /// The steps of an interval. Intervals count from the start of the training.
        every: usize,
    },
}

impl AverageRule {
    /// The rule of a session's training; `None` if it keeps no average.
    pub fn of(session: &Session) -> Option<Self> {
        Some(match session.config.train.average? {
            Averaging::Ema(ema) => Self::Ema(ema),
            Averaging::Swa(swa) => Self::Swa {
                first: swa.first_step(steps(session)),
                every: swa.interval_steps(steps_per_epoch(session)),
            },
        })
    }

    /// The rule of a plan, whose few steps all move the averages.
    pub(crate) fn at_every_step(self) -> Self {
        match self {
            Self::Ema(_) => self,
            Self::Swa { .. } => Self::Swa { first: 0, every: 1 },
        }
    }

    /// Whether step `step`, counted from 0, moves the averages. A skipped step left the weights as they were.
    fn moves(self, step: usize, is_skipped: bool) -> bool {
        match self {
            Self::Ema(_) => !is_skipped,
            Self::Swa { first, every } => step + 1 > first && (step + 1).is_multiple_of(every),
        }
    }

    /// The share of the way to its value that an average moves, after `updates` others.
    fn share(self, updates: u64) -> f64 {
        let updates = updates as f64;
        match self {
            Self::Ema(Ema { decay, warmup: true }) => 1.0 - decay.min((1.0 + updates) / (10.0 + updates)),
            Self::Ema(Ema { decay, warmup: false }) => 1.0 - decay,
            Self::Swa { .. } => 1.0 / (updates + 1.0),
        }
    }
}

/// An average of the parameters and running statistics of a model over steps (Polyak and Juditsky 1992; Izmailov et al. 2018,
/// <https://arxiv.org/abs/1803.05407>).
///
/// The first update copies the values; each later one moves every average to its value by the share of the [`AverageRule`].
///
/// Running statistics are averaged as parameters are, as in timm's `ModelEma` and by PyTorch's `AveragedModel` with
/// `use_buffers`: the statistics of the newest model are not those of averaged weights.
///
/// The memory is taken in the first step, though SWA begins late: a training that fits in its first steps fits to its end.
#[derive(Clone, Debug)]
pub struct WeightAverage {
    rule: AverageRule,
    updates: u64,
    /// The averages, where the parameters are; values without a meaning before the first update. `None` before the first step.
    held: Option<Stages>,
}

impl WeightAverage {
    /// An average before its first update.
    pub fn new(rule: AverageRule) -> Self {
        Self { rule, updates: 0, held: None }
    }

    /// The averaged model; `None` before the first update.
    pub fn model(&self) -> Option<&Stages> {
        self.held.as_ref().filter(|_| self.updates > 0)
    }

    /// As [`model`](Self::model), to change it.
    pub fn model_mut(&mut self) -> Option<&mut Stages> {
        self.held.as_mut().filter(|_| self.updates > 0)
    }

    /// What takes memory: the averaged model, or its place before the first update.
    pub(crate) fn held(&self) -> Option<&Stages> {
        self.held.as_ref()
    }

    /// The number of updates so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Continues from the averaged `model`, which lies where the parameters do, after `updates` updates.
    pub fn restore(&mut self, model: Stages, updates: u64) {
        (self.held, self.updates) = (Some(model), updates);
    }

    /// Adds the weights after step `step`, counted from 0, if the rule says so.
    pub(crate) fn stepped(
        &mut self,
        step: usize,
        is_skipped: bool,
        model: &Stages,
        layout: &Layout,
        kernels: Kernels,
    ) {
        let moves = self.rule.moves(step, is_skipped);
        if moves && self.updates > 0 {
            self.move_to(model, layout, kernels);
        } else if moves || self.held.is_none() {
            // The place is free before it is taken again.
            self.held = None;
            self.held = Some(copy(model, layout));
        }
        self.updates += u64::from(moves);
    }

    /// Moves the averages to the values of `model`.
    fn move_to(&mut self, model: &Stages, layout: &Layout, kernels: Kernels) {
        let share = self.rule.share(self.updates);
        let Some(averages) = self.held.take() else { return };
        let parts = layout.split(charge(Account::Host, || model.clone()));
        let slots = layout.owners().iter();
        let moved = slots.zip(parts).zip(layout.split(averages));
        let moved =
            moved.map(|((slot, part), averages)| slot.run(move || moved_to(averages, &part, share, kernels)));
        self.held = Some(Layout::joined(moved.collect()));
    }
}

/// Copies of all tensors, each on its device.
fn copy(model: &Stages, layout: &Layout) -> Stages {
    let parts = layout.split(charge(Account::Host, || model.clone()));
    let copies = layout.owners().iter().zip(parts).map(|(slot, part)| slot.run(|| copied(part)));
    Layout::joined(copies.collect())
}

/// Copies of all tensors.
fn copied(mut stages: Stages) -> Stages {
    // The planner sees the memory of a multiplication, and not that of a copy. A factor of 1 changes no bit.
    stages.map(&mut |info, tensor| tensor.clone().inner().scale(1.0).tracked_like(&tensor, info.trainable));
    stages
}

/// The averages after they moved to the values of `stages` by `share`.
fn moved_to(mut averages: Stages, stages: &Stages, share: f64, kernels: Kernels) -> Stages {
    let mut values = charge(Account::Host, || values(stages));
    if kernels == Kernels::Gpu {
        // A GPU's memory is not this process's: all that is allocated here is host memory.
        return charge(Account::Host, || moved_together(averages, values, share));
    }
    averages.map(&mut |info, average| {
        let Some(value) = values.remove(info.name) else { return average };
        let strategy = average.device().gradient_checkpointing_strategy();
        let pair = charge(Account::Host, || vec![(average.inner(), value)]);
        // One pair gives one average.
        let average = averaged(pair, share, kernels).pop().expect("an average for each pair");
        average.tracked_as(info.trainable, strategy)
    });
    averages
}

/// As [`moved_to`], with few launches on a GPU.
fn moved_together(mut averages: Stages, mut values: Named<AnyTensor>, share: f64) -> Stages {
    let (mut devices, mut pairs) = (Named::new(), Vec::new());
    averages.map(&mut |info, average| {
        let Some(value) = values.remove(info.name) else { return average };
        let placeholder = placeholder(average.rank()).tracked(info.trainable);
        devices.insert(info.name.to_owned(), average.device());
        pairs.push((average.inner(), value));
        placeholder
    });
    let mut moved = averaged(pairs, share, Kernels::Gpu).into_iter();
    averages.map(&mut |info, average| {
        // The same walk: the averages come in the same order.
        let Some(device) = devices.remove(info.name) else { return average };
        let strategy = device.gradient_checkpointing_strategy();
        moved.next().map_or(average, |moved| moved.tracked_as(info.trainable, strategy))
    });
    averages
}

/// The tensors of a model off the graph, by name. They share their storage with the model.
fn values(stages: &Stages) -> Named<AnyTensor> {
    let mut values = Named::new();
    stages.visit(&mut |info, tensor| drop(values.insert(info.name.to_owned(), tensor.inner())));
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{HostTensor, model_record},
        tests::{layout, model},
    };

    fn record(stages: &Stages) -> Named<HostTensor> {
        model_record(stages).expect("the CPU does not fail")
    }

    /// The model with every element times `factor`.
    fn times(factor: f32) -> Stages {
        let mut model = model();
        model.map(&mut |info, tensor| {
            tensor.clone().inner().scale(factor).tracked_like(&tensor, info.trainable)
        });
        model
    }

    /// The record after steps with these factors.
    fn averages(
        rule: AverageRule,
        factors: &[f32],
        split_points: &[usize],
        kernels: Kernels,
    ) -> Named<HostTensor> {
        let layout = layout(split_points);
        let mut average = WeightAverage::new(rule);
        assert!(average.model().is_none());
        for (step, factor) in factors.iter().enumerate() {
            average.stepped(step, false, &layout.placed(times(*factor)), &layout, kernels);
        }
        record(average.model().expect("an average"))
    }

    fn is_close_to_model_times(record: &Named<HostTensor>, factor: f64) -> bool {
        let expected = self::record(&model());
        record.iter().all(|(name, tensor)| {
            let pairs = tensor.values.iter().zip(&expected[name].values);
            pairs.into_iter().all(|(one, other)| (f64::from(*one) - factor * f64::from(*other)).abs() < 1e-6)
        })
    }

    /// The averages are those of the model times `factor`, on any split and by both kinds of kernels.
    fn check(rule: AverageRule, factors: &[f32], factor: f64) {
        let whole = averages(rule, factors, &[], Kernels::Cpu);
        assert!(is_close_to_model_times(&whole, factor), "{rule:?}");
        assert!(is_close_to_model_times(&averages(rule, factors, &[], Kernels::Composed), factor));
        for split_points in [&[1][..], &[1, 2]] {
            assert_eq!(averages(rule, factors, split_points, Kernels::Cpu), whole);
        }
    }

    #[test]
    fn averages_move_to_the_values_by_one_minus_the_decay() {
        // PyTorch: 1, then 0.9 · 1 + 0.1 · 3, then 0.9 · 1.2 − 0.1 · 2.
        check(AverageRule::Ema(Ema { decay: 0.9, warmup: false }), &[1.0, 3.0, -2.0], 0.88);
    }

    #[test]
    fn warm_up_forgets_the_first_model_soon() {
        // The decays are 2/11 and 3/12: 3 − 2 · 2/11, then a quarter of it − 2 · 3/4.
        let second = 3.0 - 2.0 * 2.0 / 11.0;
        let expected = second * 0.25 - 2.0 * 0.75;
        check(AverageRule::Ema(Ema { decay: 0.999, warmup: true }), &[1.0, 3.0, -2.0], expected);
    }

    #[test]
    fn swa_is_the_mean_of_the_ends_of_intervals_after_its_first_step() {
        let factors = [9.0, 8.0, 7.0, 1.0, 6.0, 3.0, 5.0, -2.0];
        // The ends of intervals of two steps are the second, fourth, sixth and eighth step.
        check(AverageRule::Swa { first: 0, every: 2 }, &factors, (8.0 + 1.0 + 3.0 - 2.0) / 4.0);
        check(AverageRule::Swa { first: 2, every: 2 }, &factors, (1.0 + 3.0 - 2.0) / 3.0);
        check(AverageRule::Swa { first: 7, every: 1 }, &factors, -2.0);
    }

    #[test]
    fn swa_takes_its_memory_at_once_and_is_no_average_before_it_begins() {
        let (model, layout) = (model(), layout(&[]));
        let mut average = WeightAverage::new(AverageRule::Swa { first: 1, every: 1 });
        average.stepped(0, false, &model, &layout, Kernels::Cpu);
        assert!(average.held().is_some() && average.model().is_none() && average.model_mut().is_none());
        // A skipped step left the weights as they were, and its interval ends all the same.
        average.stepped(1, true, &times(2.0), &layout, Kernels::Cpu);
        assert!(is_close_to_model_times(&record(average.model().expect("an average")), 2.0));
    }

    #[test]
    fn an_exponential_average_knows_nothing_of_skipped_steps() {
        let (model, layout) = (model(), layout(&[]));
        let mut average = WeightAverage::new(AverageRule::Ema(Ema { decay: 0.5, warmup: false }));
        average.stepped(0, true, &times(3.0), &layout, Kernels::Cpu);
        assert!(average.model().is_none());
        average.stepped(1, false, &model, &layout, Kernels::Cpu);
        average.stepped(2, true, &times(3.0), &layout, Kernels::Cpu);
        assert_eq!((average.updates(), record(average.model().expect("an average"))), (1, record(&model)));
    }

    #[test]
    fn an_average_shares_no_memory_with_the_model() {
        let (model, layout) = (model(), layout(&[]));
        let mut average = WeightAverage::new(AverageRule::Ema(Ema { decay: 0.5, warmup: false }));
        average.stepped(0, false, &model, &layout, Kernels::Cpu);
        let first = record(&model);
        average.stepped(1, false, &times(2.0), &layout, Kernels::Cpu);
        assert_eq!(record(&model), first);
    }
}
