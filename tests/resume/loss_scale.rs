//! A training in half precision whose steps overflow now and then, stopped and resumed.

use std::{fs, path::Path, sync::Arc};

use oomph::{
    Config, DataError, Event, Generator, InputSpec, Key, Observer, OpenContext, OpenSource, Registry, Resume,
    Sample, SampleError, SampleSpec, Source, Split, Stop, StopReason, Target, TargetSpec, Tick, TrainOptions,
    Values,
};
use oomph_engine::EngineError;
use oomph_runs::state::{Checkpoint, TrainState};
use oomph_trainer::{TrainError, open};
use serde_json::Value;

const STEPS: usize = 40;
/// Steps of an epoch, of which one has the sample that overflows.
const PER_EPOCH: usize = 8;

/// Noise, with samples whose first number is too large for 16 bits.
struct Spiked {
    spec: SampleSpec,
    spikes: Spikes,
}

#[derive(Clone, Copy)]
enum Spikes {
    OneSample,
    AllSamples,
}

struct Open(Spikes);

impl OpenSource for Open {
    fn open(&self, _: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        let input = InputSpec::Image { channels: 1, height: 8, width: 8 };
        let spec = SampleSpec { input, target: TargetSpec::Class { count: 2 } };
        Ok(Arc::new(Spiked { spec, spikes: self.0 }))
    }
}

impl Source for Spiked {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn len(&self, split: Split) -> usize {
        match split {
            Split::Train => 8 * PER_EPOCH,
            Split::Test => 8,
        }
    }

    fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        let mut random = Generator::at(Key::new(1).with_name(&split.to_string()).with(index as u64));
        let mut values: Vec<_> = (0..64).map(|_| random.normal()).collect();
        let is_spiked = matches!(self.spikes, Spikes::AllSamples) || index == 17;
        if split == Split::Train && is_spiked {
            values[0] = 1e6;
        }
        Ok(Sample { input: Values::Floats(values), target: Target::Class(index % 2) })
    }
}

/// Asks for the end after a step.
struct StopAfter {
    step: usize,
    stop: Stop,
}

impl Observer for StopAfter {
    fn event(&mut self, _: &Event) {}

    fn tick(&mut self, tick: Tick) {
        if matches!(tick, Tick::Step { step } if step == self.step) {
            self.stop.request(StopReason::Interrupt);
        }
    }
}

/// Trains in `run`, going on from what is there, until after a step.
fn train_until(run: &Path, precision: &str, spikes: Spikes, step: usize) -> Result<oomph::Done, TrainError> {
    let toml = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 2 }}
         data = {{ source = 'spiked', workers = 0 }}
         train = {{ steps = {STEPS}, batch = 8, seed = 4 }}
         optimizer = {{ name = 'adam', lr = 1e-3 }}
         memory = {{ precision = '{precision}' }}
         run = {{ directory = '{}', log_every = 1 }}",
        run.display()
    );
    let registry = Registry::builtin().with_source("spiked", move |_| Ok(Box::new(Open(spikes))));
    let session = open(Config::from_toml("spiked", &toml).unwrap(), &registry).unwrap();
    let stop = Stop::new();
    // By its name: a run of another precision is not resumed unasked.
    let resume = if Checkpoint::is_named(run) { Resume::From(run.to_owned()) } else { Resume::No };
    let options = TrainOptions { resume, ..TrainOptions::default() };
    oomph::train(&session, &options, &mut StopAfter { step, stop: stop.clone() }, &stop)
}

fn end(run: &Path) -> TrainState {
    let mut state = Checkpoint::find(run).unwrap().checkpoint.state().unwrap();
    state.progress.seconds = 0.0;
    state
}

#[test]
fn stopped_after_any_step_it_ends_with_the_same_scale_and_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("whole");
    let done = train_until(&whole, "fp16", Spikes::OneSample, STEPS).unwrap();
    let expected = end(&whole);
    let scale = expected.loss_scale.expect("half precision has one");
    // Every epoch has the sample once, and nothing else overflows.
    assert_eq!((scale.skipped_steps(), done.skipped_steps), (STEPS / PER_EPOCH, Some(STEPS / PER_EPOCH)));
    assert_eq!(scale.scale(), 65_536.0 / 32.0);
    for stops in [(1..STEPS).collect::<Vec<_>>(), vec![5, 6, 23], vec![16]] {
        let run = directory.path().join(format!("stopped-{}", stops.len()));
        for stop in stops.into_iter().chain([STEPS]) {
            train_until(&run, "fp16", Spikes::OneSample, stop).unwrap();
        }
        assert!(end(&run) == expected, "{} ended otherwise", run.display());
    }
}

#[test]
fn the_log_tells_the_scale_and_the_skipped_steps() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    train_until(&run, "fp16", Spikes::OneSample, STEPS).unwrap();
    let log = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<_> = lines.iter().filter(|line| line["event"] == "step").collect();
    for step in &steps {
        let skipped = step["skipped_steps"].as_u64().unwrap();
        assert_eq!(step["loss_scale"].as_f64().unwrap(), 65_536.0 / f64::from(1 << skipped), "{step}");
    }
    assert_eq!(steps.last().unwrap()["skipped_steps"], STEPS / PER_EPOCH);
    let done = lines.iter().find(|line| line["event"] == "done").unwrap();
    assert_eq!(done["skipped_steps"], STEPS / PER_EPOCH);
}

#[test]
fn a_training_in_another_precision_has_no_scale_and_one_that_had_none_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let done = train_until(&run, "bf16", Spikes::OneSample, 10).unwrap();
    assert!(end(&run).loss_scale.is_none() && done.skipped_steps.is_none());
    let log = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert!(!log.contains("loss_scale") && !log.contains("skipped_steps"));
    train_until(&run, "fp16", Spikes::OneSample, 11).unwrap();
    let scale = end(&run).loss_scale.expect("half precision has one");
    assert_eq!(scale.good_steps() as usize + scale.skipped_steps(), 1);
}

#[test]
fn where_every_step_overflows_the_run_ends_and_names_its_last_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let error = train_until(&run, "fp16", Spikes::AllSamples, STEPS).unwrap_err();
    let TrainError::LossScale { error: EngineError::LossScale { step, .. }, checkpoint: Some(checkpoint) } =
        &error
    else {
        panic!("{error}")
    };
    assert_eq!(*step, 31);
    let state = Checkpoint::open(checkpoint).unwrap().state().unwrap();
    let scale = state.loss_scale.expect("half precision has one");
    // Three epochs, each with a checkpoint.
    assert_eq!((state.progress.step, scale.skipped_steps()), (24, 24));
    assert!(state.optimizer.tensors.is_empty(), "no step was taken");
}
