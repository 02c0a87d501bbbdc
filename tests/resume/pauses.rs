//! A training that pauses where it was asked to, and resumes, ends with the bytes of one without a pause.

use std::path::Path;

use oomph::{Config, Done, Registry, Resume, Stop, TrainOptions, open};
use oomph_runs::{
    Ended, Quiet,
    state::{Checkpoint, TrainState},
};

use crate::{LANGUAGE, LSTM, RESNET, Recipe};

fn train_until(recipe: &Recipe, run: &Path, pause_at: Option<usize>) -> Done {
    let toml = recipe.config.replace("run = {", &format!("run = {{ directory = '{}',", run.display()));
    let session = open(Config::from_toml(recipe.name, &toml).unwrap(), &Registry::builtin()).unwrap();
    let options = TrainOptions { resume: Resume::Latest, pause_at, ..TrainOptions::default() };
    oomph::train(&session, &options, &mut Quiet, &Stop::new()).unwrap()
}

fn end(run: &Path) -> TrainState {
    let mut state = Checkpoint::find(run).unwrap().checkpoint.state().unwrap();
    state.progress.seconds = 0.0;
    state
}

/// Steps at which epochs end, in their middle, twice the same, and beyond the end.
fn check(recipe: &Recipe, steps: usize, pauses: &[usize]) {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("whole");
    assert_eq!(train_until(recipe, &whole, None).ended, Ended::Complete);
    let run = directory.path().join("paused");
    for &pause in pauses {
        let done = train_until(recipe, &run, Some(pause));
        assert_eq!((done.step, done.ended), (pause, Ended::Paused));
    }
    // At its end there is nothing to pause.
    let done = train_until(recipe, &run, Some(steps));
    assert_eq!((done.step, done.ended), (steps, Ended::Complete));
    assert!(end(&run) == end(&whole), "the paused {} ended otherwise", recipe.name);
}

#[test]
fn a_paused_resnet_ends_with_the_same_bytes() {
    check(&RESNET, 120, &[1, 23, 23, 46, 70]);
}

#[test]
fn a_paused_lstm_ends_with_the_same_bytes() {
    check(&LSTM, 150, &[29, 58, 60, 149]);
}

#[test]
fn a_paused_language_model_ends_with_the_same_bytes() {
    check(&LANGUAGE, 150, &[26, 40, 104]);
}
