use oomph_config::DeviceName;
use oomph_core::Split;
use oomph_memory::{
    Account, charge, is_installed,
    leak::{GrownKind, Leak, LeakWatch, Point},
};

use oomph_advice::planning::eval_batch;
use oomph_engine::session::Session;
use oomph_runs::{Event, LeakKind, LeakMetrics, Observer, Tick};

/// The leak check: compares memory from step to step, and from evaluation batch to evaluation batch.
#[derive(Debug)]
pub(crate) struct LeakCheck {
    /// `None` without `memory.leak_check` or without measured memory.
    watch: Option<LeakWatch>,
    eval_batch: usize,
    /// Samples of the last evaluation batch.
    last_eval_batch: usize,
    /// Events of an evaluation that the observer has and the run's log lacks.
    pub(crate) reported: Vec<Event>,
}

impl LeakCheck {
    pub(crate) fn new(session: &Session) -> Self {
        let config = &session.config;
        let is_measured = config.device.devices[0] == DeviceName::Cpu && is_installed();
        let watch = (config.memory.leak_check && is_measured).then(|| LeakWatch::new(session.limit_bytes));
        let eval_batch = eval_batch(session);
        let last_eval_batch = match session.source.len(Split::Test) % eval_batch {
            0 => eval_batch,
            rest => rest,
        };
        Self { watch, eval_batch, last_eval_batch, reported: Vec::new() }
    }

    /// Checks after a step. Returns the events of a leak.
    pub(crate) fn after_step(&mut self, step: usize, samples: usize) -> Vec<Event> {
        self.check(Some(step), Point::step(samples))
    }

    /// Wraps the observer of an evaluation: checks after each batch, and passes the events of a leak to `observer`.
    pub(crate) fn watching<'a>(
        &'a mut self,
        step: Option<usize>,
        observer: &'a mut dyn Observer,
    ) -> Watching<'a> {
        Watching { leaks: self, step, observer }
    }

    fn check(&mut self, step: Option<usize>, point: Point) -> Vec<Event> {
        let leak = self.watch.as_mut().and_then(|watch| watch.check(point));
        charge(Account::Host, || leak.into_iter().flat_map(|leak| events(step, &leak)).collect())
    }
}

/// See [`LeakCheck::watching`].
pub(crate) struct Watching<'a> {
    leaks: &'a mut LeakCheck,
    step: Option<usize>,
    observer: &'a mut dyn Observer,
}

impl Observer for Watching<'_> {
    fn event(&mut self, event: &Event) {
        self.observer.event(event);
    }

    fn tick(&mut self, tick: Tick) {
        self.observer.tick(tick);
        let Tick::Eval { batch, batches } = tick else { return };
        let samples = if batch == batches { self.leaks.last_eval_batch } else { self.leaks.eval_batch };
        for event in self.leaks.check(self.step, Point::eval_batch(samples)) {
            self.observer.event(&event);
            self.leaks.reported.push(event);
        }
    }
}

/// A leak in words, and in figures.
fn events(step: Option<usize>, leak: &Leak) -> [Event; 2] {
    let growth = leak.growth;
    let kind = |kind: &GrownKind| LeakKind {
        count: kind.count,
        bytes: kind.bytes,
        phase: kind.phase,
        scope: kind.scope.clone(),
    };
    let metrics = LeakMetrics {
        step,
        point: growth.point.kind.into(),
        bytes_per_step: growth.bytes_per_step,
        grown_bytes: growth.grown_bytes,
        steps: growth.steps,
        steps_left: leak.steps_left(),
        in_use_bytes: growth.in_use_bytes,
        limit_bytes: leak.limit_bytes,
        kinds: leak.kinds.iter().map(kind).collect(),
    };
    [Event::Warning { message: leak.to_string() }, Event::Leak(metrics)]
}
