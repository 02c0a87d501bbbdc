use oomph_config::{MicroBatch, Recompute, Sharing};
use oomph_core::is_within;

use super::{Session, split_cache::StepSplit};

/// The split of a step of `batch` samples per device, as configured. `auto` counts as without a limit: the largest
/// micro-batch, and no recompute. This is the only place that resolves `memory.micro_batch`.
pub fn fixed_split(session: &Session, batch: usize) -> StepSplit {
    let memory = &session.config.memory;
    let micro_batch = match memory.micro_batch {
        Some(MicroBatch::Samples(samples)) => samples.min(batch),
        Some(MicroBatch::Auto) | None => whole_micro_batch(session, batch),
    };
    StepSplit { micro_batch, recompute: recomputed(&memory.recompute, &session.stages) }
}

/// For each stage: whether the setting selects it for recompute.
pub fn recomputed(setting: &Recompute, stages: &[String]) -> Vec<bool> {
    match setting {
        Recompute::None | Recompute::Ops | Recompute::Auto => vec![false; stages.len()],
        Recompute::Stages => vec![true; stages.len()],
        Recompute::Named(named) => {
            stages.iter().map(|stage| named.iter().any(|name| is_within(stage, name))).collect()
        }
    }
}

/// The largest micro-batch: the whole share of a device. In a pipeline: a quarter of the batch divided by the number of
/// devices. With four micro-batches per device the bubble is less than a fifth of the time (Huang et al. 2019, section
/// 2.3).
fn whole_micro_batch(session: &Session, batch: usize) -> usize {
    const MICRO_BATCHES_A_DEVICE: usize = 4;
    match session.config.device.sharing {
        Sharing::Pipeline { .. } => {
            batch.div_ceil(MICRO_BATCHES_A_DEVICE * session.config.device.devices.len())
        }
        _ => batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_selects_only_its_own_stages() {
        let stages = ["stem", "layer1.0", "layer1.1", "layer10.0"].map(str::to_owned);
        let named = |name: &str| recomputed(&Recompute::Named(vec![name.to_owned()]), &stages);
        assert_eq!(named("layer1"), [false, true, true, false]);
        assert_eq!(named("layer1.1"), [false, false, true, false]);
    }
}
