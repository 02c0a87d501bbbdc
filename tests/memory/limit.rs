//! A limit rehearses a smaller device: the step that goes above it ends in an error that says where.

use oomph::{Config, Phase, Quiet, Registry, Shortage, Stop, TrainError, TrainOptions, train};
use oomph_trainer::{open, open_to_plan};

use crate::limits::limit;

fn run(limit: &str, record: usize) -> (tempfile::TempDir, Result<oomph::Done, TrainError>) {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 16 }}\n\
         data = {{ source = 'digits', workers = 0 }}\n\
         train = {{ steps = 3, batch = 32, eval_every = 'never' }}\n\
         memory = {{ limit = {limit}, record = {record} }}\n\
         run = {{ directory = '{}' }}",
        directory.path().join("run").display()
    );
    let session = open(Config::from_toml("limit", &text).unwrap(), &Registry::builtin()).unwrap();
    // The plan would refuse it before it begins.
    let options = TrainOptions { skip_plan_check: true, ..TrainOptions::default() };
    let result = train(&session, &options, &mut Quiet, &Stop::new());
    oomph::memory::set_limit(None);
    (directory, result)
}

#[test]
fn a_step_above_the_limit_ends_in_an_error_that_says_where() {
    let _alone = crate::alone();
    let (directory, result) = run(&limit(6 << 10), 100_000);
    let Err(TrainError::OutOfMemory(error)) = result else { panic!("{result:?}") };
    assert_eq!((error.phase, error.step), (Phase::Forward, Some(1)));
    assert!(!error.scope.is_empty(), "{error}");
    let Shortage::Limit { requested_bytes, in_use_bytes, limit_bytes, .. } = error.shortage else {
        panic!("{error}")
    };
    assert!(in_use_bytes > limit_bytes, "{error}");
    assert!(in_use_bytes.get() - requested_bytes.get() <= limit_bytes.get(), "{error}");
    let report = error.report.expect("the training explains it");
    assert!(report.is_measured);
    let files = report.files.expect("there is room on the disk");
    for file in [files.text, files.json, files.timeline.expect("it is small")] {
        assert!(file.starts_with(directory.path()) && file.is_file());
    }
}

#[test]
fn what_is_not_recorded_is_not_shown() {
    let _alone = crate::alone();
    let (_directory, result) = run(&limit(6 << 10), 0);
    let Err(TrainError::OutOfMemory(error)) = result else { panic!("{result:?}") };
    let report = error.report.expect("the training explains it");
    assert!(!report.is_measured);
}

#[test]
fn what_the_plan_says_fits_does_fit() {
    let _alone = crate::alone();
    let text = "model = { name = 'resnet18', stem = 'small', width = 16 }\n\
                data = { source = 'digits', workers = 0 }\n\
                train = { steps = 3, batch = 32, eval_every = 'never' }";
    let session = open_to_plan(Config::from_toml("limit", text).unwrap(), &Registry::builtin()).unwrap();
    let planned = oomph::plan(&session, oomph::PlanOptions::default()).unwrap().peak().categories.total();
    let just_enough = oomph::Bytes::new((planned.get() as f64 * 1.01) as u64);
    let (_directory, result) = run(&just_enough.get().to_string(), 0);
    assert!(result.is_ok(), "{result:?}");
    let too_little = oomph::Bytes::new((planned.get() as f64 * 0.95) as u64);
    let (_directory, result) = run(&too_little.get().to_string(), 0);
    assert!(matches!(result, Err(TrainError::OutOfMemory(_))), "{result:?}");
}
