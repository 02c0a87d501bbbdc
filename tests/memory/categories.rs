//! What memory is for, as measured and as planned, against counts by hand.

use oomph::{
    Config, Phase, Registry, Session,
    memory::record,
    runs::Quiet,
    timeline::{Category, Span, SpanKind, Split, Timeline},
    trainer::profile::{Profile, ProfileOptions, ProfiledDevice, profile},
};
use oomph_trainer::open;

use crate::alone;

const RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 16 }
    data = { source = 'digits', workers = 0 }";
/// Sizes of which each tensor fills its storage, which Flex rounds up to 16 bytes, but for the head's.
const LSTM: &str = "
    model = { name = 'lstm', hidden = 16, layers = 2 }
    data = { source = 'digits', layout = 'rows', workers = 0 }";

/// The optimizers, and what each keeps for a parameter.
const OPTIMIZERS: [(&str, u64); 3] =
    [("name = 'sgd', momentum = 0.0", 0), ("name = 'sgd', momentum = 0.9", 4), ("name = 'adam'", 8)];

fn session(model: &str, optimizer: &str) -> Session {
    let text =
        format!("{model}\ntrain = {{ batch = 16, steps = 9 }}\noptimizer = {{ {optimizer}, lr = 0.01 }}");
    let config = Config::from_toml("categories", &text).unwrap_or_else(|error| panic!("{error}"));
    open(config, &Registry::builtin()).unwrap_or_else(|error| panic!("{error}"))
}

fn profiled(session: &Session, warmup: usize) -> Profile {
    let options = ProfileOptions { warmup, steps: 3, ..ProfileOptions::default() };
    let profile = profile(session, options, &mut Quiet).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((profile.step_seconds.len(), profile.first.measured.lost_events), (3, 0));
    assert_eq!(profile.out_of_memory, None);
    profile
}

/// Trainable elements, elements of all tensors of the model, and elements of gradients.
///
/// The two biases of an LSTM layer are added to each other, so one gradient is that of both, and lies there once.
struct Elements {
    trainable: u64,
    all: u64,
    gradients: u64,
}

fn elements(session: &Session) -> Elements {
    let (mut trainable, mut all, mut shared) = (0, 0, 0);
    session.build().expect("a model").visit(&mut |info, tensor| {
        let elements = tensor.dims().iter().product::<usize>() as u64;
        all += elements;
        trainable += if info.trainable { elements } else { 0 };
        shared += if info.name.ends_with("bias_hh") { elements } else { 0 };
    });
    Elements { trainable, all, gradients: trainable - shared }
}

#[test]
fn the_models_have_as_many_elements_as_one_counts_by_hand() {
    // Four gates of input and hidden weights, two biases each; the head.
    let lstm = |input: u64| 4 * 16 * (input + 16) + 2 * 4 * 16;
    let found = elements(&session(LSTM, OPTIMIZERS[0].0));
    assert_eq!(found.trainable, lstm(8) + lstm(16) + 16 * 10 + 10);
    assert_eq!(found.trainable - found.gradients, 2 * 4 * 16);

    let conv = |from: u64, to: u64, kernel: u64| kernel * kernel * from * to;
    // A block of two convolutions with a batch norm each; where it widens, one more on the way around.
    let block = |from: u64, to: u64| {
        let around = if from == to { 0 } else { conv(from, to, 1) + 2 * to };
        conv(from, to, 3) + conv(to, to, 3) + 2 * 2 * to + around
    };
    let group = |from: u64, to: u64| block(from, to) + block(to, to);
    let resnet = conv(1, 16, 3) + 2 * 16 + group(16, 16) + group(16, 32) + group(32, 64) + group(64, 128);
    let Elements { trainable, all, gradients } = elements(&session(RESNET, OPTIMIZERS[0].0));
    assert_eq!(gradients, trainable);
    assert_eq!(trainable, resnet + 128 * 10 + 10);
    // A running mean and variance for every scale and shift: those of 20 batch norms.
    let channels = 16 + 4 * 16 + (4 + 1) * (32 + 64 + 128);
    assert_eq!(all, trainable + 2 * channels);
}

/// The level behind the last event of a span.
fn at_end(levels: &[Split], span: &Span) -> Split {
    levels[span.end as usize - 1]
}

fn phase_of(timeline: &Timeline, step: &Span, phase: Phase) -> Span {
    let is_in = |span: &&Span| {
        span.start >= step.start && span.end <= step.end && timeline.names.text(span.name) == phase.name()
    };
    timeline.spans_of(SpanKind::Phase).filter(is_in).last().expect("the phase").clone()
}

fn check(timeline: &Timeline, session: &Session, state_bytes: u64, about: &str) {
    let Elements { trainable, all, gradients } = elements(session);
    let levels = timeline.levels();
    let is_step = |span: &&Span| timeline.names.text(span.name).starts_with("step");
    let steps: Vec<_> = timeline.spans_of(SpanKind::Step).filter(is_step).collect();
    assert_eq!(steps.len(), 3, "{about}");
    for step in steps {
        let name = timeline.names.text(step.name);
        let state = state_bytes * trainable;
        let ends = [
            ("forward", at_end(&levels, &phase_of(timeline, step, Phase::Forward)), [0, state]),
            ("backward", at_end(&levels, &phase_of(timeline, step, Phase::Backward)), [4 * gradients, state]),
            ("step", at_end(&levels, step), [0, state]),
        ];
        for (moment, level, [gradients, state]) in ends {
            let found = [Category::Parameters, Category::Gradients, Category::OptimizerState]
                .map(|category| level.of(category).get());
            let expected = [4 * all, gradients, state];
            assert_eq!(found, expected, "{about}: end of {moment} of {name}");
        }
    }
}

#[test]
fn parameters_gradients_and_state_equal_the_hand_count_from_the_second_step_on() {
    let _alone = alone();
    for model in [RESNET, LSTM] {
        for (optimizer, state_bytes) in OPTIMIZERS {
            let session = session(model, optimizer);
            let ProfiledDevice { measured, planned, .. } = profiled(&session, 1).first;
            check(&measured, &session, state_bytes, &format!("measured, {optimizer}"));
            check(&planned, &session, state_bytes, &format!("planned, {optimizer}"));
        }
    }
}

/// A recording can be read again after the profile: the sum of its allocations and frees is the level.
#[test]
fn categories_add_up_to_the_total_at_every_event() {
    let _alone = alone();
    for model in [RESNET, LSTM] {
        let session = session(model, OPTIMIZERS[2].0);
        let measured = profiled(&session, 0).first.measured;
        let recording = record::dump();
        let mut in_use = i128::from(recording.in_use_bytes.get());
        let mut totals = vec![in_use];
        for event in &recording.events {
            in_use += match event.change {
                record::Change::Alloc { bytes, .. } => i128::from(bytes),
                record::Change::Free { bytes, .. } => -i128::from(bytes),
                record::Change::Step { .. } => 0,
            };
            totals.push(in_use);
        }
        let sums: Vec<i128> = measured.levels().iter().map(|split| i128::from(split.total().get())).collect();
        assert!(sums.len() > 1000, "{} events", sums.len());
        assert_eq!(sums, totals[totals.len() - sums.len()..]);
    }
}

#[test]
fn a_profile_shows_the_steps_and_the_evaluation_and_plans_the_same() {
    let _alone = alone();
    for (warmup, expected) in [
        (0, ["step 1", "step 2", "step 3", "eval batch 1", "eval batch 2"]),
        (2, ["step 3", "step 4", "step 5", "eval batch 1", "eval batch 2"]),
    ] {
        let session = session(LSTM, OPTIMIZERS[1].0);
        let ProfiledDevice { measured, planned, .. } = profiled(&session, warmup).first;
        for timeline in [&measured, &planned] {
            let steps: Vec<_> =
                timeline.spans_of(SpanKind::Step).map(|span| timeline.names.text(span.name)).collect();
            assert_eq!(steps, expected);
        }
        let peak = |timeline: &Timeline| timeline.peak().categories.total().get() as f64;
        let error = (peak(&planned) - peak(&measured)) / peak(&measured);
        assert!(error.abs() < 0.01, "warm-up {warmup}: {error}");
    }
}

#[test]
fn what_led_to_the_limit_is_shown() {
    let _alone = alone();
    let session = session(RESNET, OPTIMIZERS[2].0);
    let peak = profiled(&session, 1).first.measured.peak().categories.total().get();
    // Whether both threads hold their packing buffers at once is chance: peaks were seen 0.5 % apart.
    for (warmup, part) in [(1, 0.99), (1, 0.7)] {
        let limit = (peak as f64 * part) as u64;
        oomph::memory::set_limit(Some(oomph::Bytes::new(limit)));
        let options = ProfileOptions { warmup, ..ProfileOptions::default() };
        let found = profile(&session, options, &mut Quiet);
        oomph::memory::set_limit(None);
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        let error = found.out_of_memory.expect("the limit is below the peak");
        assert_eq!(error.report.expect("it was explained").limit_bytes.map(oomph::Bytes::get), Some(limit));
        assert!(found.first.measured.peak().categories.total().get() > limit);
        assert!(found.step_seconds.len() < 5);
        assert!(found.first.planned.peak().categories.total().get() > limit);
    }
}
