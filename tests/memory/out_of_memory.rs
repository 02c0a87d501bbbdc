//! Out of memory as an answer, wherever it comes: the right phase and stage are named, what is advised fits, and what
//! was trained before can be gone on from.

use oomph_advice::varied;
use oomph_config::Change;
use oomph_trainer::open;
use std::{
    cell::RefCell,
    path::Path,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use oomph::{
    Bytes, Config, Event, Kept, Observer, OutOfMemory, Phase, PlanOptions, ProfileOptions, Quiet, Registry,
    Resume, Session, Shortage, Stop, Tick, TrainError, TrainOptions,
    memory::{Account, charge},
    plan, profile,
    runs::state::Checkpoint,
    timeline::{SpanKind, Timeline},
    train,
};

use crate::alone;

/// Each of its tensors is larger than the buffers that kernels keep for a thread, of which there may be one more or less.
const RESNET: &str = "\
    model = { name = 'resnet18', stem = 'small', width = 8 }
    data = { source = 'digits', workers = 0 }
    optimizer = { name = 'adam' }
    train = { batch = 1400, steps = 4, eval_every = 'never' }";

/// Not lean, so that backward needs most of all phases.
const LSTM: &str = "\
    model = { name = 'lstm', hidden = 48, layers = 2 }
    memory = { lean = false }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    optimizer = { name = 'sgd', momentum = 0.9, clip_global_norm = 1.0 }
    train = { batch = 256, steps = 4, eval_every = 'never' }";

/// Its parameters are few and its samples large.
const PICTURES: &str = "\
    model = { name = 'resnet18', stem = 'small', width = 1 }
    data = { source = 'synthetic', height = 64, width = 64, train_samples = 64, test_samples = 64, workers = 0 }
    optimizer = { name = 'sgd' }
    train = { batch = 2, steps = 4, eval_batch = 64, eval_every = '2 steps' }";

/// What the optimizer makes in its first step is most of it.
const OPTIMIZER: &str = "\
    model = { name = 'lstm', hidden = 256 }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    optimizer = { name = 'adan' }
    train = { batch = 2, steps = 4, eval_every = 'never' }";

fn session(text: &str, directory: &Path) -> Session {
    let run = format!("\n[run]\ndirectory = '{}'\nsave_every = '1 steps'", directory.join("run").display());
    let config = Config::from_toml("injected", &(text.to_owned() + &run)).unwrap_or_else(|e| panic!("{e}"));
    open(config, &Registry::builtin()).unwrap_or_else(|error| panic!("{error}"))
}

/// Trains with a limit; the plan is not asked.
fn train_within(
    session: &Session,
    limit: Option<Bytes>,
    observer: &mut dyn Observer,
) -> Result<oomph::Done, TrainError> {
    let options = TrainOptions { skip_plan_check: true, ..TrainOptions::default() };
    oomph::memory::set_limit(limit);
    let result = train(session, &options, observer, &Stop::new());
    oomph::memory::set_limit(None);
    result
}

#[track_caller]
fn out_of_memory(result: Result<oomph::Done, TrainError>) -> OutOfMemory {
    match result {
        Err(TrainError::OutOfMemory(error)) => *error,
        other => panic!("{other:?}"),
    }
}

/// A limit that is first crossed in a phase, in a stage where one is asked for: between the most that is in use before
/// and what is there, where that rises most.
fn limit_for(seen: &Timeline, phase: Phase, stage: &str) -> Option<Bytes> {
    // What is there already, as buffers of kernels.
    let mut highest = oomph::memory::read().in_use_bytes.get();
    let mut rises = Vec::new();
    for (event, level) in seen.levels().iter().enumerate() {
        let total = level.total().get();
        let (phase_there, stage_there) = seen.place_of(event as u32);
        if total > highest && phase_there == phase.name() && (stage.is_empty() || stage_there == stage) {
            rises.push((total - highest, Bytes::new(u64::midpoint(highest, total))));
        }
        highest = highest.max(total);
    }
    rises.into_iter().max().map(|(_, limit)| limit)
}

/// The first steps and an evaluation as they are: measured, but the making of the model, of which there is only a plan.
fn seen(session: &Session, phase: Phase) -> Timeline {
    if phase == Phase::Init {
        return plan(session, PlanOptions::default()).unwrap();
    }
    let options = ProfileOptions { warmup: 0, steps: 2, ..ProfileOptions::default() };
    let profile = profile(session, options, &mut Quiet).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(profile.out_of_memory, None);
    profile.first.measured
}

/// The most that is planned in a phase of a step.
fn most_in(planned: &Timeline, step: &str, phase: Phase) -> u64 {
    let named = |kind, name: &str| {
        let spans = planned.spans_of(kind).filter(move |span| planned.names.text(span.name) == name);
        spans.map(|span| span.start..span.end).collect::<Vec<_>>()
    };
    let step = named(SpanKind::Step, step).remove(0);
    let phases = named(SpanKind::Phase, phase.name()).into_iter().filter(|phase| step.contains(&phase.start));
    phases.map(|phase| planned.peak_within(phase).categories.total().get()).max().expect("it has that phase")
}

/// Each proposed set of settings is run, and fits.
fn follow(session: &Session, report: &oomph::OutOfMemoryReport, limit: Bytes) -> usize {
    for advice in &report.levers {
        let directory = tempfile::tempdir().unwrap();
        let mut changes = advice.changes.clone();
        changes.push(Change::RunDirectory(directory.path().join("run")));
        let varied = varied(session, &changes).unwrap_or_else(|error| panic!("{changes:?}: {error}"));
        let done = train_within(&varied, Some(limit), &mut Quiet);
        assert!(done.is_ok(), "{changes:?} within {limit}: {done:?}");
    }
    report.levers.len()
}

#[test]
fn wherever_memory_runs_out_the_place_is_named_and_the_advice_fits() {
    let _alone = alone();
    let cases = [
        (RESNET, Phase::Init, ""),
        (RESNET, Phase::Forward, "layer1.0"),
        (RESNET, Phase::Backward, ""),
        (LSTM, Phase::Forward, "lstm.0"),
        (LSTM, Phase::Forward, "lstm.1"),
        (LSTM, Phase::Backward, ""),
        (PICTURES, Phase::Data, ""),
        (PICTURES, Phase::Forward, "stem"),
        (PICTURES, Phase::Eval, ""),
        (OPTIMIZER, Phase::Step, ""),
        (OPTIMIZER, Phase::Init, ""),
    ];
    let mut advised = 0;
    for (text, phase, stage) in cases {
        let directory = tempfile::tempdir().unwrap();
        let session = session(text, directory.path());
        let about = format!("{phase} {stage} of {}", session.architecture.name());
        // A plan does not know which threads have their buffers from earlier cases. What was just measured has them.
        let seen = seen(&session, phase);
        let limit = limit_for(&seen, phase, stage).unwrap_or_else(|| panic!("{about}: nothing rises there"));
        let error = out_of_memory(train_within(&session, Some(limit), &mut Quiet));
        assert_eq!(error.phase, phase, "{about}: {error}");
        assert!(error.scope.starts_with(stage), "{about}: {error}");
        let report = error.report.as_ref().unwrap_or_else(|| panic!("{about}: {error} is not explained"));
        assert!(report.is_measured && !report.holders.is_empty(), "{about}");
        assert!(report.in_use.total() > limit, "{about}: {} of {limit}", report.in_use.total());
        advised += follow(&session, report, limit);
        check_kept(&session, report);
    }
    assert!(advised >= 6, "{advised}");
}

/// What is said to be kept is there, whole.
fn check_kept(session: &Session, report: &oomph::OutOfMemoryReport) {
    match report.kept.as_ref().expect("a training keeps something or says why not") {
        Kept::LastStep { step, checkpoint } | Kept::Before { step, checkpoint, .. } => {
            let found = Checkpoint::open(checkpoint).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found.progress().step, *step);
            assert!(found.state().is_ok());
        }
        Kept::Nothing { .. } => {
            let run = session.config.run.directory.as_ref().unwrap();
            assert!(Checkpoint::find(run).is_err());
        }
    }
}

/// Lowers the limit once a step is done, or an event of a name came.
struct Lower {
    after_step: usize,
    limit: Bytes,
}

impl Observer for Lower {
    fn event(&mut self, _event: &Event) {}

    fn tick(&mut self, tick: Tick) {
        if matches!(tick, Tick::Step { step } if step == self.after_step) {
            oomph::memory::set_limit(Some(self.limit));
        }
    }
}

#[test]
fn a_step_that_fails_is_taken_back_and_the_run_goes_on_as_if_it_never_was() {
    let _alone = alone();
    // Running statistics change in every micro-batch, and the last one fails in backward.
    let text = RESNET.replace("batch = 1400", "batch = 24").replace("steps = 4", "steps = 5");
    let text = text + "\nmemory = { micro_batch = 10 }";
    let whole = tempfile::tempdir().unwrap();
    let uninterrupted = session(&text, whole.path());
    let end = train_within(&uninterrupted, None, &mut Quiet).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let session = session(&text, directory.path());
    let planned = plan(&session, PlanOptions::default()).unwrap();
    // In the third step the state is there from the start, and backward needs most.
    let [forward, backward] =
        [Phase::Forward, Phase::Backward].map(|phase| most_in(&planned, "step 3", phase));
    assert!(backward > forward, "{backward} {forward}");
    let limit = Bytes::new(u64::midpoint(forward, backward));
    let error = out_of_memory(train_within(&session, None, &mut Lower { after_step: 3, limit }));
    assert_eq!((error.phase, error.step), (Phase::Backward, Some(4)), "{error}");
    let Some(Kept::LastStep { step: 3, checkpoint }) = &error.report.as_ref().unwrap().kept else {
        panic!("{error:?}")
    };
    assert!(checkpoint.ends_with("step-00000003"));
    let options = TrainOptions { resume: Resume::Latest, skip_plan_check: true, ..TrainOptions::default() };
    let resumed = train(&session, &options, &mut Quiet, &Stop::new()).unwrap();
    for file in ["model.safetensors", "optimizer.safetensors"] {
        let bytes = |done: &oomph::Done| std::fs::read(done.checkpoint.join(file)).unwrap();
        assert!(bytes(&resumed) == bytes(&end), "{file} differs");
    }
}

#[test]
fn a_step_that_is_over_the_limit_in_its_optimizer_is_done() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let session = session(OPTIMIZER, directory.path());
    oomph::memory::set_limit(None);
    let limit = limit_for(&seen(&session, Phase::Step), Phase::Step, "").unwrap();
    let error = out_of_memory(train_within(&session, Some(limit), &mut Quiet));
    assert_eq!((error.phase, error.step), (Phase::Step, Some(1)), "{error}");
    let kept = error.report.unwrap().kept;
    assert!(matches!(kept, Some(Kept::LastStep { step: 1, .. })), "{kept:?}");
}

/// Takes memory of the device while a checkpoint is told.
#[derive(Default)]
struct Hoard(Rc<RefCell<Vec<Vec<f32>>>>);

impl Observer for Hoard {
    fn event(&mut self, event: &Event) {
        if matches!(event, Event::Checkpoint(saved) if saved.step == 3) {
            let limit = Bytes::new(oomph::memory::read().in_use_bytes.get() + 1000);
            oomph::memory::set_limit(Some(limit));
            charge(Account::Device, || self.0.borrow_mut().push(vec![0.0; 1 << 20]));
        }
    }
}

#[test]
fn a_checkpoint_that_is_over_the_limit_is_complete() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let session = session(&LSTM.replace("batch = 256", "batch = 16"), directory.path());
    let error = out_of_memory(train_within(&session, None, &mut Hoard::default()));
    // A checkpoint is told when it is on disk: the next step is done then, and kept too.
    assert_eq!((error.phase, error.step), (Phase::Checkpoint, Some(4)), "{error}");
    let report = error.report.as_ref().unwrap();
    assert!(matches!(report.kept, Some(Kept::LastStep { step: 4, .. })), "{:?}", report.kept);
    // The 4 MiB that no plan knows are told.
    assert!(report.unplanned_bytes >= Bytes::mib(3), "{}", report.unplanned_bytes);
    check_kept(&session, report);
}

/// Plays the thread of a GPU that fails.
struct Fail {
    message: &'static str,
}

impl Observer for Fail {
    fn event(&mut self, _event: &Event) {}

    fn tick(&mut self, tick: Tick) {
        if matches!(tick, Tick::Step { step: 3 }) {
            oomph::engine::device_failure::note_panic(Some("DSD-0-0"), self.message);
        }
    }
}

#[test]
fn a_device_that_failed_is_not_trusted_with_its_state() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let session = session(LSTM, directory.path());
    let message =
        "failed to reserve 1048576 bytes of device memory: out of device memory allocating 2097152 bytes";
    let error = out_of_memory(train_within(&session, None, &mut Fail { message }));
    assert!(
        matches!(error.shortage, Shortage::Device { requested_bytes: Some(bytes), .. } if bytes == Bytes::mib(1))
    );
    let report = error.report.as_ref().unwrap();
    assert!(matches!(report.kept, Some(Kept::Before { step: 2, .. })), "{:?}", report.kept);
    check_kept(&session, report);

    let directory = tempfile::tempdir().unwrap();
    let session = self::session(LSTM, directory.path());
    let message = "DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access was encountered\")";
    let failed = train_within(&session, None, &mut Fail { message });
    assert!(
        matches!(failed, Err(TrainError::Engine(oomph::engine::EngineError::Device { .. }))),
        "{failed:?}"
    );
}

/// Learns of the first step.
struct Began<'a>(&'a AtomicBool);

impl Observer for Began<'_> {
    fn event(&mut self, _event: &Event) {}

    fn tick(&mut self, tick: Tick) {
        if matches!(tick, Tick::Step { .. }) {
            self.0.store(true, Relaxed);
        }
    }
}

/// A GPU fails at every operation in its queue, also while the error is explained.
#[test]
fn a_device_that_goes_on_failing_gets_its_report() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let session = session(LSTM, directory.path());
    let message =
        "failed to reserve 1048576 bytes of device memory: out of device memory allocating 2097152 bytes";
    let [is_failing, is_over] = [AtomicBool::new(false), AtomicBool::new(false)];
    let trained = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                if is_failing.load(Relaxed) {
                    oomph::engine::device_failure::note_panic(Some("DSD-0-0"), message);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let trained = train_within(&session, None, &mut Began(&is_failing));
        is_over.store(true, Relaxed);
        trained
    });
    oomph::engine::device_failure::apart(|| ());
    let error = out_of_memory(trained);
    assert!(error.report.is_some(), "{error}");
}

#[test]
fn what_cannot_fit_is_refused_before_there_is_a_run_directory() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(LSTM, directory.path());
    let planned = plan(&session, PlanOptions::default()).unwrap().peak().categories.total().get() as f64;
    // By more than the planner errs.
    session.limit_bytes = Some(Bytes::new((planned * 0.97) as u64));
    let report = directory.path().join("report");
    let options = TrainOptions { report: Some(report.clone()), ..TrainOptions::default() };
    let error = out_of_memory(train(&session, &options, &mut Quiet, &Stop::new()));
    assert!(matches!(error.shortage, Shortage::Planned { .. }), "{error}");
    assert!(!directory.path().join("run").exists() && report.join("report.json").is_file());
    assert!(error.hint().is_some_and(|hint| hint.contains("--set memory.")), "{:?}", error.hint());
    assert!(!error.report.unwrap().is_measured);
    // By less it may be that it fits.
    session.limit_bytes = Some(Bytes::new((planned * 0.99) as u64));
    assert!(train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new()).is_ok());
}
