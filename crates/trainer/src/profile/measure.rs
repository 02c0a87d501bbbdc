use std::time::Instant;

use oomph_config::Interval;
use oomph_core::Bytes;
use oomph_memory::{
    Account, Timeline, charge, read,
    record::{self, Notes, StepKind},
};

use super::{ProfileOptions, batches::Batches};
use crate::{
    Observer, OutOfMemory, Session, Stepper, Stop, Tick, TrainError,
    evaluate::evaluate_batches,
    held::Held,
    memory_log,
    out_of_memory::{Circumstances, Subject, explain},
    watch,
};

/// What was seen.
pub(super) struct Measured {
    /// From behind the warm-up on.
    pub(super) timeline: Timeline,
    /// Steps before that.
    pub(super) warmup: usize,
    pub(super) step_seconds: Vec<f64>,
    pub(super) host_bytes: Bytes,
    pub(super) out_of_memory: Option<OutOfMemory>,
}

pub(super) fn measure(
    session: &Session,
    options: &ProfileOptions,
    observer: &mut dyn Observer,
) -> Result<Measured, TrainError> {
    // From the beginning, so that it is known what made the state that the later steps find.
    let recording = Recording::start(options.capacity);
    let first = record::next_event();
    let held = Held::default();
    let mut stepper = Stepper::new(session)?;
    watch::parameters(&mut held.clone(), &stepper.model);
    stepper.watch(Some(Box::new(held.clone())));
    let mut seen = Seen::default();
    let ended = seen
        .train(session, options, &recording, &mut stepper, observer)
        .and_then(|()| evaluate(session, options.eval_batches, &stepper, observer));
    let mut out_of_memory = match ended {
        Ok(()) => None,
        Err(TrainError::OutOfMemory(error)) => Some(*error),
        Err(error) => return Err(error),
    };
    let recorded = record::dump();
    drop(recording);
    let (begin, warmup) = seen.begin.map_or((first, 0), |begin| (begin, options.warmup));
    let whole = charge(Account::Host, || {
        let notes = Notes { held: held.notes(), ..memory_log::notes(session, stepper.model.names()) };
        recorded.timeline(&notes)
    });
    let Seen { steps, step_seconds, host_bytes, .. } = seen;
    drop(stepper);
    if let Some(error) = &mut out_of_memory {
        error.at_step(steps + usize::from(!error.is_behind_step()));
        let until = memory_log::event_of(error, &recorded);
        let seen = until.map(|last| charge(Account::Host, || whole.clone().until(last)));
        let directory = options.report.clone();
        explain(
            session,
            error,
            Circumstances {
                subject: Subject::Training,
                device: 0,
                seen,
                reserved_bytes: None,
                run: None,
                directory,
            },
        );
    }
    // Event 0 of a timeline is the moment before the first one.
    let since = begin.saturating_sub(recorded.first_event) as u32;
    let timeline = charge(Account::Host, || whole.since(since));
    Ok(Measured { timeline, warmup, step_seconds, host_bytes, out_of_memory })
}

/// Ends however the profile ends.
struct Recording {
    /// What it takes on the host.
    host_bytes: u64,
}

impl Recording {
    fn start(capacity: usize) -> Self {
        let before = read().host_bytes.get();
        record::start(capacity);
        Self { host_bytes: read().host_bytes.get().saturating_sub(before) }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        record::stop();
    }
}

/// What is noted while it trains.
#[derive(Default)]
struct Seen {
    /// The event before the first step behind the warm-up.
    begin: Option<u64>,
    /// Steps that were done.
    steps: usize,
    step_seconds: Vec<f64>,
    /// The most on the host behind a step.
    host_bytes: Bytes,
}

impl Seen {
    fn train(
        &mut self,
        session: &Session,
        options: &ProfileOptions,
        recording: &Recording,
        stepper: &mut Stepper,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let mut batches = Batches::new(session);
        let schedule = session.schedule();
        for step in 0..options.warmup + options.steps {
            let Some(batch) = batches.next()? else { break };
            if step == options.warmup {
                self.begin = Some(record::next_event());
            }
            record::mark_step(step as u64 + 1, StepKind::Train);
            let start = Instant::now();
            stepper.step(batch, step, schedule.lr(step), session.task.as_ref())?;
            let seconds = start.elapsed().as_secs_f64();
            self.steps += 1;
            charge(Account::Host, || {
                if step >= options.warmup {
                    self.step_seconds.push(seconds);
                }
                let host_bytes = read().host_bytes.get().saturating_sub(recording.host_bytes);
                self.host_bytes = self.host_bytes.max(Bytes::new(host_bytes));
                observer.tick(Tick::Step { step: step + 1 });
            });
        }
        Ok(())
    }
}

/// Some batches of evaluation, where the training has any.
fn evaluate(
    session: &Session,
    batches: usize,
    stepper: &Stepper,
    observer: &mut dyn Observer,
) -> Result<(), TrainError> {
    if session.config.train.eval_every == Interval::Never || batches == 0 {
        return Ok(());
    }
    match evaluate_batches(session, stepper.lying(), batches, observer, &Stop::new()) {
        // What cannot be read cannot be shown; the steps can.
        Ok(_) | Err(TrainError::NothingToEvaluate { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
