//! Trains, and compares what came of it.

use oomph_trainer::open;
use std::{collections::BTreeMap, path::Path};

use oomph::{
    Config, Done, Quiet, Registry, Resume, Session, Stop, TrainError, TrainOptions, runs::state::Checkpoint,
    train,
};

/// No batch normalisation: micro-batches and replicas train the same.
pub(crate) const LSTM: &str = "
    model = { name = 'lstm', hidden = 12, layers = 2 }
    data.source = 'digits'
    data.layout = 'rows'
    data.workers = 0
    train.eval_every = '10 steps'
    train.seed = 5
    optimizer = { name = 'sgd', lr = 0.1, momentum = 0.9, clip_global_norm = 1.0 }
    ";

/// Batch normalisation, whose statistics are those of what is seen at once. It learns slowly: where a step is large, one
/// rectifier that opens or closes by the rounding of a sum makes it another training. Of some seeds it does so even here,
/// with our convolutions and with Burn's; of this one not in most tests.
pub(crate) const RESNET: &str = "
    model.name = 'resnet18'
    model.stem = 'small'
    model.width = 8
    data.source = 'digits'
    data.workers = 0
    data.last_batch = 'drop'
    train.eval_every = '10 steps'
    train.seed = 7
    optimizer.name = 'sgd'
    optimizer.lr = 0.002
    optimizer.momentum = 0.9
    ";

/// Its state goes from batch to batch.
pub(crate) const LANGUAGE: &str = "
    model.name = 'lstm-lm'
    model.hidden = 12
    model.layers = 2
    data = { source = 'synthetic', kind = 'tokens', steps = 12, train_samples = 200, test_samples = 60, workers = 0 }
    train.eval_every = '10 steps'
    train.seed = 5
    optimizer = { name = 'adamw', lr = 3e-3 }
    ";

/// A folder for runs, and how they are configured.
pub(crate) struct Runs {
    folder: tempfile::TempDir,
    recipe: String,
}

impl Runs {
    pub(crate) fn new(recipe: &str) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary directory"), recipe: recipe.to_owned() }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// The config of a run.
    pub(crate) fn text(&self, name: &str, more: &str) -> String {
        let batch = if more.contains("train.batch") { "" } else { "train.batch = 20\n" };
        format!("{}\n{batch}run.directory = '{}'\n{more}", self.recipe, self.path(name).display())
    }

    pub(crate) fn session(&self, name: &str, more: &str) -> Session {
        let text = self.text(name, more);
        open(Config::from_toml(name, &text).expect(&text), &Registry::builtin()).expect(&text)
    }

    pub(crate) fn try_train(&self, name: &str, more: &str, resume: bool) -> Result<Done, TrainError> {
        self.train_from(name, more, if resume { Resume::Latest } else { Resume::No })
    }

    fn train_from(&self, name: &str, more: &str, resume: Resume) -> Result<Done, TrainError> {
        let session = self.session(name, more);
        let options = TrainOptions { resume, ..TrainOptions::default() };
        train(&session, &options, &mut Quiet, &Stop::new())
    }

    /// The state after so many steps.
    pub(crate) fn trained(&self, name: &str, steps: usize, more: &str) -> State {
        let more = format!("train.steps = {steps}\n{more}");
        self.try_train(name, &more, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        State::of(&self.path(name))
    }

    /// As [`resumed`](Self::resumed), of a run that is named, so that its settings may change.
    pub(crate) fn resumed_with(&self, name: &str, steps: usize, more: &str) -> State {
        let more = format!("train.steps = {steps}\n{more}");
        let trained = self.train_from(name, &more, Resume::From(self.path(name)));
        trained.unwrap_or_else(|error| panic!("{name}: {error}"));
        State::of(&self.path(name))
    }

    pub(crate) fn resumed(&self, name: &str, steps: usize, more: &str) -> State {
        let more = format!("train.steps = {steps}\n{more}");
        self.try_train(name, &more, true).unwrap_or_else(|error| panic!("{name}: {error}"));
        State::of(&self.path(name))
    }
}

/// What a training ends with.
pub(crate) struct State {
    pub(crate) tensors: BTreeMap<String, Vec<f32>>,
    pub(crate) eval_loss: f64,
}

impl State {
    /// That of a run's newest checkpoint.
    pub(crate) fn of(run: &Path) -> Self {
        let state = Checkpoint::find(run).expect("a checkpoint").checkpoint.state().expect("a state");
        let model = state.model.into_iter().map(|(name, tensor)| (name, tensor.values));
        let carried =
            state.carried.into_iter().map(|(name, tensor)| (format!("carried {name}"), tensor.values));
        let averages = state.average.into_iter().flat_map(|average| average.model);
        let averages = averages.map(|(name, tensor)| (format!("average {name}"), tensor.values));
        let eval_loss = state.progress.eval_loss.expect("an evaluation");
        Self { tensors: model.chain(carried).chain(averages).collect(), eval_loss }
    }

    /// Checks that it is another's to `tolerance`, by the norm of the difference over the norm, parameter by parameter.
    pub(crate) fn check(&self, other: &Self, tolerance: f64, what: &str) {
        self.compare(other, tolerance).unwrap_or_else(|difference| panic!("{what}: {difference}"));
    }

    /// As [`check`](Self::check). The error says what differs.
    pub(crate) fn compare(&self, other: &Self, tolerance: f64) -> Result<(), String> {
        assert!(self.tensors.keys().eq(other.tensors.keys()), "other tensors");
        for (name, values) in &self.tensors {
            let others = &other.tensors[name];
            assert_eq!(values.len(), others.len(), "{name}");
            let norm =
                |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
            let pairs = values.iter().zip(others);
            let difference = norm(&mut pairs.map(|(one, other)| f64::from(one - other)));
            let whole = norm(&mut others.iter().map(|value| f64::from(*value)));
            if difference.is_nan() || difference > tolerance * whole.max(1e-3) {
                return Err(format!("{name} differs by {}", difference / whole));
            }
        }
        let (one, other) = (self.eval_loss, other.eval_loss);
        match (one - other).abs() <= 10.0 * tolerance * other.abs() {
            true => Ok(()),
            false => Err(format!("a loss of {one}, not {other}")),
        }
    }
}
