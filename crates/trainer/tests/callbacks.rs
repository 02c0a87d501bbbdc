//! Callbacks: what they are told, and what becomes of what they answer.

use std::{collections::BTreeMap, path::Path};

use oomph_config::Config;
use oomph_data::Targets;
use oomph_runs::{Done, Ended, EvalMetrics, Event, Observer, Quiet, StepMetrics, state::Checkpoint};
use oomph_trainer::{
    Evaluation, Registry, Resume, Session, Stop, TrainError, TrainOptions,
    callback::{Callback, NoCallback},
    open, train_with,
};

fn session(run: &Path, more: &str) -> Session {
    let text = format!(
        "model = {{ name = 'lstm', hidden = 8 }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         run = {{ directory = '{}', log_every = 2 }}
         {more}",
        run.display(),
    );
    open(Config::from_toml("callbacks", &text).expect("valid settings"), &Registry::builtin())
        .expect("a session")
}

fn trained(run: &Path, more: &str, callback: &mut dyn Callback) -> Result<Done, TrainError> {
    train_with(&session(run, more), &TrainOptions::default(), &mut Quiet, callback, &Stop::new())
}

/// The parameters at the end of a run, as bits.
fn parameters(run: &Path) -> BTreeMap<String, Vec<u32>> {
    let checkpoint = Checkpoint::find(run).expect("a checkpoint").checkpoint;
    let model = checkpoint.model().expect("a model").into_iter();
    model.map(|(name, tensor)| (name, tensor.values.iter().map(|it| it.to_bits()).collect())).collect()
}

/// A learning rate that halves after every second step.
struct Halving;

impl Callback for Halving {
    fn lr(&mut self, step: usize, scheduled: f64) -> f64 {
        scheduled * 0.5_f64.powi((step / 2) as i32)
    }
}

#[test]
fn a_learning_rate_of_ones_own_trains_as_that_of_a_schedule() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = |name: &str| folder.path().join(name);
    let plain = "train = { steps = 6, batch = 20 }\n";
    let schedule = "[schedule]\nname = 'step'\nevery_steps = 2\ngamma = 0.5";
    trained(&run("schedule"), &format!("{plain}{schedule}"), &mut NoCallback).expect("it trains");
    trained(&run("own"), plain, &mut Halving).expect("it trains");
    assert_eq!(parameters(&run("own")), parameters(&run("schedule")));

    // A run that is resumed ends with the same bytes, and all ranks use the rate.
    let options = TrainOptions { resume: Resume::Latest, ..TrainOptions::default() };
    trained(&run("parts"), "train = { steps = 3, batch = 20 }", &mut Halving).expect("it trains");
    let rest = session(&run("parts"), plain);
    train_with(&rest, &options, &mut Quiet, &mut Halving, &Stop::new()).expect("it trains");
    assert_eq!(parameters(&run("parts")), parameters(&run("own")));
    let ranks = format!("{plain}device = {{ devices = 'cpu,cpu', check_every = '1 steps' }}");
    trained(&run("ranks"), &ranks, &mut Halving).expect("the replicas stay equal");
}

/// The mean recall of all classes.
#[derive(Default)]
struct Recall {
    right: BTreeMap<i64, usize>,
    of: BTreeMap<i64, usize>,
    evaluations: usize,
}

impl Callback for Recall {
    fn wants_predictions(&self) -> bool {
        true
    }

    fn predictions(&mut self, outputs: &[f32], targets: &Targets) {
        let Targets::Classes(classes) = targets else { panic!("the digits have classes") };
        for (logits, class) in outputs.chunks_exact(outputs.len() / classes.len()).zip(classes) {
            let likeliest =
                (0..logits.len()).rev().max_by(|one, other| logits[*one].total_cmp(&logits[*other]));
            *self.right.entry(*class).or_default() += usize::from(likeliest == usize::try_from(*class).ok());
            *self.of.entry(*class).or_default() += 1;
        }
    }

    fn measures(&mut self, evaluation: &Evaluation) -> BTreeMap<String, f64> {
        self.evaluations += 1;
        let (right, of) = (std::mem::take(&mut self.right), std::mem::take(&mut self.of));
        assert_eq!(of.values().sum::<usize>(), evaluation.samples);
        let recalls: f64 = of.iter().map(|(class, count)| right[class] as f64 / *count as f64).sum();
        let correct = right.values().sum::<usize>() as f64 / evaluation.samples as f64;
        assert!((correct - evaluation.accuracy.expect("an accuracy")).abs() < 1e-6);
        [("recall".to_owned(), recalls / of.len() as f64)].into()
    }
}

/// Keeps the last measures of evaluations.
#[derive(Default)]
struct Measures(BTreeMap<String, f64>);

impl Observer for Measures {
    fn event(&mut self, event: &Event) {
        if let Event::Eval(EvalMetrics { measures, .. }) = event {
            self.0 = measures.clone();
        }
    }
}

#[test]
fn measures_of_ones_own_go_into_the_log_with_every_strategy_of_one_evaluation() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (name, devices) in [
        ("alone", ""),
        ("dp", "device = { devices = 'cpu,cpu', strategy = 'dp' }"),
        ("pipeline", "device = { devices = 'cpu,cpu', strategy = 'pipeline' }"),
    ] {
        let run = folder.path().join(name);
        let session =
            session(&run, &format!("train = {{ steps = 4, batch = 20, eval_every = '2 steps' }}\n{devices}"));
        let (mut recall, mut seen) = (Recall::default(), Measures::default());
        train_with(&session, &TrainOptions::default(), &mut seen, &mut recall, &Stop::new())
            .expect("it trains");
        assert_eq!(recall.evaluations, 2);
        assert!((0.0..=1.0).contains(&seen.0["recall"]), "{:?}", seen.0);
        let log = std::fs::read_to_string(run.join("metrics.jsonl")).expect("a log");
        assert_eq!(log.matches("\"measures\":{\"recall\":").count(), 2, "{log}");
    }
    let ranks = "train.steps = 2\ndevice = { devices = 'cpu,cpu' }";
    match trained(&folder.path().join("ddp"), ranks, &mut Recall::default()) {
        Err(TrainError::PredictionsOnRanks { ranks: 2 }) => {}
        other => panic!("{other:?}"),
    }
    assert!(!folder.path().join("ddp").exists(), "nothing was begun");
}

/// Ends a training after a step.
struct EndAt(usize);

impl Callback for EndAt {
    fn stops(&mut self, event: &Event) -> bool {
        matches!(event, Event::Step(StepMetrics { step, .. }) | Event::Eval(EvalMetrics { step, .. }) if *step >= self.0)
    }
}

#[test]
fn a_training_that_a_callback_ends_is_saved_and_continues_on_request() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let settings = "train = { steps = 8, batch = 20 }";
    for (name, settings) in
        [("alone", settings.to_owned()), ("ddp", format!("{settings}\ndevice = {{ devices = 'cpu,cpu' }}"))]
    {
        let run = folder.path().join(name);
        let done = trained(&run, &settings, &mut EndAt(3)).expect("it trains");
        // Lines are written after steps 2 and 4.
        assert_eq!((done.ended, done.step), (Ended::Callback, 4));
        let options = TrainOptions { resume: Resume::Latest, ..TrainOptions::default() };
        let rest = session(&run, &settings);
        let done = train_with(&rest, &options, &mut Quiet, &mut EndAt(100), &Stop::new()).expect("it trains");
        assert_eq!((done.ended, done.step), (Ended::Complete, 8));
    }
}

/// Gives no learning rate after some steps.
struct NoRate;

impl Callback for NoRate {
    fn lr(&mut self, step: usize, scheduled: f64) -> f64 {
        if step < 2 { scheduled } else { -1.0 }
    }
}

#[test]
fn a_learning_rate_below_zero_ends_the_training_with_an_error() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    match trained(&folder.path().join("run"), "train.steps = 4", &mut NoRate) {
        Err(error @ TrainError::CallbackLr { step: 3, .. }) => assert_eq!(
            error.to_string(),
            "the callback gave the learning rate -1 for step 3; expected a finite number of at least 0"
        ),
        other => panic!("{other:?}"),
    }
}
