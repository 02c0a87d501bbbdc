//! Out of memory on one of several devices: the error names it, and its report says what it held.

use oomph_trainer::open;
use std::{num::NonZeroUsize, path::Path};

use oomph::{
    Bytes, Config, Kept, OutOfMemory, Quiet, Registry, Session, Stop, TrainError, TrainOptions,
    memory::{ComputePool, read_device, restart_peak, set_device_limit, set_limit},
    timeline::Category,
    train,
};

use crate::alone;

const LSTM: &str = "\
    model = { name = 'lstm', hidden = 48, layers = 2 }
    memory = { lean = false }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    optimizer = { name = 'sgd', momentum = 0.9 }
    train = { batch = 256, steps = 4, eval_every = 'never' }";

fn session(directory: &Path, more: &str) -> Session {
    let run =
        format!("\nrun = {{ directory = '{}', save_every = '2 steps' }}\n", directory.join("run").display());
    let text = LSTM.to_owned() + &run + more;
    let config = Config::from_toml("devices", &text).unwrap_or_else(|error| panic!("{error}"));
    open(config, &Registry::builtin()).unwrap_or_else(|error| panic!("{error}"))
}

/// Trains with a limit of device 1 alone: so much less than it had in use in a training that was well.
fn fail_on_second(directory: &Path, more: &str, less: Bytes) -> TrainError {
    let options = TrainOptions { skip_plan_check: true, ..TrainOptions::default() };
    // Another test may have had more on it.
    ComputePool::new(1, NonZeroUsize::MIN).unwrap().install(restart_peak);
    let well = session(&directory.join("well"), more);
    set_limit(None);
    train(&well, &options, &mut Quiet, &Stop::new()).unwrap_or_else(|error| panic!("{error}"));
    let peak = read_device(1).peak_in_use_bytes;
    let session = session(directory, more);
    set_limit(None);
    set_device_limit(1, Some(peak.saturating_sub(less)));
    let failed = train(&session, &options, &mut Quiet, &Stop::new());
    set_limit(None);
    failed.expect_err("device 1 has too little")
}

fn check_report(error: &OutOfMemory, title: &str, directory: &Path) {
    let report = error.report.as_ref().expect("a report");
    assert!(report.is_measured && report.title.ends_with(title), "{report}");
    // What was in use is what was above the limit, up to what threads do meanwhile: 1.5 MiB are in use, and a task's
    // workspace has some 40 KiB.
    let share = report.in_use.total().get() as f64 / report.limit_bytes.expect("a limit").get() as f64;
    assert!((0.95..1.05).contains(&share), "{share}: {report}");
    assert!(report.in_use.of(Category::Parameters) > Bytes::default(), "{report}");
    assert_eq!(report.run_dir.as_deref(), Some(&*directory.join("run")));
    let files = report.files.as_ref().expect("it is written");
    assert!(files.text.is_file() && files.text.starts_with(directory.join("run")), "{files:?}");
}

#[test]
fn a_replica_that_runs_out_of_memory_is_named_with_what_it_held() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let error = fail_on_second(directory.path(), "device = { devices = 'cpu,cpu' }", Bytes::new(100_000));
    let TrainError::Rank { rank: 1, source, .. } = &error else { panic!("{error}") };
    let TrainError::OutOfMemory(error) = &**source else { panic!("{source}") };
    // The first one makes the momentum, which the second has from the start.
    assert_eq!(error.step, Some(2));
    check_report(error, "batch 256", directory.path());
    let report = error.report.as_ref().unwrap();
    let files = report.files.as_ref().unwrap();
    assert!(files.text.ends_with("out-of-memory-rank-1/report.txt"), "{files:?}");
    // The first save would have come behind it.
    assert!(matches!(report.kept, Some(Kept::Nothing { .. })), "{:?}", report.kept);
}

#[test]
fn a_part_that_runs_out_of_memory_is_named_with_what_it_held() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let pipeline = "device = { devices = 'cpu,cpu', strategy = 'pipeline' }";
    let error = fail_on_second(directory.path(), pipeline, Bytes::new(50_000));
    let TrainError::OnDevice { index: 1, source, .. } = &error else { panic!("{error}") };
    let TrainError::OutOfMemory(error) = &**source else { panic!("{source}") };
    check_report(error, "device 1", directory.path());
    // One process has all of the model: the step is taken back and what was before it saved.
    let kept = &error.report.as_ref().unwrap().kept;
    assert!(matches!(kept, Some(Kept::LastStep { step: 1, .. })), "{kept:?}");
}
