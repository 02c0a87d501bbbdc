use std::time::Instant;

use oomph_config::{Interval, Sharing};
use oomph_core::Bytes;
use oomph_memory::{
    Account, Timeline, charge, read,
    record::{self, StepKind},
};

use super::{ProfileOptions, batches::Batches};
use crate::{
    Observer, OutOfMemory, Session, Stepper, Stop, Tick, TrainError,
    evaluate::evaluate_batches,
    held::Held,
    memory_log,
    out_of_memory::{Circumstances, Subject, explain},
    parallel::{Order, train_on_replicas},
    train::tell_where_to_start,
};

/// What was seen.
pub(super) struct Measured {
    /// Of each device, from behind the warm-up on.
    pub(super) timelines: Vec<Timeline>,
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
    let held = Held::default();
    let mut lead = |session: &Session| lead(session, options, observer, &recording, &held);
    if matches!(session.config.device.sharing, Sharing::Ddp(_)) {
        return train_on_replicas(session, &Stop::new(), Some(held.clone()), lead);
    }
    lead(session)
}

/// Profiles one device, or those that a model is cut over, or as the first of several replicas.
fn lead(
    session: &Session,
    options: &ProfileOptions,
    observer: &mut dyn Observer,
    recording: &Recording,
    held: &Held,
) -> Result<Measured, TrainError> {
    let first = record::next_event();
    tell_where_to_start(session, None, None)?;
    let mut stepper = Stepper::new(session)?;
    stepper.tell_parameters(&mut held.clone());
    stepper.watch(Some(Box::new(held.clone())));
    let mut seen = Seen::default();
    let ended = seen
        .train(session, options, recording, &mut stepper, observer)
        .and_then(|()| evaluate(session, options.eval_batches, &mut stepper, observer))
        // All are done with what they do before it is looked at.
        .and_then(|()| session.replicas.order(Order::Wait));
    let is_over = ended.is_ok();
    let mut out_of_memory = match ended {
        Ok(()) => None,
        Err(TrainError::OutOfMemory(error)) => Some(*error),
        Err(error) => return Err(error),
    };
    let recorded = record::dump_devices(0);
    record::stop();
    let timelines = charge(Account::Host, || {
        let notes = memory_log::notes(session, stepper.model.names());
        memory_log::timelines(&recorded, held, &notes, &memory_log::device_labels(session))
    });
    if is_over {
        session.replicas.order(Order::End)?;
    }
    let (begin, warmup) = seen.begin.map_or((first, 0), |begin| (begin, options.warmup));
    let Seen { steps, step_seconds, host_bytes, .. } = seen;
    drop(stepper);
    if let Some(error) = &mut out_of_memory {
        error.at_step(steps + usize::from(!error.is_behind_step()));
        let until = recorded.first().and_then(|recorded| memory_log::event_of(error, recorded));
        let seen = until.zip(timelines.first());
        let seen = seen.map(|(last, whole)| charge(Account::Host, || whole.clone().until(last)));
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
    // All devices begin right before the first event of the first one, which marks the step. Event 0 of a timeline is
    // the moment before its first one.
    let mark = recorded.first().map_or(0, |recorded| recorded.events_before(begin) as usize + 1);
    let start = timelines.first().and_then(|timeline| timeline.times.get(mark));
    let start = start.map_or(0, |time| time.saturating_sub(1));
    let timelines =
        charge(Account::Host, || timelines.into_iter().map(|timeline| timeline.since_time(start)).collect());
    Ok(Measured { timelines, warmup, step_seconds, host_bytes, out_of_memory })
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
                // All replicas are done with the step before.
                session.replicas.order(Order::Wait)?;
                self.begin = Some(record::next_event());
            }
            session.mark_step(step as u64 + 1, StepKind::Train);
            session.replicas.order(Order::Step)?;
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
    stepper: &mut Stepper,
    observer: &mut dyn Observer,
) -> Result<(), TrainError> {
    if session.config.train.eval_every == Interval::Never || batches == 0 {
        return Ok(());
    }
    let replicas = &session.replicas;
    replicas.glance(batches)?;
    replicas.share_statistics(&mut stepper.model)?;
    match evaluate_batches(session, stepper.lying(), batches, observer, &Stop::new()) {
        // What cannot be read cannot be shown; the steps can.
        Ok(_) | Err(TrainError::NothingToEvaluate { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
