use oomph_runs::Started;

use crate::{
    numbers::{grouped, plural},
    table::pairs,
};

/// The planned peak and the limit.
fn memory(started: &Started) -> String {
    let planned = started.planned_peak_bytes;
    let limit = started.limit_bytes.map(|limit| format!(", limit {limit}"));
    format!("planned peak {planned}{}", limit.unwrap_or_default())
}

/// The lines at the start of a training.
pub(super) fn header(started: &Started) -> String {
    let Started { model, source, sample, batch, micro_batch, world_size, steps, steps_per_epoch, .. } =
        started;
    let replicas = if *world_size > 1 { format!(" over {world_size} replicas") } else { String::new() };
    let device = match started.strategy {
        Some(strategy) => format!("{} ({strategy})", started.device),
        None => started.device.clone(),
    };
    let micro_batches = (*micro_batch < batch.div_ceil(*world_size))
        .then(|| format!(" in micro-batches of {}", grouped(*micro_batch)));
    let epochs = steps.div_ceil((*steps_per_epoch).max(1));
    let resumed = started
        .resumed_from
        .as_ref()
        .map(|path| format!("{}, after {}", path.display(), plural(started.first_step, "step")));
    let frozen = (started.frozen_parameters > 0)
        .then(|| format!("{} more parameters, not trained", grouped(started.frozen_parameters)));
    let weights = started.weights.as_ref().map(|path| path.display().to_string());
    pairs([
        ("model", Some(format!("{model}, {} parameters", grouped(started.parameters)))),
        ("frozen", frozen),
        ("weights", weights),
        (
            "data",
            Some(format!(
                "{source}, {} to train on, {} held out ({sample})",
                grouped(started.train_samples),
                grouped(started.test_samples)
            )),
        ),
        ("batch", Some(format!("{}{replicas}{}", grouped(*batch), micro_batches.unwrap_or_default()))),
        ("length", Some(format!("{} in {}", plural(*steps, "step"), plural(epochs, "epoch")))),
        ("device", Some(device.clone())),
        ("policy", Some(started.policy.clone())),
        ("memory", Some(memory(started))),
        ("run", Some(started.run_dir.display().to_string())),
        ("resumed", resumed),
    ])
}
