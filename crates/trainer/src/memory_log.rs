use std::{
    io,
    path::{Path, PathBuf},
};

use oomph_config::DeviceName;
use oomph_core::{
    Bytes, current_device,
    files::{Existing, write_file},
};
use oomph_memory::{
    Account, charge,
    record::{self, Note, Notes, Recording},
};
use oomph_model::Stages;
use oomph_timeline::{
    Category, Split, Timeline,
    export::{self, Page},
};

use oomph_engine::{
    exhausted::{Exhausted, Shortage},
    session::Session,
    step::Stepper,
    watch,
};

use crate::tensor_log::TensorLog;

/// The newest allocations of a training, for out-of-memory reports and requested timelines.
#[derive(Debug)]
pub(crate) struct MemoryLog {
    log: TensorLog,
    notes: Notes,
    /// The labels of this process's devices.
    devices: Vec<String>,
    last_step: LastStep,
    /// Whether dropping this ends the recording.
    is_own: bool,
}

impl MemoryLog {
    /// Starts the recording, if the configuration and the device allow it. Start it before the model is made, so that the
    /// recording has the parameters.
    pub(crate) fn start(session: &Session) -> Option<Self> {
        Self::start_with(session, TensorLog::default())
    }

    /// Starts the recording with a log that other replicas note their tensors in too.
    pub(crate) fn start_with(session: &Session, log: TensorLog) -> Option<Self> {
        if !Self::is_wanted(session) {
            return None;
        }
        record::start(session.config.memory.record);
        Some(Self::new(session, log, true))
    }

    /// Joins the recording of another thread of this process, for the device of this thread. `None` without one.
    pub(crate) fn join(session: &Session, log: TensorLog) -> Option<Self> {
        let is_cpu = session.config.device.devices[0] == DeviceName::Cpu;
        (is_cpu && record::is_on()).then(|| Self::new(session, log, false))
    }

    fn new(session: &Session, log: TensorLog, is_own: bool) -> Self {
        let (notes, devices) = (notes(session, std::iter::empty()), device_labels(session));
        Self { log, notes, devices, last_step: LastStep::default(), is_own }
    }

    /// Whether the configuration and the device allow a recording.
    pub(crate) fn is_wanted(session: &Session) -> bool {
        let config = &session.config;
        let is_cpu = config.device.devices[0] == DeviceName::Cpu;
        config.memory.record > 0 && is_cpu && oomph_memory::is_installed()
    }

    /// Notes the tensors of a training from now on.
    pub(crate) fn follow(&mut self, stepper: &mut Stepper) {
        stepper.tell_parameters(&mut self.log);
        self.notes.stages = stepper.model.names().map(str::to_owned).collect();
        stepper.watch(Some(Box::new(self.log.clone())));
    }

    /// Notes the parameters of a model.
    pub(crate) fn look_at(&mut self, model: &Stages) {
        watch::parameters(&mut self.log, model);
        self.notes.stages = model.names().map(str::to_owned).collect();
    }

    /// Call it before an optimizer step is marked.
    pub(crate) fn step_begins(&mut self, stepper: &Stepper) {
        let last = &mut self.last_step;
        last.has_state = stepper.optimizer.has_state();
        last.before = last.first_event;
        last.first_event = record::next_event();
    }

    /// Bytes in use at the peak of the last optimizer step, by category. `None` where the recording has lost a part of the
    /// step.
    pub(crate) fn last_step(&mut self, stepper: &Stepper) -> Option<Split> {
        self.last_step.peak(&self.log, &self.notes, stepper)
    }

    /// The timeline until memory ran out.
    pub(crate) fn seen(&self, error: &Exhausted) -> Option<Timeline> {
        self.seen_on(current_device(), error)
    }

    /// The timeline of CPU device `device` until memory ran out.
    pub(crate) fn seen_on(&self, device: usize, error: &Exhausted) -> Option<Timeline> {
        charge(Account::Host, || {
            let recording = record::dump_device(device, 0);
            let last = event_of(error, &recording)?;
            let notes = Notes { tensors: self.log.notes_of(recording.device), ..self.notes.clone() };
            Some(recording.timeline(&notes).until(last))
        })
    }

    /// Writes the timelines as a page in `directory`.
    pub(crate) fn write_page(&self, directory: &Path, name: &str) -> io::Result<PathBuf> {
        let path = directory.join(name);
        let timelines = timelines(&record::dump_devices(0), &self.log, &self.notes, &self.devices);
        if let [first, others @ ..] = &timelines[..] {
            let page = others.iter().fold(Page::new(first), |page, timeline| page.and(timeline, None));
            write_file(&path, Existing::Replace, |out| export::html(&page, out))?;
        }
        Ok(path)
    }
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        if self.is_own {
            record::stop();
        }
    }
}

/// The event at which the limit was exceeded, if the recording still has it.
pub(crate) fn event_of(error: &Exhausted, recording: &Recording) -> Option<u32> {
    let Shortage::Limit { event, .. } = error.shortage else { return None };
    // Events of other devices lie in between. The event that exceeded the limit is included.
    (event >= recording.first_event).then(|| recording.events_before(event.saturating_add(1)))
}

/// The timelines of `devices`. Recordings of further devices, from an earlier training, are left out.
pub(crate) fn timelines(
    recordings: &[Recording],
    log: &TensorLog,
    notes: &Notes,
    devices: &[String],
) -> Vec<Timeline> {
    charge(Account::Host, || {
        let timelines = recordings.iter().zip(devices).map(|(recording, device)| {
            let held = log.notes_of(recording.device);
            recording.timeline(&Notes { tensors: held, device: device.clone(), ..notes.clone() })
        });
        timelines.collect()
    })
}

/// The labels of this process's devices: the name, with the number if there are several.
pub(crate) fn device_labels(session: &Session) -> Vec<String> {
    match session.devices_here() {
        [alone] => vec![alone.to_string()],
        several => several.iter().enumerate().map(|(index, device)| format!("{index} {device}")).collect(),
    }
}

/// The notes that all recordings of a session share.
pub(crate) fn notes<'a>(session: &Session, stages: impl Iterator<Item = &'a str>) -> Notes {
    Notes {
        title: format!("{} · batch {}", session.architecture.name(), session.config.train.batch),
        device: session.config.device.devices[0].to_string(),
        limit_bytes: session.limit_bytes,
        stages: stages.map(str::to_owned).collect(),
        tensors: Vec::new(),
    }
}

/// Finds the bytes in use at the peak of the last optimizer step, by category.
#[derive(Clone, Copy, Debug, Default)]
struct LastStep {
    /// The event that marks the step.
    first_event: u64,
    /// The mark of the step before. Its notes have the addresses of tensors that the last step finds.
    before: u64,
    /// Whether the step found optimizer state.
    has_state: bool,
    /// Bytes of optimizer state, once counted. They do not change.
    state_bytes: Option<Bytes>,
}

impl LastStep {
    /// `None` where the recording has lost a part of the step.
    fn peak(&mut self, log: &TensorLog, notes: &Notes, stepper: &Stepper) -> Option<Split> {
        charge(Account::Host, || {
            let recording = record::dump_since(self.first_event);
            if recording.first_event != self.first_event || recording.events.is_empty() {
                return None;
            }
            let sized = |note: Note| if note.next_event < self.first_event { note } else { sized(note) };
            let held = log.notes_since(recording.device, self.before).into_iter().map(sized).collect();
            let timeline = recording.timeline(&Notes { tensors: held, ..notes.clone() });
            let mut split = timeline.peak().categories;
            if self.has_state {
                // State from an earlier step changes in place, so this step has no event of it.
                let state_bytes = *self.state_bytes.get_or_insert_with(|| stepper.state_bytes_here());
                let unseen = state_bytes.saturating_sub(split.of(Category::OptimizerState));
                let moved = unseen.get().min(split[Category::Other]);
                split[Category::Other] -= moved;
                split[Category::OptimizerState] += moved;
            }
            Some(split)
        })
    }
}

/// Adds the size of a parameter: parameters change in place, so the step has no event of them.
fn sized(note: Note) -> Note {
    /// CPU storage is rounded up to multiples of this.
    const ALIGNMENT: u64 = 16;
    if note.category != Category::Parameters {
        return note;
    }
    let elements = note.shape.iter().product::<usize>() as u64;
    let bytes = (elements * size_of::<f32>() as u64).next_multiple_of(ALIGNMENT);
    Note { bytes: Some(Bytes::new(bytes)), ..note }
}
