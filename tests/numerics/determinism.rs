//! The same seed gives the same bytes, whatever else the machine does.

use std::thread;

use oomph_trainer::new_stepper;

use crate::{digits, host};

const STEPS: usize = 5;
const RUNS_AT_ONCE: usize = 3;

#[test]
fn the_same_seed_ends_with_the_same_bits() {
    let alone = train(7);
    assert!(train(7) == alone, "a second run differs from the first");
    // All runs share one pool of compute threads, so that their work interleaves in ever other ways.
    let together: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..RUNS_AT_ONCE).map(|_| scope.spawn(|| train(7))).collect();
        running.into_iter().map(|run| run.join().expect("training does not panic")).collect()
    });
    for (run, parameters) in together.into_iter().enumerate() {
        assert!(parameters == alone, "run {run} of {RUNS_AT_ONCE} at once differs from the one alone");
    }
}

#[test]
fn another_seed_ends_with_other_bits() {
    assert!(train(7) != train(8));
}

/// The bits of all parameters and running statistics after a few steps of a ResNet on the digits.
fn train(seed: u64) -> Vec<(String, Vec<u32>)> {
    let session = digits::session(&format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 16 }}
         data = {{ source = 'digits', crop_padding = 1, workers = 2 }}
         train = {{ batch = 64, seed = {seed} }}
         optimizer = {{ name = 'sgd', momentum = 0.9, weight_decay = 1e-4, clip_global_norm = 1.0 }}"
    ));
    let mut stepper = new_stepper(&session).unwrap().0;
    for (step, batch) in digits::batches(&session, STEPS).into_iter().enumerate() {
        stepper.step(batch, step, 0.1, &*session.task).unwrap();
    }
    host::parameter_bits(&stepper.model)
}
