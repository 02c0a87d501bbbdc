use oomph_advice::{describe_policy, planning::micro_batch};
use oomph_core::Split;
use oomph_engine::session::backend;
use oomph_runs::{Started, state::Checkpoint};

use super::training::Training;
use crate::lr_schedule::steps;

/// The event that announces a run.
pub(super) fn started(training: &Training<'_>, checkpoint: Option<&Checkpoint>) -> Started {
    let session = training.session;
    let spec = session.spec();
    Started {
        run_dir: training.log.run.path().to_owned(),
        model: session.architecture.name().to_owned(),
        parameters: training.driver.stepper.model.trainable_elements(),
        frozen_parameters: training.driver.stepper.model.frozen_elements(),
        weights: session.weights.clone().filter(|_| checkpoint.is_none()),
        source: session.source_name(),
        sample: format!("{}, {}", spec.input, spec.target),
        train_samples: session.source.len(Split::Train),
        test_samples: session.source.len(Split::Test),
        device: session.device_names(),
        strategy: session.config.device.sharing.name(),
        world_size: session.world_size(),
        batch: session.config.train.batch,
        micro_batch: micro_batch(session),
        policy: describe_policy(session, backend(session), session.limit_bytes),
        steps: steps(session),
        steps_per_epoch: training.progress.batches_per_epoch,
        first_step: training.progress.step,
        resumed_from: checkpoint.map(|checkpoint| checkpoint.path().to_owned()),
        metered: oomph_memory::is_installed(),
        planned_peak_bytes: training.memory.planned_peak_bytes,
        limit_bytes: session.limit_bytes,
        version: env!("CARGO_PKG_VERSION"),
    }
}
