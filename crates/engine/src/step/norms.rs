//! The norms of a step, for the log.

use oomph_core::{Account, charge};
use oomph_kernels::gradients::read_sum_of_squares;
use oomph_model::{AnyTensor, DeviceError, Kernels, Named, Stages};

use crate::{EngineError, gradients::listed, ranks::ShardSums};

/// L2 norms of a step. Each is that of all tensors of all devices as one vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norms {
    /// The norm of the gradients, unscaled and before clipping.
    pub gradient: f64,
    /// The norm of the trained parameters after the step.
    pub parameter: f64,
}

/// Measures the norms of steps, if it is on.
#[derive(Debug, Default)]
pub(super) struct NormMeter {
    is_on: bool,
    /// The sum of the squares of all gradients so far.
    squares: Option<f64>,
    parameter: Option<f64>,
}

impl NormMeter {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Turns it on or off.
    pub(super) fn turn(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    /// Forgets the norms of the step before.
    pub(super) fn begin(&mut self) {
        *self = Self::new(self.is_on);
    }

    /// Where the squares of released gradients are added up; `None` if nothing is measured.
    pub(super) fn squares(&self) -> Option<f64> {
        self.is_on.then_some(0.0)
    }

    /// Adds the squares of gradients that were released.
    pub(super) fn add(&mut self, squares: f64) {
        *self.squares.get_or_insert(0.0) += squares;
    }

    /// Measures the gradients of all owners of parameters that were not released. Those of shards are summed over ranks by `sums`.
    pub(super) fn gradients(
        &mut self,
        gradients: &[Named<AnyTensor>],
        kernels: Kernels,
        sums: Option<&ShardSums>,
    ) -> Result<(), EngineError> {
        if self.is_on {
            let squares = gradients.iter().map(|part| read_sum_of_squares(&listed(part), kernels));
            let squares = squares.sum::<Result<f64, DeviceError>>()?;
            self.add(sums.map_or(Ok(squares), |sums| sums.of(squares))?);
        }
        Ok(())
    }

    /// Measures the trained parameters in `parts`, those of each owner. Those of shards are summed over ranks by `sums`.
    pub(super) fn parameters(
        &mut self,
        parts: &[Stages],
        kernels: Kernels,
        sums: Option<&ShardSums>,
    ) -> Result<(), EngineError> {
        if self.is_on {
            let squares = parts.iter().map(|part| {
                let tensors = trained(part);
                let listed: Vec<_> = charge(Account::Host, || tensors.iter().collect());
                read_sum_of_squares(&listed, kernels)
            });
            let squares = squares.sum::<Result<f64, DeviceError>>()?;
            self.parameter = Some(sums.map_or(Ok(squares), |sums| sums.of(squares))?.sqrt());
        }
        Ok(())
    }

    /// The norms of the step, if they were measured. A skipped step has none.
    pub(super) fn norms(&self) -> Option<Norms> {
        Some(Norms { gradient: self.squares?.sqrt(), parameter: self.parameter? })
    }
}

/// The trained parameters of some stages. They share their storage with the model.
fn trained(stages: &Stages) -> Vec<AnyTensor> {
    charge(Account::Host, || {
        let mut tensors = Vec::new();
        stages.visit(&mut |info, tensor| {
            if info.trainable {
                tensors.push(tensor.inner());
            }
        });
        tensors
    })
}
