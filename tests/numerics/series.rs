//! A time series in a CSV file, foretold by the LSTM.

use std::{fmt::Write, fs};

use oomph_core::Split;
use oomph_runs::Quiet;
use oomph_trainer::{Stop, TrainOptions, train};

use crate::digits::session;

/// Two waves that no window holds as a whole, and their sum, which is what is foretold.
fn waves(rows: usize) -> String {
    let mut text = "step,slow,fast,sum\n".to_owned();
    for step in 0..rows {
        let (slow, fast) = ((step as f64 * 0.11).sin(), (step as f64 * 0.47).cos());
        writeln!(text, "{step},{slow:.5},{fast:.5},{:.5}", 20.0 + 3.0 * slow + fast)
            .expect("written to memory");
    }
    text
}

#[test]
fn an_lstm_learns_to_predict_a_series() {
    let place = tempfile::tempdir().expect("a temporary directory");
    fs::write(place.path().join("waves.csv"), waves(600)).expect("a file");
    let session = session(&format!(
        "[model]\nname = 'lstm'\nhidden = 16\n\
         [data]\nsource = 'csv'\npath = '{0}/waves.csv'\ncolumns = ['slow', 'fast']\ntargets = ['sum']\n\
         steps = 12\nhorizon = 3\nworkers = 0\n\
         [train]\nepochs = 15\nbatch = 32\nseed = 0\n\
         [optimizer]\nname = 'adam'\nlr = 1e-2\n\
         [run]\ndirectory = '{0}/run'\nlog_every = 100\nsave_every = 'never'",
        place.path().display()
    ));
    assert_eq!((session.source.len(Split::Train), session.source.len(Split::Test)), (466, 106));
    let done = train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new()).expect("it trains");
    let loss = done.eval_loss.expect("it is evaluated");
    eprintln!("mean squared error, normalised: {loss:.5}");
    // Foretelling the mean has 1, and the last value seen about 0.3.
    assert!(loss < 0.01, "{loss}");
    assert_eq!(done.eval_accuracy, None);
}
