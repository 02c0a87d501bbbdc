use std::{
    io,
    path::{Path, PathBuf},
};

use oomph_config::DeviceName;
use oomph_core::current_device;
use oomph_memory::{
    Account, Split, Timeline, charge,
    export::{self, Page},
    record::{self, Notes, Recording},
};
use oomph_model::Stages;

use crate::{OutOfMemory, Session, Shortage, Stepper, held::Held, last_step::LastStep, watch};

/// The newest allocations of a training, with what is known of them: to be looked at when memory runs out, or when
/// somebody asks.
#[derive(Debug)]
pub(crate) struct MemoryLog {
    held: Held,
    notes: Notes,
    /// What the devices of this process are called.
    devices: Vec<String>,
    last_step: LastStep,
    /// Whether the recording ends with this.
    is_own: bool,
}

impl MemoryLog {
    /// Records from now on, where the configuration and the device let it. To be started before the model is made,
    /// which shall be known.
    pub(crate) fn start(session: &Session) -> Option<Self> {
        Self::start_with(session, Held::default())
    }

    /// The same with what the devices of other replicas note too.
    pub(crate) fn start_with(session: &Session, held: Held) -> Option<Self> {
        if !Self::is_wanted(session) {
            return None;
        }
        record::start(session.config.memory.record);
        Some(Self::new(session, held, true))
    }

    /// Looks into what another thread of this process records, of the device that this thread works for; where none
    /// does, nothing is recorded.
    pub(crate) fn join(session: &Session, held: Held) -> Option<Self> {
        let is_cpu = session.config.device.devices[0] == DeviceName::Cpu;
        (is_cpu && record::is_on()).then(|| Self::new(session, held, false))
    }

    fn new(session: &Session, held: Held, is_own: bool) -> Self {
        let (notes, devices) = (notes(session, std::iter::empty()), device_labels(session));
        Self { held, notes, devices, last_step: LastStep::default(), is_own }
    }

    /// Whether the configuration and the device let it.
    pub(crate) fn is_wanted(session: &Session) -> bool {
        let config = &session.config;
        let is_cpu = config.device.devices[0] == DeviceName::Cpu;
        config.memory.record > 0 && is_cpu && oomph_memory::is_installed()
    }

    /// Notes from now on which tensors of a training are what.
    pub(crate) fn follow(&mut self, stepper: &mut Stepper) {
        stepper.tell_parameters(&mut self.held);
        self.notes.stages = stepper.model.names().map(str::to_owned).collect();
        stepper.watch(Some(Box::new(self.held.clone())));
    }

    /// Notes which tensors are the model's.
    pub(crate) fn look_at(&mut self, model: &Stages) {
        watch::parameters(&mut self.held, model);
        self.notes.stages = model.names().map(str::to_owned).collect();
    }

    /// To be called before an optimizer step is marked.
    pub(crate) fn step_begins(&mut self, stepper: &Stepper) {
        self.last_step.begins(&stepper.optimizer);
    }

    /// What was in use at the highest moment of the last optimizer step, by category; `None` where the recording does
    /// not have the whole of the step any more.
    pub(crate) fn last_step(&mut self, stepper: &Stepper) -> Option<Split> {
        self.last_step.peak(&self.held, &self.notes, stepper)
    }

    /// What the recording shows now of each device.
    fn timelines(&self) -> Vec<Timeline> {
        timelines(&record::dump_devices(0), &self.held, &self.notes, &self.devices)
    }

    /// What the recording shows up to the moment when memory ran out.
    pub(crate) fn seen(&self, error: &OutOfMemory) -> Option<Timeline> {
        self.seen_on(current_device(), error)
    }

    /// The same of the CPU device of that index.
    pub(crate) fn seen_on(&self, device: usize, error: &OutOfMemory) -> Option<Timeline> {
        charge(Account::Host, || {
            let recording = record::dump_device(device, 0);
            let last = event_of(error, &recording)?;
            let notes = Notes { held: self.held.notes_of(recording.device), ..self.notes.clone() };
            Some(recording.timeline(&notes).until(last))
        })
    }

    /// Writes what the recording shows now as a page of `directory`.
    pub(crate) fn write_page(&self, directory: &Path, name: &str) -> io::Result<PathBuf> {
        let path = directory.join(name);
        let timelines = self.timelines();
        if let [first, others @ ..] = &timelines[..] {
            let page = others.iter().fold(Page::new(first), |page, timeline| page.and(timeline, None));
            export::write_file(&path, |out| export::html(&page, out))?;
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

/// The event of a recording's timeline at which the limit was crossed, where it has that.
pub(crate) fn event_of(error: &OutOfMemory, recording: &Recording) -> Option<u32> {
    let Shortage::Limit { event, .. } = error.shortage else { return None };
    // Other devices have events in between. The one that crossed is in it.
    (event >= recording.first_event).then(|| recording.events_before(event.saturating_add(1)))
}

/// What is recorded of each of `devices`. A program may have had more at another time.
pub(crate) fn timelines(
    recordings: &[Recording],
    held: &Held,
    notes: &Notes,
    devices: &[String],
) -> Vec<Timeline> {
    charge(Account::Host, || {
        let timelines = recordings.iter().zip(devices).map(|(recording, device)| {
            let held = held.notes_of(recording.device);
            recording.timeline(&Notes { held, device: device.clone(), ..notes.clone() })
        });
        timelines.collect()
    })
}

/// What the devices of this process are called: by name, and number where there are several.
pub(crate) fn device_labels(session: &Session) -> Vec<String> {
    match session.devices_here() {
        [alone] => vec![alone.to_string()],
        several => several.iter().enumerate().map(|(index, device)| format!("{index} {device}")).collect(),
    }
}

/// What is the same for all recordings of a session.
pub(crate) fn notes<'a>(session: &Session, stages: impl Iterator<Item = &'a str>) -> Notes {
    Notes {
        title: format!("{} · batch {}", session.architecture.name(), session.config.train.batch),
        device: session.config.device.devices[0].to_string(),
        limit_bytes: session.limit_bytes,
        stages: stages.map(str::to_owned).collect(),
        held: Vec::new(),
    }
}
