//! A resumed run uses as much memory as a run without a stop.

use std::path::Path;

use oomph::{Config, Event, Observer, Registry, Resume, Stop, TrainOptions, train};
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

fn in_use_after(run: &Path, steps: usize, optimizer: &str, more: &str, resume: Resume) -> u64 {
    let momentum = if optimizer == "sgd" { ", momentum = 0.9" } else { "" };
    let toml = format!(
        "
        model = {{ name = 'resnet18', stem = 'small', width = 8 }}
        data = {{ source = 'digits', workers = 0 }}
        train = {{ steps = {steps}, batch = 16, eval_every = 'never'{more} }}
        optimizer = {{ name = '{optimizer}', lr = 0.01{momentum} }}
        run = {{ directory = '{}', log_every = 1 }}
        ",
        run.display(),
    );
    let session = open(Config::from_toml("test", &toml).expect("valid settings"), &Registry::builtin());
    let options = TrainOptions { resume, ..TrainOptions::default() };
    let mut observer = InUse::default();
    train(&session.expect("a session"), &options, &mut observer, &Stop::new()).expect("it trains");
    observer.0
}

#[test]
fn a_resumed_run_has_as_much_in_use_as_one_without_a_stop() {
    let _alone = alone();
    for (optimizer, more) in [("sgd", ""), ("adam", ""), ("adam", ", ema = 0.99")] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (whole, stopped) = (directory.path().join("whole"), directory.path().join("stopped"));
        // The first run of a process makes the backend's lasting buffers.
        in_use_after(&directory.path().join("first"), 2, optimizer, more, Resume::No);
        let expected = in_use_after(&whole, 4, optimizer, more, Resume::No);
        in_use_after(&stopped, 2, optimizer, more, Resume::No);
        let resumed = in_use_after(&stopped, 4, optimizer, more, Resume::Latest);
        let difference = resumed.abs_diff(expected) as f64 / expected as f64;
        assert!(
            difference < 0.01,
            "{optimizer}{more}: {resumed} bytes in use after a resume, {expected} without a stop"
        );
    }
}
