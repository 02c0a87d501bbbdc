//! A resumed run uses as much memory as a run without a stop, when it loads its checkpoint and after each step.

use std::path::Path;

use oomph::{
    Config, Event, Observer, Registry, Resume, Stop, TrainOptions,
    memory::{read, restart_peak},
    train,
};
use oomph_trainer::open;

use crate::alone;

/// The bytes in use after the last step.
#[derive(Default)]
struct InUse(u64);

impl Observer for InUse {
    fn event(&mut self, event: &Event) {
        if let Event::Step(metrics) = event {
            self.0 = metrics.in_use_bytes.get();
        }
    }
}

/// Bytes in use after some steps, and the peak. `of_optimizer` and `more` are settings.
fn after(run: &Path, steps: usize, of_optimizer: &str, more: &str, resume: Resume) -> [u64; 2] {
    let toml = format!(
        "
        model = {{ name = 'resnet18', stem = 'small', width = 8 }}
        data = {{ source = 'digits', workers = 0 }}
        train.steps = {steps}
        train.batch = 16
        train.eval_every = 'never'
        optimizer = {{ {of_optimizer}, lr = 0.01 }}
        run = {{ directory = '{}', log_every = 1 }}
        {more}
        ",
        run.display(),
    );
    let session = open(Config::from_toml("test", &toml).expect("valid settings"), &Registry::builtin());
    let options = TrainOptions { resume, ..TrainOptions::default() };
    let mut observer = InUse::default();
    restart_peak();
    train(&session.expect("a session"), &options, &mut observer, &Stop::new()).expect("it trains");
    [observer.0, read().peak_in_use_bytes.get()]
}

/// Loading a checkpoint takes no more than a step does, so a run fits again where it fitted.
#[test]
fn a_resumed_run_takes_as_much_as_one_without_a_stop() {
    let _alone = alone();
    for (of_optimizer, more) in [
        ("name = 'sgd', momentum = 0.9", ""),
        ("name = 'adam'", ""),
        ("name = 'adam'", "train.ema = 0.99"),
        ("name = 'adamw', state = 'int8'", "memory.gradients = 'release'"),
        ("name = 'adamw'", "memory.offload = ['optimizer']"),
        ("name = 'lion', state = 'bf16'", "memory.offload = ['optimizer']"),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (whole, stopped) = (directory.path().join("whole"), directory.path().join("stopped"));
        // The first run of a process makes the backend's lasting buffers.
        after(&directory.path().join("first"), 2, of_optimizer, more, Resume::No);
        let expected = after(&whole, 4, of_optimizer, more, Resume::No);
        after(&stopped, 2, of_optimizer, more, Resume::No);
        let resumed = after(&stopped, 4, of_optimizer, more, Resume::Latest);
        for (what, resumed, expected) in
            [("in use", resumed[0], expected[0]), ("at the peak", resumed[1], expected[1])]
        {
            let difference = resumed as f64 / expected as f64 - 1.0;
            assert!(
                difference.abs() < 0.01,
                "{of_optimizer} {more}: {resumed} bytes {what} after a resume, {expected} without a stop"
            );
        }
    }
}
