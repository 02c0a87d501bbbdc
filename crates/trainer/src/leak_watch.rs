use oomph_config::DeviceName;
use oomph_core::Split;
use oomph_memory::{
    Account, charge, is_installed,
    leak::{GrownKind, Leak, LeakWatch, Point},
};

use crate::{
    Event, Observer, Session, Tick,
    event::{LeakKind, LeakMetrics},
};

/// Compares the memory of the steps of a run, and of its evaluation batches.
#[derive(Debug)]
pub(crate) struct LeakCheck {
    /// `None` where it is not wanted, or the memory not measured.
    watch: Option<LeakWatch>,
    eval_batch: usize,
    /// Samples of the last evaluation batch.
    last_eval_batch: usize,
    /// What an observer was told in an evaluation and the run does not know yet.
    told: Vec<Event>,
}

impl LeakCheck {
    pub(crate) fn new(session: &Session) -> Self {
        let config = &session.config;
        let is_measured = config.device.devices[0] == DeviceName::Cpu && is_installed();
        let watch = (config.memory.leak_check && is_measured).then(|| LeakWatch::new(session.limit_bytes));
        let eval_batch = session.eval_batch();
        let last_eval_batch = match session.source.len(Split::Test) % eval_batch {
            0 => eval_batch,
            rest => rest,
        };
        Self { watch, eval_batch, last_eval_batch, told: Vec::new() }
    }

    /// To be called after each step. What there is to tell.
    pub(crate) fn after_step(&mut self, step: usize, samples: usize) -> Vec<Event> {
        self.check(Some(step), Point::step(samples))
    }

    /// An observer of an evaluation that looks after each batch, and tells `observer` what it sees.
    pub(crate) fn watching<'a>(
        &'a mut self,
        step: Option<usize>,
        observer: &'a mut dyn Observer,
    ) -> Watching<'a> {
        Watching { leaks: self, step, observer }
    }

    /// What was told in evaluations since the last time.
    pub(crate) fn take_told(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.told)
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
            self.leaks.told.push(event);
        }
    }
}

/// A leak for people, and for programs.
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
