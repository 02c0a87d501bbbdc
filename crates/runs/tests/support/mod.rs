//! Checkpoints to save.

// Each test program uses some of them.
#![allow(dead_code)]

use std::{fs, path::Path};

use oomph_engine::{
    HostTensor,
    loss_scale::LossScale,
    record::{OptimizerRecord, Scalar},
};
use oomph_model::Named;
use oomph_runs::state::{About, CheckpointStore, EarlyStopping, TrainProgress, TrainState};

pub(crate) fn state(step: usize) -> TrainState {
    let tensor = HostTensor { shape: vec![2, 2], values: vec![step as f32, 0.1, -0.0, f32::MIN_POSITIVE] };
    let tensors: Named<HostTensor> = [("layer.weight".to_owned(), tensor)].into();
    TrainState {
        progress: TrainProgress {
            step,
            batch: 1,
            batches_per_epoch: 99,
            loss: Some(0.1 + 0.2),
            ..TrainProgress::default()
        },
        model: tensors.clone(),
        optimizer: OptimizerRecord {
            packed: Named::new(),
            tensors,
            scalars: [
                ("layer.weight.time".to_owned(), Scalar::Uint(step as u64)),
                ("layer.weight.decay".to_owned(), Scalar::FloatBits(0.1f64.to_bits())),
            ]
            .into(),
            ranks: [("layer.weight".to_owned(), 2)].into(),
        },
        loss_scale: (step == 9).then(LossScale::default),
        carried: Named::new(),
        average: None,
    }
}

pub(crate) fn about(config: &str) -> About<'_> {
    About { config, source: None }
}

pub(crate) fn store(directory: &Path, steps: &[usize]) -> CheckpointStore {
    let store = CheckpointStore::at(directory.join("checkpoints"));
    for step in steps {
        store.save(state(*step), about("train = { batch = 4 }\n"), 3).unwrap();
    }
    store
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory.join("checkpoints")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The state of a step of a run whose best evaluation was at `best_step`, once it has come there.
pub(crate) fn evaluated(step: usize, best_step: usize) -> TrainState {
    let mut state = state(step);
    if step >= best_step {
        let without_improvement = step - best_step;
        state.progress.early_stopping = EarlyStopping {
            best: Some(0.5),
            best_step: Some(best_step),
            without_improvement,
            ..EarlyStopping::default()
        };
    }
    state
}
