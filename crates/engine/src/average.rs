//! The average of a model's weights over steps.

use oomph_config::sections::train::Ema;
use oomph_core::{Account, charge};
use oomph_kernels::averaged;
use oomph_model::{AnyTensor, Kernels, Named, Stages};

use crate::{layout::Layout, placeholder::placeholder};

/// An exponential moving average of the parameters and running statistics of a model (Polyak and Juditsky 1992).
///
/// After a step, each average a moves to its value v: a = d a + (1 − d) v, as PyTorch's
/// `get_ema_multi_avg_fn`. The first update copies the values. With warm-up the decay d of the update after n others is at
/// most (1 + n) / (10 + n), as in TensorFlow: early averages forget the randomly initialised model soon.
///
/// Running statistics are averaged as parameters are, as in timm's `ModelEma` and torchvision's training reference: the
/// statistics of the newest model are not those of averaged weights.
#[derive(Clone, Debug)]
pub struct WeightAverage {
    settings: Ema,
    updates: u64,
    /// The averages, where the parameters are. `None` before the first update.
    model: Option<Stages>,
}

impl WeightAverage {
    /// An average before its first update.
    pub fn new(settings: Ema) -> Self {
        Self { settings, updates: 0, model: None }
    }

    /// The averaged model; `None` before the first update.
    pub fn model(&self) -> Option<&Stages> {
        self.model.as_ref()
    }

    /// As [`model`](Self::model), to change it.
    pub fn model_mut(&mut self) -> Option<&mut Stages> {
        self.model.as_mut()
    }

    /// The number of updates so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Continues from the averaged `model`, which lies where the parameters do, after `updates` updates.
    pub fn restore(&mut self, model: Stages, updates: u64) {
        (self.model, self.updates) = (Some(model), updates);
    }

    /// Adds the weights after a step.
    pub(crate) fn update(&mut self, model: &Stages, layout: &Layout, kernels: Kernels) {
        let share = 1.0 - self.decay();
        let parts = layout.split(charge(Account::Host, || model.clone()));
        let averages: Vec<_> = match self.model.take() {
            Some(averages) => layout.split(averages).into_iter().map(Some).collect(),
            None => parts.iter().map(|_| None).collect(),
        };
        let slots = layout.owners().iter();
        let updated = slots.zip(parts).zip(averages).map(|((slot, part), averages)| {
            slot.run(|| match averages {
                Some(averages) => moved(averages, &part, share, kernels),
                None => copied(part),
            })
        });
        self.model = Some(Layout::joined(updated.collect()));
        self.updates += 1;
    }

    /// The decay of the next update.
    fn decay(&self) -> f64 {
        let Ema { decay, warmup } = self.settings;
        let updates = self.updates as f64;
        if warmup { decay.min((1.0 + updates) / (10.0 + updates)) } else { decay }
    }
}

/// Copies of all tensors.
fn copied(mut stages: Stages) -> Stages {
    // The planner sees the memory of a multiplication, and not that of a copy. A factor of 1 changes no bit.
    stages.map(&mut |info, tensor| tensor.clone().inner().scale(1.0).tracked_like(&tensor, info.trainable));
    stages
}

/// The averages after they moved to the values of `stages` by `share`.
fn moved(mut averages: Stages, stages: &Stages, share: f64, kernels: Kernels) -> Stages {
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

/// As [`moved`], with few launches on a GPU.
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

    fn averages(settings: Ema, split_points: &[usize], kernels: Kernels) -> Named<HostTensor> {
        let layout = layout(split_points);
        let mut average = WeightAverage::new(settings);
        assert!(average.model().is_none());
        for factor in [1.0, 3.0, -2.0] {
            average.update(&layout.placed(times(factor)), &layout, kernels);
        }
        assert_eq!(average.updates(), 3);
        record(average.model().expect("an average"))
    }

    fn is_close_to_model_times(record: &Named<HostTensor>, factor: f64) -> bool {
        let expected = self::record(&model());
        record.iter().all(|(name, tensor)| {
            let pairs = tensor.values.iter().zip(&expected[name].values);
            pairs.into_iter().all(|(one, other)| (f64::from(*one) - factor * f64::from(*other)).abs() < 1e-6)
        })
    }

    #[test]
    fn averages_move_to_the_values_by_one_minus_the_decay() {
        let settings = Ema { decay: 0.9, warmup: false };
        // PyTorch: 1, then 0.9 · 1 + 0.1 · 3, then 0.9 · 1.2 − 0.1 · 2.
        let expected = 0.88;
        let whole = averages(settings, &[], Kernels::Cpu);
        assert!(is_close_to_model_times(&whole, expected));
        assert!(is_close_to_model_times(&averages(settings, &[], Kernels::Composed), expected));
        for split_points in [&[1][..], &[1, 2]] {
            assert_eq!(averages(settings, split_points, Kernels::Cpu), whole);
        }
    }

    #[test]
    fn warm_up_forgets_the_first_model_soon() {
        // The decays are 2/11 and 3/12: 3 − 2 · 2/11, then a quarter of it − 2 · 3/4.
        let second = 3.0 - 2.0 * 2.0 / 11.0;
        let expected = second * 0.25 - 2.0 * 0.75;
        assert!(is_close_to_model_times(
            &averages(Ema { decay: 0.999, warmup: true }, &[], Kernels::Cpu),
            expected
        ));
    }

    #[test]
    fn an_average_shares_no_memory_with_the_model() {
        let (model, layout) = (model(), layout(&[]));
        let mut average = WeightAverage::new(Ema { decay: 0.5, warmup: false });
        average.update(&model, &layout, Kernels::Cpu);
        let first = record(&model);
        average.update(&times(2.0), &layout, Kernels::Cpu);
        assert_eq!(record(&model), first);
    }
}
