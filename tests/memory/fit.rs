//! `memory.fit = "auto"`: what it chooses fits, is the fastest by plan, and trains the same weights.

use oomph::{
    Config, Event, Observer, PlanOptions, Quiet, Registry, Session, Stop, TrainOptions, memory::read, train,
};
use oomph_advice::{
    planning::{Frontier, fit_changes, frontier, plan_with_time, planned_peak},
    varied,
};
use oomph_config::{Change, MicroBatch, Recompute, sections::memory::Gradients};
use oomph_core::Bytes;
use oomph_trainer::{Resume, measure::measure, open};

const RESNET: &str = "model = { name = 'resnet18', stem = 'small', width = 16 }
    data = { source = 'synthetic', height = 24, width = 24, workers = 0, train_samples = 64, test_samples = 8 }
    optimizer = { name = 'adamw' }";
const LSTM: &str = "model = { name = 'lstm', hidden = 96, layers = 2 }
    data = { source = 'synthetic', kind = 'sequence', steps = 24, features = 16, workers = 0, train_samples = 64, test_samples = 8 }
    optimizer = { name = 'sgd', momentum = 0.9 }";

fn session(model: &str, settings: &str) -> Session {
    let text = format!("{model}\ntrain = {{ batch = 16, steps = 6, eval_batch = 1 }}\n{settings}");
    let config = Config::from_toml("fit", &text).expect("a config");
    open(config, &Registry::builtin()).expect("a session")
}

/// The session under a limit, with `memory.fit = "auto"` if it `fits`.
fn limited(model: &str, limit: Bytes, fit: &str) -> Session {
    session(
        model,
        &format!("memory = {{ limit = {}, fit = '{fit}', leak_check = false, record = 0 }}", limit.get()),
    )
}

fn peak(session: &Session) -> u64 {
    planned_peak(session, PlanOptions::default()).expect("a plan").get()
}

/// A limit between the lowest that the levers reach and what the session needs without them.
fn middle(model: &str) -> Bytes {
    let points = frontier(&session(model, ""), PlanOptions::default()).expect("a frontier").points;
    let least = points.last().expect("a point").planned_peak_bytes.get();
    Bytes::new((peak(&session(model, "")) + least * 2) / 3 * 101 / 100)
}

/// The planned seconds of a step, in the units of a machine without calibration where there is none.
fn seconds(session: &Session) -> f64 {
    oomph_advice::planning::seconds_per_sample(session, oomph_engine::session::backend(session))
        .expect("a plan")
}

/// All combinations of a grid, with their planned peaks and times.
fn grid(model: &str) -> Vec<(u64, f64)> {
    let plain = session(model, "");
    let mut found = Vec::new();
    for micro_batch in [16, 8, 6, 4, 3, 2] {
        for recompute in [Recompute::None, Recompute::Stages] {
            for gradients in [Gradients::Keep, Gradients::Release] {
                let changes = [
                    Change::MicroBatch(MicroBatch::Samples(micro_batch)),
                    Change::Recompute(recompute.clone()),
                    Change::Gradients(gradients),
                ];
                let varied = varied(&plain, &changes).expect("a combination");
                found.push((peak(&varied), seconds(&varied)));
            }
        }
    }
    found
}

#[test]
fn no_combination_that_fits_is_faster_by_plan() {
    let _alone = crate::alone();
    for model in [RESNET, LSTM] {
        let grid = grid(model);
        let (most, least) = (grid[0].0, grid.iter().map(|(peak, _)| *peak).min().expect("a grid"));
        for share in [1.1, 0.9, 0.7, 0.5, 0.3, 0.1] {
            let limit = Bytes::new((least as f64 * 1.011 + (most - least) as f64 * share) as u64);
            let fitted = limited(model, limit, "auto");
            let found = peak(&fitted);
            assert!(found as f64 * 1.01 <= limit.get() as f64, "{found} of {limit} at {share}");
            let rivals = grid.iter().filter(|(peak, _)| *peak as f64 * 1.01 <= limit.get() as f64);
            let best = rivals.map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
            let own = seconds(&fitted);
            assert!(own <= best * 1.006, "{own} s instead of {best} s under {limit}");
        }
    }
}

#[test]
fn what_it_chooses_stays_within_the_limit() {
    let _alone = crate::alone();
    for model in [RESNET, LSTM] {
        let limit = middle(model);
        let measured = measure(&session(model, ""), 6, &mut Quiet).expect("it trains");
        let fitted = limited(model, limit, "auto");
        assert!(
            !fit_changes(&fitted, PlanOptions::default()).expect("a choice").expect("it chooses").is_empty()
        );
        let within = measure(&fitted, 6, &mut Quiet).expect("it fits");
        assert!(within.peak_in_use_bytes <= Some(limit), "{:?} of {limit}", within.peak_in_use_bytes);
        assert!(measured.peak_in_use_bytes > Some(limit));
    }
}

#[test]
fn without_need_it_changes_nothing() {
    let _alone = crate::alone();
    let changes = |limit: u64, settings: &str| {
        let session = session(RESNET, &format!("memory = {{ limit = {limit}, fit = 'auto', {settings} }}"));
        fit_changes(&session, PlanOptions::default()).expect("a choice").expect("it chooses")
    };
    assert_eq!(changes(1 << 33, ""), []);
    // A micro-batch that the configuration sets stays.
    assert_eq!(changes(1 << 33, "micro_batch = 4"), []);
    let lean = changes(peak(&session(RESNET, "")) * 9 / 10, "micro_batch = 16");
    assert!(!lean.is_empty() && lean.iter().all(|change| change.key() != "memory.micro_batch"), "{lean:?}");
    // `off` chooses nothing.
    let off = limited(RESNET, Bytes::mib(1), "off");
    assert_eq!(fit_changes(&off, PlanOptions::default()).expect("no choice"), None);
}

#[test]
fn only_allowed_levers_change_the_mathematics() {
    let _alone = crate::alone();
    let plain = session(RESNET, "");
    let least = frontier(&plain, PlanOptions::default())
        .expect("a frontier")
        .points
        .last()
        .expect("a point")
        .planned_peak_bytes;
    let limit = least.get() * 95 / 100;
    let choice = |allow: &str| {
        let session =
            session(RESNET, &format!("memory = {{ limit = {limit}, fit = 'auto', allow = {allow} }}"));
        let changes = fit_changes(&session, PlanOptions::default()).expect("a choice").expect("it chooses");
        let changing = |change: &&Change| matches!(change, Change::State(_) | Change::Precision(_));
        (
            changes.iter().filter(changing).cloned().collect::<Vec<_>>(),
            peak(&session) as f64 * 1.01 <= limit as f64,
        )
    };
    assert_eq!(choice("'none'"), (Vec::new(), false));
    let (changing, fits) = choice("['int8_state']");
    assert!(fits && changing.iter().all(|change| change.key() == "optimizer.state") && changing.len() == 1);
}

#[test]
fn a_frontier_falls_in_memory_and_rises_in_time() {
    let _alone = crate::alone();
    let points = frontier(&session(RESNET, ""), PlanOptions::default()).expect("a frontier").points;
    assert!(points.len() > 2 && points[0].changes.is_empty(), "{points:?}");
    for pair in points.windows(2) {
        assert!(pair[1].planned_peak_bytes < pair[0].planned_peak_bytes, "{pair:?}");
        assert!(pair[1].seconds >= pair[0].seconds * 0.99, "{pair:?}");
    }
}

#[test]
fn a_frontier_has_what_is_chosen_under_the_limit() {
    let _alone = crate::alone();
    for model in [RESNET, LSTM] {
        let limit = middle(model);
        let own = fit_changes(&limited(model, limit, "auto"), PlanOptions::default()).expect("a choice");
        let Frontier { points, chosen } =
            frontier(&limited(model, limit, "off"), PlanOptions::default()).expect("a frontier");
        assert_eq!(Some(&points[chosen.expect("something fits")].changes), own.as_ref());
        assert!(points.is_sorted_by(|one, other| one.planned_peak_bytes > other.planned_peak_bytes));
    }
    // Nothing fits into so little.
    let none = frontier(&limited(RESNET, Bytes::mib(1), "off"), PlanOptions::default()).expect("a frontier");
    assert_eq!(none.chosen, None);
}

/// What a run says at its start, and its last loss.
#[derive(Default)]
struct Told {
    fitted: Option<oomph_runs::Fitted>,
    loss: f64,
    most: u64,
}

impl Observer for Told {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Fitted(fitted) => self.fitted = Some(fitted.clone()),
            Event::Step(step) => self.loss = step.loss,
            _ => {}
        }
        self.most = self.most.max(read().peak_in_use_bytes.get());
    }
}

#[test]
fn a_resumed_training_keeps_the_choice() {
    let _alone = crate::alone();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let told = |limit: u64, steps: usize, resume: Resume, directory: &str| {
        let directory = folder.path().join(directory);
        let settings = format!(
            "run = {{ directory = '{}', log_every = 1 }}
             memory = {{ limit = {limit}, fit = 'auto', leak_check = false, record = 0 }}",
            directory.display()
        );
        let text = format!("{LSTM}\ntrain = {{ batch = 16, steps = {steps}, eval_batch = 1 }}\n{settings}");
        let session =
            open(Config::from_toml("fit", &text).expect("a config"), &Registry::builtin()).expect("it opens");
        let mut told = Told::default();
        let options = TrainOptions { resume, ..TrainOptions::default() };
        train(&session, &options, &mut told, &Stop::new()).expect("it trains");
        told
    };
    let limit = middle(LSTM).get();
    let whole = told(limit, 8, Resume::No, "whole");
    let first = told(limit, 4, Resume::No, "parts");
    assert_eq!(whole.fitted, first.fitted);
    assert!(first.fitted.is_some() && whole.most <= limit);
    // Twice the memory would make another choice.
    let second = told(limit * 4, 8, Resume::Latest, "parts");
    assert_eq!(second.fitted.map(|it| it.settings), first.fitted.map(|it| it.settings));
    assert_eq!(second.loss.to_bits(), whole.loss.to_bits());
}

#[test]
fn planned_times_are_those_of_the_choice() {
    let _alone = crate::alone();
    let fitted = limited(RESNET, middle(RESNET), "auto");
    let (timeline, _) = plan_with_time(&fitted, PlanOptions::default()).expect("a plan");
    assert_eq!(timeline.needed_bytes().get(), peak(&fitted));
    assert!(seconds(&fitted) > seconds(&session(RESNET, "")));
}

#[test]
fn replicas_shard_where_that_fits() {
    let of = |settings: &str| session(RESNET, &format!("device.devices = 'cpu,cpu,cpu'\n{settings}"));
    let plain = peak(&of(""));
    let sharded = peak(&of("device.shard = 'gradients'\n"));
    assert!(sharded < plain);
    // The micro-batch is one sample already for some ranks, and what is left are the optimizer's state and the gradients.
    let limit = Bytes::new(sharded + sharded / 50);
    let chooses = of(&format!("memory = {{ limit = {}, fit = 'auto' }}", limit.get()));
    let changes = fit_changes(&chooses, PlanOptions::default()).expect("a plan").expect("a choice");
    assert!(changes.iter().any(|change| matches!(change, Change::Shard(_))), "{changes:?}");
    assert!(peak(&chooses) <= limit.get());
}
