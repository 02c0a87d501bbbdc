use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::{Device, FloatDType, IntDType, Tensor};
use oomph_config::Recompute;
use oomph_core::watch_points;
use oomph_engine::{EngineError, session::Session, watch::Watch};
use oomph_model::{AnyTensor, DeviceError, ModelError, Storage};
use oomph_plan::{GraphEnds, Note, Noted, Recording};
use oomph_timeline::Category;

/// Records the operations of `run` on a capture device, which executes nothing. `run` returns the names of its stages.
pub(super) fn capture<E: From<EngineError>>(
    session: &Session,
    run: impl FnOnce(&Device, &RecordingMarks) -> Result<Vec<String>, E>,
) -> Result<Recording, E> {
    let mut device = Device::capture();
    let mut notes = None;
    let graph = device.clone().capture_scope(|scope| {
        // Training uses 32-bit integers; the capture device defaults to 64 bits. The capture device supports both
        // types, so configuring cannot fail.
        let _ = device.configure((FloatDType::F32, IntDType::I32));
        let marks = RecordingMarks { device: device.clone(), notes: Arc::default() };
        let watcher = marks.clone();
        let done = watch_points(move |place| watcher.note(Noted::Point(place)), || run(&device, &marks));
        notes = Some(done.map(|stages| (std::mem::take(&mut *marks.notes()), stages)));
        scope.complete([], [])
    });
    let failed = |reason: String| E::from(EngineError::Model(ModelError::Device(DeviceError { reason })));
    // The scope runs its closure before it can fail, so an error of the model comes first.
    let (notes, stages) = notes.unwrap_or_else(|| Err(failed("the capture scope did not run".into())))?;
    let graph = graph.map_err(|error| failed(error.to_string()))?;
    let is_checkpointed = session.config.memory.recompute == Recompute::Ops;
    Ok(Recording {
        operations: graph.graph.operations,
        notes,
        stages,
        is_checkpointed,
        is_on_own_threads: false,
        graph_ends: GraphEnds::default(),
    })
}

/// Notes the moments of a recording. Each note creates a marker tensor: identities on a capture device only grow, so
/// its identity orders the note among the operations.
#[derive(Clone)]
pub(super) struct RecordingMarks {
    device: Device,
    notes: Arc<Mutex<Vec<Note>>>,
}

impl RecordingMarks {
    fn notes(&self) -> MutexGuard<'_, Vec<Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, what: Noted) {
        let marker = Tensor::<1>::zeros([1], &self.device);
        if let Storage::Recorded(id) = Storage::of(&marker.into()) {
            self.notes().push(Note { at: id.value(), what });
        }
    }
}

impl Watch for RecordingMarks {
    fn offloaded(&mut self, category: Category, bytes: u64) {
        if bytes > 0 {
            self.note(Noted::Offloaded { category, bytes });
        }
    }

    fn holds(&mut self, category: Category, name: &str, tensor: &AnyTensor) {
        if let Storage::Recorded(id) = Storage::of(tensor) {
            self.note(Noted::Held { tensor: id.value(), category, name: name.to_owned() });
        }
    }
}
