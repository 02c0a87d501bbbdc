use std::{cell::RefCell, rc::Rc, time::Instant};

use oomph_core::Split;
use oomph_data::Loader;
use oomph_memory::{
    Account, Category, Timeline, charge,
    record::{self, Note, Notes, StepKind},
};
use oomph_model::{AnyTensor, Storage};

use crate::{Session, Stepper, TrainError, Watch, plan, PlanOptions};

/// How long is profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Steps that are not recorded: the first ones make the optimizer's state and the backend's lasting buffers.
    pub warmup: usize,
    /// Steps that are.
    pub steps: usize,
    /// Events that are kept; the newest ones.
    pub capacity: usize,
}

/// What a profile found.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What was in use over the recorded steps.
    pub measured: Timeline,
    /// The same, predicted.
    pub planned: Timeline,
    /// Seconds of each recorded step.
    pub step_seconds: Vec<f64>,
}

/// Trains for some steps and records every allocation of the later ones. Nothing is saved.
///
/// # Errors
/// As training's.
pub fn profile(session: &Session, options: ProfileOptions) -> Result<Profile, TrainError> {
    session.check_training()?;
    let planned = plan(session, PlanOptions::default())?;
    let (measured, step_seconds) = charge(Account::Device, || measure(session, options))?;
    Ok(Profile { measured, planned, step_seconds })
}

fn measure(session: &Session, options: ProfileOptions) -> Result<(Timeline, Vec<f64>), TrainError> {
    let held = Held::default();
    // From the beginning, so that it is known what made the state that the later steps find.
    record::start(options.capacity);
    let mut begin = record::next_event();
    let mut stepper = Stepper::new(session)?;
    crate::watch::parameters(&mut held.clone(), &stepper.model);
    stepper.watch(Some(Box::new(held.clone())));
    let mut batches = Batches::new(session);
    let mut step_seconds = Vec::with_capacity(options.steps);
    for step in 0..options.warmup + options.steps {
        let Some(batch) = batches.next()? else { break };
        if step == options.warmup {
            begin = record::next_event();
        }
        record::mark_step(step as u64 + 1, StepKind::Train);
        let start = Instant::now();
        stepper.step(batch, step, session.schedule().lr(step), session.task.as_ref())?;
        if step >= options.warmup {
            step_seconds.push(start.elapsed().as_secs_f64());
        }
    }
    let recording = record::dump();
    record::stop();
    let notes = Notes {
        title: format!("{} · batch {}", session.architecture.name(), session.config.train.batch),
        device: session.config.device.devices[0].to_string(),
        limit_bytes: oomph_memory::limit(),
        stages: stepper.model.names().map(str::to_owned).collect(),
        held: held.take(),
    };
    // Event 0 of a timeline is the moment before the first one.
    let begin = begin.saturating_sub(recording.first_event) as u32;
    Ok((recording.timeline(&notes).since(begin), step_seconds))
}

/// Batches without end: epoch after epoch.
struct Batches<'a> {
    session: &'a Session,
    loader: Loader,
    epoch: usize,
}

impl<'a> Batches<'a> {
    fn new(session: &'a Session) -> Self {
        Self { session, loader: Self::load(session, 0), epoch: 0 }
    }

    fn load(session: &Session, epoch: usize) -> Loader {
        charge(Account::Host, || {
            let (source, order) = (session.source.clone(), session.train_order());
            let seed = session.config.train.seed;
            Loader::start(source, Split::Train, order, epoch, 0, Some(seed), &session.loader)
        })
    }

    fn next(&mut self) -> Result<Option<oomph_data::Batch>, TrainError> {
        let mut batch = charge(Account::Host, || self.loader.next());
        if batch.is_none() {
            self.epoch += 1;
            self.loader = Self::load(self.session, self.epoch);
            batch = charge(Account::Host, || self.loader.next());
        }
        Ok(batch.transpose()?)
    }
}

/// Notes where tensors lie while the recording goes on.
#[derive(Clone, Default)]
pub(crate) struct Held(Rc<RefCell<Vec<Note>>>);

impl Held {
    pub(crate) fn take(&self) -> Vec<Note> {
        self.0.take()
    }
}

impl Watch for Held {
    fn holds(&mut self, category: Category, name: &str, tensor: &AnyTensor) {
        charge(Account::Host, || {
            let Storage::Address(address) = Storage::of(tensor) else { return };
            self.0.borrow_mut().push(Note {
                next_event: record::next_event(),
                address,
                bytes: None,
                category,
                tensor: name.to_owned(),
                shape: tensor.dims(),
                dtype: "f32".to_owned(),
            });
        });
    }
}
