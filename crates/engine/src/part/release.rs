//! Gradients that are released in backward, with `memory.gradients = "release"`.

use std::sync::{Arc, Mutex};

use oomph_config::Clip;
use oomph_core::{Phase, phase};
use oomph_kernels::gradients::read_sum_of_squares;
use oomph_memory::record::track;
use oomph_model::{AnyTensor, Kernels, Named, Stages};
use oomph_timeline::TrackKind;

use crate::{
    EngineError,
    clip::clip,
    gradients::{GradientHook, call_hook, listed},
    optimizer::Optimizer,
    ranks::{Bucket, ShardStep, ShardSums},
    watch::{self, Watch},
};

/// The name of the optimizer's work on a device's track.
pub(crate) const STEP: &str = "step";

/// Takes the optimizer's step for a segment of stages as soon as backward has completed its gradients, and frees them (LOMO, Lv et
/// al. 2023, <https://arxiv.org/abs/2306.09782>). Each device has its own, with the state of its parameters.
///
/// A parameter that another stage borrows gets its step with its own stage, to which backward comes later. So no stage that is
/// still ahead reads a parameter after its step, and every bit is that of a step after backward.
pub(crate) struct Release {
    /// The optimizer, with the state of the parameters of this device.
    pub(crate) optimizer: Optimizer,
    /// The sum of the squares of all released gradients, if norms are measured.
    pub(crate) squares: Option<f64>,
    pub(crate) rules: ReleaseRules,
    /// How the optimizer steps, if its state is sharded.
    pub(crate) sharded: Option<ShardedRelease>,
}

/// Steps of sharded parameters.
pub(crate) struct ShardedRelease {
    /// Sums over ranks, if gradients are sharded.
    pub(crate) sums: Option<ShardSums>,
    /// Steps shards of whole parameters; `None` if parameters are sharded.
    pub(crate) step: Option<ShardStep>,
}

/// What becomes of gradients before the optimizer reads them.
#[derive(Clone)]
pub(crate) struct ReleaseRules {
    pub(crate) lr: f64,
    /// Clipping by value or by the norm of a tensor. The global norm needs all gradients; a configuration that releases them
    /// cannot ask for it.
    pub(crate) clip: Option<Clip>,
    pub(crate) kernels: Kernels,
    /// Whether operations are executed; otherwise they are recorded for a plan.
    pub(crate) executes: bool,
    /// One hook for all devices.
    pub(crate) hook: Option<Arc<Mutex<GradientHook>>>,
}

impl Release {
    /// Takes the step of the parameters in `gradients`, which are complete, and frees the gradients.
    ///
    /// # Errors
    /// If the device fails while a norm is read, and those of the hook.
    pub(crate) fn step(
        &mut self,
        model: &mut Stages,
        bucket: &Bucket,
        gradients: Named<AnyTensor>,
        watch: Option<&mut (dyn Watch + 'static)>,
    ) -> Result<(), EngineError> {
        // Another rank may have shards of gradients where this one has none.
        if gradients.is_empty() && self.sharded.is_none() {
            return Ok(());
        }
        let ReleaseRules { lr, clip: limit, kernels, executes, ref hook } = self.rules;
        if let Some(watch) = watch {
            watch::gradients(watch, &gradients);
        }
        let _phase = phase(Phase::Step);
        let _track = executes.then(|| track(TrackKind::Step, STEP, None));
        if let Some(hook) = hook {
            call_hook(hook, &gradients)?;
        }
        if let Some(squares) = &mut self.squares {
            *squares += read_sum_of_squares(&listed(&gradients), kernels)?;
        }
        let sums = self.sharded.as_ref().and_then(|sharded| sharded.sums.as_ref());
        let gradients = match (limit, sums) {
            (Some(limit), Some(sums)) => sums.clip(gradients, bucket, limit, kernels)?,
            (Some(limit), None) => clip(gradients, limit, kernels),
            (None, _) => gradients,
        };
        match self.sharded.as_mut().and_then(|sharded| sharded.step.as_mut()) {
            Some(step) => step.step(&mut self.optimizer, lr, model, bucket, gradients),
            None => {
                self.optimizer.step(lr, model, gradients);
                Ok(())
            }
        }
    }

    /// Waits for parameters that are underway.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn end(&mut self, model: &mut Stages) -> Result<(), EngineError> {
        let step = self.sharded.as_mut().and_then(|sharded| sharded.step.as_mut());
        step.map_or(Ok(()), |step| step.end(model))
    }
}
