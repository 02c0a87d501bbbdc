//! The leak watch: the mistakes of `examples/leaks.rs` are found, their cures and a long healthy training are silent.

use oomph_trainer::open;
use std::{path::Path, sync::Arc};

use oomph::{
    AnyTensor, Classification, Config, DeviceTargets, Done, Event, Observer, Registry, Stop, Task, TaskError,
    TrainOptions,
    burn::tensor::Tensor,
    memory::{leak::Cause, record},
    runs::{LeakMetrics, LeakPoint},
    train,
};

use crate::alone;

#[path = "../../examples/leaks.rs"]
mod example;

use example::{Found, Lab, MISTAKES, Mistake, STEPS, Steps};

/// The cause that is told of each mistake, in their order.
const CAUSES: [Cause; 7] = [
    Cause::Graph,
    Cause::Outputs,
    Cause::Graph,
    Cause::Gradients,
    Cause::Parameters,
    Cause::Outputs,
    Cause::Graph,
];

fn run(steps: Steps) -> Option<Found> {
    Lab::new().and_then(|mut lab| lab.run(steps)).expect("the digits and the model are built in")
}

#[test]
fn each_mistake_is_found_within_20_steps_with_its_cause() {
    let _alone = alone();
    for (Mistake { name, leaking, .. }, cause) in MISTAKES.into_iter().zip(CAUSES) {
        let Some(Found { step, leak }) = run(leaking) else { panic!("{name}: not found") };
        println!("{name}: after step {step}: {leak}");
        assert!(step <= STEPS, "{name}: {step}");
        assert_eq!(leak.cause(), Some(cause), "{name}: {leak}");
        // What the steps are seen to leave behind is all that grows.
        let named: u64 = leak.kinds.iter().map(|kind| kind.bytes_per_step().get()).sum();
        assert_eq!(named, leak.growth.bytes_per_step.get(), "{name}: {leak}");
        assert!(leak.steps_left().is_some_and(|left| left > 0), "{name}: {leak}");
        assert!(!record::is_on(), "{name}: the recording goes on");
    }
}

#[test]
fn each_cure_is_silent() {
    let _alone = alone();
    for Mistake { name, cured, .. } in MISTAKES {
        if let Some(Found { step, leak }) = run(cured) {
            panic!("{name}: after step {step}: {leak}");
        }
    }
}

/// Notes warnings and leaks.
#[derive(Default)]
struct Noted {
    warnings: Vec<String>,
    leaks: Vec<LeakMetrics>,
    evaluations: usize,
    checkpoints: usize,
}

impl Observer for Noted {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Warning { message } => self.warnings.push(message.clone()),
            Event::Leak(leak) => self.leaks.push(leak.clone()),
            Event::Eval(_) => self.evaluations += 1,
            Event::Checkpoint(_) => self.checkpoints += 1,
            Event::Adapted(_)
            | Event::Fitted(_)
            | Event::Started(_)
            | Event::Step(_)
            | Event::Done(_)
            | Event::Error { .. } => {}
        }
    }
}

/// Trains in `directory` and notes what is told.
fn trained(directory: &Path, toml: &str, registry: &Registry) -> (Done, Noted) {
    let toml = format!("{toml}\nrun.directory = '{}'", directory.join("run").display());
    let config = Config::from_toml("leaks", &toml).expect("a valid configuration");
    let session = open(config, registry).expect("everything it names is there");
    let mut noted = Noted::default();
    let done = train(&session, &TrainOptions::default(), &mut noted, &Stop::new()).expect("it trains");
    (done, noted)
}

/// Batches of 48 samples leave 45 of the 1,437 digits over; micro-batches of 20 leave 8 and 5.
const HEALTHY: &str = "
    model = { name = 'lstm', hidden = 8 }
    data = { source = 'digits', layout = 'rows', workers = 2 }
    train.batch = 48
    train.eval_every = '1 epochs'
    train.eval_batch = 25
    memory.micro_batch = 20
    optimizer = { name = 'adam', lr = 0.001 }
    run.log_every = 70
    run.save_every = '90 steps'
";

#[test]
fn two_thousand_healthy_steps_give_no_alarm() {
    let _alone = alone();
    // With a recording that goes on anyway, and without one.
    for (steps, record) in [(2000, 100_000), (400, 0)] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let toml = format!("{HEALTHY}\nmemory.record = {record}\ntrain.steps = {steps}");
        let (done, noted) = trained(directory.path(), &toml, &Registry::builtin());
        assert_eq!(done.step, steps);
        assert!(noted.evaluations >= steps / 30 && noted.checkpoints > steps / 90);
        assert_eq!(noted.warnings, Vec::<String>::new());
        assert!(noted.leaks.is_empty());
    }
}

/// A task that keeps what it should not: the losses of training with what they were computed from, or outputs.
struct Forgetful {
    kept: std::sync::Mutex<Vec<Tensor<1>>>,
    in_training: bool,
}

impl Task for Forgetful {
    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError> {
        let loss = Classification::default().loss(output, targets)?;
        if loss.device().is_autodiff() == self.in_training
            && let Some(output) = output.clone().float::<2>()
        {
            let kept = output.flatten::<1>(0, 1);
            self.kept.lock().expect("nobody panicked").push(kept.add_scalar(1.0));
        }
        Ok(loss)
    }
}

fn forgetful(in_training: bool) -> Registry {
    let task = move || Forgetful { kept: Default::default(), in_training };
    Registry::builtin().with_task("forgetful", move |_| Ok(Arc::new(task())))
}

const FORGETFUL: &str = "
    model = { name = 'lstm', hidden = 8 }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    train = { steps = 20, batch = 48, task = 'forgetful', eval_batch = 20, eval_every = '20 steps' }
";

#[test]
fn a_leak_of_a_users_task_is_told_by_train() {
    let _alone = alone();
    for in_training in [true, false] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (done, noted) = trained(directory.path(), FORGETFUL, &forgetful(in_training));
        let [leak] = &noted.leaks[..] else { panic!("{:?}", noted.warnings) };
        assert!(noted.warnings[0].starts_with("memory leak: every "), "{:?}", noted.warnings);
        let (point, bytes) =
            if in_training { (LeakPoint::Step, 48 * 10 * 4) } else { (LeakPoint::EvalBatch, 20 * 10 * 4) };
        assert_eq!(leak.point, point);
        // The losses that are read later are on the device too.
        assert!(leak.bytes_per_step.get().abs_diff(bytes) <= 8, "{leak:?}");
        assert!(leak.steps_left.is_some_and(|left| left > 0) && leak.step.is_some(), "{leak:?}");
        let log = std::fs::read_to_string(done.run_dir.join("metrics.jsonl")).expect("a log");
        assert_eq!(log.lines().filter(|line| line.starts_with(r#"{"event":"leak""#)).count(), 1);
        assert_eq!(log.lines().filter(|line| line.contains("memory leak: ")).count(), 1);
    }
}

#[test]
fn without_leak_check_nothing_is_told() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let toml = format!("{FORGETFUL}\nmemory.leak_check = false");
    let (_, noted) = trained(directory.path(), &toml, &forgetful(true));
    assert!(noted.warnings.is_empty() && noted.leaks.is_empty());
}
