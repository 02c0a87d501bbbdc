//! Learning rates against PyTorch's schedulers, against hand-made tables, and within their bounds for any settings.

use std::{collections::BTreeSet, fs};

use oomph_config::{
    Anneal, Config, Drops, Schedule as Settings, ScheduleKind, Warmup, sections::schedule::WarmupLength,
};
use oomph_trainer::LrSchedule;
use proptest::prelude::*;
use serde_json::Value;

use crate::{compare::Comparison, golden};

/// Relative, or absolute for a rate of 0: both sides compute in f64, where the closed forms and PyTorch's recursive
/// ones are 1.4e-15 apart.
const TOLERANCE: f64 = 1e-12;

fn schedule(lr: f64, settings: &str, steps: usize, steps_per_epoch: usize) -> LrSchedule {
    let text = format!("optimizer = {{ lr = {lr} }}\nschedule = {{ {settings} }}");
    let config = Config::from_toml("schedules", &text).unwrap();
    LrSchedule::new(&config.schedule, config.optimizer.lr, steps, steps_per_epoch)
}

#[test]
fn rates_are_those_of_torch() {
    // Golden name; maximum or base rate; settings; optimizer steps of the run.
    let cases = [
        ("one_cycle_cos", 0.2, "name = 'one-cycle'", 100),
        ("one_cycle_linear", 0.2, "name = 'one-cycle', anneal = 'linear'", 100),
        ("cosine", 0.1, "name = 'cosine', final_lr = 0.001", 100),
        ("step", 0.1, "name = 'step', every_steps = 30", 100),
        ("warmup_from_zero", 0.1, "warmup_steps = 10", 30),
        ("warmup_linear_lr", 0.1, "warmup_steps = 10, warmup_start = 0.1", 30),
    ];
    let text = fs::read_to_string(golden::path("schedules.json")).unwrap();
    let stored: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let names: BTreeSet<_> = stored.keys().map(String::as_str).collect();
    assert_eq!(names, cases.iter().map(|(name, ..)| *name).collect(), "every golden schedule is compared");
    for (name, lr, settings, steps) in cases {
        let schedule = schedule(lr, settings, steps, 10);
        let mut comparison = Comparison::new(name, TOLERANCE);
        for (step, expected) in stored[name]["lr"].as_array().unwrap().iter().enumerate() {
            let expected = expected.as_f64().unwrap();
            let scale = if expected == 0.0 { 1.0 } else { expected };
            comparison.error(&format!("step {step}"), (schedule.lr(step) - expected) / scale);
        }
        comparison.finish();
    }
}

#[test]
fn rates_change_where_the_settings_say() {
    // 100 steps, 5 an epoch, from a rate of 1: (step, rate).
    let check = |settings: &str, expected: &[(usize, f64)]| {
        let schedule = schedule(1.0, settings, 100, 5);
        for &(step, rate) in expected {
            let found = schedule.lr(step);
            assert!((found - rate).abs() <= TOLERANCE, "`{settings}` at step {step}: {found}, not {rate}");
        }
    };
    check("name = 'constant'", &[(0, 1.0), (50, 1.0), (99, 1.0), (1000, 1.0)]);
    check(
        "name = 'step', every_steps = 7, gamma = 0.5",
        &[(0, 1.0), (6, 1.0), (7, 0.5), (13, 0.5), (14, 0.25)],
    );
    check(
        "name = 'step', every_epochs = 2, gamma = 0.5",
        &[(0, 1.0), (9, 1.0), (10, 0.5), (19, 0.5), (20, 0.25)],
    );
    check(
        "name = 'step', milestones_epochs = [1, 3, 4]",
        &[(4, 1.0), (5, 0.1), (14, 0.1), (15, 0.01), (19, 0.01), (20, 0.001), (99, 0.001)],
    );
    check("name = 'step', every_steps = 10, gamma = 0", &[(9, 1.0), (10, 0.0), (99, 0.0)]);
    check("name = 'cosine'", &[(0, 1.0), (50, 0.5), (100, 0.0), (1000, 0.0)]);
    // Warm-up comes before the schedule, which then has the rest of the run: 80 steps.
    check(
        "name = 'cosine', warmup_steps = 20, warmup_start = 0.5",
        &[(0, 0.5), (10, 0.75), (20, 1.0), (60, 0.5), (100, 0.0)],
    );
    check(
        "name = 'one-cycle', warmup_fraction = 0.5, div = 10, final_div = 100, anneal = 'linear'",
        &[(0, 0.1), (49, 1.0), (99, 0.001), (1000, 0.001)],
    );
}

fn kinds() -> impl Strategy<Value = ScheduleKind> {
    let drops = prop_oneof![
        (1..50usize).prop_map(Drops::EveryEpochs),
        (1..50usize).prop_map(Drops::EverySteps),
        prop::collection::btree_set(1..50usize, 1..5)
            .prop_map(|epochs| Drops::AfterEpochs(epochs.into_iter().collect())),
    ];
    let anneal = prop_oneof![Just(Anneal::Cosine), Just(Anneal::Linear)];
    prop_oneof![
        Just(ScheduleKind::Constant),
        (0.0..1.0).prop_map(|final_lr| ScheduleKind::Cosine { final_lr }),
        (0.0..1.0, 0.1..4.0).prop_map(|(final_lr, power)| ScheduleKind::Polynomial { final_lr, power }),
        (1e-6..1.0).prop_map(|final_lr| ScheduleKind::Exponential { final_lr }),
        (drops, 0.0..=1.0).prop_map(|(at, gamma)| ScheduleKind::Step { at, gamma }),
        (0.0..1.0, 1.0..100.0, 1.0..1e6, anneal).prop_map(|(warmup_fraction, div, final_div, anneal)| {
            ScheduleKind::OneCycle { warmup_fraction, div, final_div, anneal }
        }),
    ]
}

/// What the validated configuration allows: warm-up before anything but one-cycle.
fn settings() -> impl Strategy<Value = Settings> {
    let lengths =
        prop_oneof![(1..50usize).prop_map(WarmupLength::Steps), (1..4usize).prop_map(WarmupLength::Epochs)];
    let warmup = prop::option::of((lengths, 0.0..=1.0).prop_map(|(length, start)| Warmup { length, start }));
    (kinds(), warmup).prop_map(|(kind, warmup)| {
        let warmup = warmup.filter(|_| !matches!(kind, ScheduleKind::OneCycle { .. }));
        Settings { warmup, kind }
    })
}

/// The highest rate that a schedule from `lr` may give, up to rounding.
fn ceiling(kind: &ScheduleKind, lr: f64) -> f64 {
    let top = match kind {
        ScheduleKind::Cosine { final_lr }
        | ScheduleKind::Polynomial { final_lr, .. }
        | ScheduleKind::Exponential { final_lr } => lr.max(*final_lr),
        _ => lr,
    };
    top * (1.0 + 1e-12)
}

proptest! {
    #[test]
    fn rates_are_finite_never_negative_and_never_above_the_highest(
        settings in settings(),
        lr in 1e-6..10.0,
        steps in 1..200usize,
        steps_per_epoch in 1..40usize,
    ) {
        let schedule = LrSchedule::new(&settings, lr, steps, steps_per_epoch);
        let ceiling = ceiling(&settings.kind, lr);
        for step in 0..2 * steps {
            let rate = schedule.lr(step);
            prop_assert!(rate.is_finite() && (0.0..=ceiling).contains(&rate), "{rate} at step {step}");
        }
    }

    #[test]
    fn warm_up_rises_in_a_line_and_hands_over_the_full_rate(
        kind in kinds().prop_filter("rises by itself", |kind| !matches!(kind, ScheduleKind::OneCycle { .. })),
        steps in 1..50usize,
        start in 0.0..=1.0,
        lr in 1e-6..10.0,
        after in 1..100usize,
    ) {
        let warmup = Some(Warmup { length: WarmupLength::Steps(steps), start });
        let schedule = LrSchedule::new(&Settings { warmup, kind }, lr, steps + after, 1000);
        prop_assert_eq!(schedule.lr(0), lr * start);
        let rise = lr * (1.0 - start) / steps as f64;
        for step in 1..=steps {
            prop_assert!((schedule.lr(step) - schedule.lr(step - 1) - rise).abs() <= 1e-12 * lr);
        }
    }

    #[test]
    fn a_cosine_ends_at_its_final_rate_after_the_last_step(
        lr in 1e-6..10.0,
        final_lr in 0.0..1.0,
        steps in 1..1000usize,
    ) {
        let settings = Settings { warmup: None, kind: ScheduleKind::Cosine { final_lr } };
        let end = LrSchedule::new(&settings, lr, steps, 10).lr(steps);
        prop_assert!((end - final_lr).abs() <= 1e-12 * lr.max(final_lr), "{end}");
    }

    #[test]
    fn one_cycle_ends_at_its_lowest_rate_with_the_last_step(
        warmup_fraction in 0.0..0.95,
        div in 1.0..100.0,
        final_div in 1.0..1e6,
        lr in 1e-6..10.0,
        steps in 30..1000usize,
    ) {
        for anneal in [Anneal::Cosine, Anneal::Linear] {
            let kind = ScheduleKind::OneCycle { warmup_fraction, div, final_div, anneal };
            let schedule = LrSchedule::new(&Settings { warmup: None, kind }, lr, steps, 10);
            let lowest = lr / div / final_div;
            prop_assert!((schedule.lr(steps - 1) - lowest).abs() <= 1e-12 * lr);
            prop_assert!((0..steps).all(|step| schedule.lr(step) >= lowest - 1e-12 * lr));
        }
    }
}
