use std::collections::{HashMap, HashSet};

use burn_backend::DType;
use burn_ir::{OperationIr, TensorIr, TensorStatus};
use oomph_core::{Phase, is_within};
use oomph_memory::{Name, Names, RawBlock};

use crate::{checkpointing::Graph, layout::Layout};

/// One reference to a storage, with the layout through which it is seen. Given back by [`Machine::release`] or
/// [`Machine::output`]; it is no `Drop` type because counting needs the machine.
#[derive(Debug)]
pub(crate) struct Handle {
    storage: usize,
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
}

/// Storage that tensors share by counted references, as they do in a backend.
#[derive(Debug)]
struct Storage {
    bytes: u64,
    references: usize,
    block: usize,
}

/// A tensor after its last read, where that did not consume it.
#[derive(Debug)]
struct Lingering {
    handle: Handle,
    phase: Phase,
    holder: Holder,
}

/// Who holds a tensor that nobody reads any more.
#[derive(Debug)]
enum Holder {
    /// A variable that lives to the end of its function. A recording does not say when that is; the end of this scope is
    /// the latest it can be for what a layer holds.
    Scope(String),
    /// The graph, to the end of the phase.
    Graph,
}

/// Plays what a backend's allocator would see: storage is born, shared and freed.
#[derive(Debug)]
pub(crate) struct Machine {
    storages: Vec<Storage>,
    tensors: HashMap<u64, Handle>,
    /// Tensors that are read again, or that outlive the recording.
    needed: HashSet<u64>,
    pub(crate) blocks: Vec<RawBlock>,
    /// By event.
    pub(crate) times: Vec<u64>,
    pub(crate) places: Vec<(Phase, Name)>,
    pub(crate) names: Names,
    /// Tensors that nobody reads any more and somebody still holds.
    lingering: Vec<Lingering>,
    /// What the graph refers to, where that is more than backward reads.
    pub(crate) graph: Option<Graph>,
    operation: Name,
    scope: String,
    place: (Phase, Name),
    time: u64,
    next_address: u64,
    /// Bytes that an allocation is rounded up to.
    alignment: u64,
}

/// Bytes of one element. Burn's quantised types are not trained with.
pub(crate) fn element_bytes(dtype: DType) -> u64 {
    dtype.size() as u64
}

impl Machine {
    pub(crate) fn new(alignment: u64) -> Self {
        Self {
            storages: Vec::new(),
            tensors: HashMap::new(),
            needed: HashSet::new(),
            blocks: Vec::new(),
            times: vec![0],
            places: vec![(Phase::Init, Name::NONE)],
            names: Names::default(),
            lingering: Vec::new(),
            graph: None,
            operation: Name::NONE,
            scope: String::new(),
            place: (Phase::Init, Name::NONE),
            time: 0,
            next_address: 0x1000,
            alignment,
        }
    }

    /// Where the operations that follow belong. What only the code of a scope still holds goes when that is left.
    pub(crate) fn go(&mut self, phase: Phase, scope: &str) {
        let is_left = |held: &Lingering| match &held.holder {
            _ if held.phase != phase => true,
            Holder::Scope(of) => !is_within(scope, of),
            Holder::Graph => false,
        };
        let (left, stay) = std::mem::take(&mut self.lingering).into_iter().partition(is_left);
        self.lingering = stay;
        for Lingering { handle, .. } in left {
            self.release(handle);
        }
        if phase != Phase::Forward
            && let Some(graph) = &mut self.graph
        {
            graph.end_forward();
        }
        self.scope = scope.to_owned();
        self.place = (phase, self.names.of(scope));
    }

    /// Whether tensors come from the host now.
    pub(crate) fn is_uploading(&self) -> bool {
        matches!(self.place.0, Phase::Init | Phase::Data)
    }

    /// Begins an operation. `needed` are those of its tensors that are read later.
    pub(crate) fn begin(&mut self, operation: &str, needed: HashSet<u64>) {
        self.operation = self.names.of(operation);
        self.needed = needed;
        self.time += 1;
    }

    /// The number of the next event.
    pub(crate) fn next_event(&self) -> u32 {
        self.times.len() as u32
    }

    /// The address of a tensor's storage, where the tensor lives.
    pub(crate) fn address(&self, tensor: u64) -> Option<u64> {
        let handle = self.tensors.get(&tensor)?;
        Some(self.blocks[self.storages[handle.storage].block].address)
    }

    fn event(&mut self) -> u32 {
        self.times.push(self.time);
        self.places.push(self.place);
        (self.times.len() - 1) as u32
    }

    /// An input of an operation: the tensor's own reference where the operation consumes it, else one more.
    ///
    /// A tensor that the recording does not make was there before, or is made on the host: it is born here.
    pub(crate) fn input(&mut self, ir: &TensorIr) -> Handle {
        let id = ir.id.value();
        if !self.tensors.contains_key(&id) {
            let handle = self.allocate(&ir.shape[..], ir.dtype);
            self.tensors.insert(id, handle);
        }
        match self.tensors.remove(&id) {
            Some(handle) if ir.status == TensorStatus::ReadWrite => handle,
            // Where nobody reads it again, somebody still holds it while this operation runs: it is not written in
            // place, and goes at the operation's end, the earliest moment that is certain.
            Some(handle) => {
                let more = self.share(&handle);
                self.tensors.insert(id, handle);
                more
            }
            // It was put there above.
            None => self.allocate(&ir.shape[..], ir.dtype),
        }
    }

    /// One more reference to the same storage.
    pub(crate) fn share(&mut self, handle: &Handle) -> Handle {
        self.storages[handle.storage].references += 1;
        Handle { storage: handle.storage, layout: handle.layout.clone(), dtype: handle.dtype }
    }

    /// Whether nobody else refers to the storage: only then may it be written in place.
    pub(crate) fn is_unique(&self, handle: &Handle) -> bool {
        self.storages[handle.storage].references == 1
    }

    /// Whether the tensor's elements are all of its storage.
    pub(crate) fn is_whole(&self, handle: &Handle) -> bool {
        self.storages[handle.storage].bytes == handle.layout.elements() as u64 * element_bytes(handle.dtype)
    }

    /// A new contiguous tensor.
    pub(crate) fn allocate(&mut self, shape: &[usize], dtype: DType) -> Handle {
        self.allocate_as(Layout::contiguous(shape), dtype)
    }

    /// A new tensor with a layout that fills its storage.
    pub(crate) fn allocate_as(&mut self, layout: Layout, dtype: DType) -> Handle {
        let bytes = layout.elements() as u64 * element_bytes(dtype);
        self.born(bytes, layout, dtype)
    }

    /// A buffer of a kernel.
    pub(crate) fn workspace(&mut self, bytes: u64) -> Handle {
        self.born(bytes, Layout::contiguous(&[bytes as usize]), DType::U8)
    }

    /// A buffer that the backend keeps for ever.
    pub(crate) fn keep(&mut self, bytes: u64, what: &str) -> Handle {
        let operation = std::mem::replace(&mut self.operation, Name::NONE);
        self.operation = self.names.of(what);
        let handle = self.workspace(bytes);
        self.operation = operation;
        handle
    }

    fn born(&mut self, bytes: u64, layout: Layout, dtype: DType) -> Handle {
        let born = self.event();
        let (phase, scope) = self.place;
        let dtype_name = self.names.of(&format!("{dtype:?}").to_lowercase());
        let allocated = bytes.next_multiple_of(self.alignment);
        self.storages.push(Storage { bytes, references: 1, block: self.blocks.len() });
        self.blocks.push(RawBlock {
            address: self.next_address,
            bytes: allocated,
            born,
            died: None,
            phase,
            scope,
            operation: self.operation,
            shape: layout.shape.clone(),
            dtype: dtype_name,
        });
        // One byte at least, so that no two storages share an address.
        self.next_address += allocated.max(1);
        Handle { storage: self.storages.len() - 1, layout, dtype }
    }

    /// Gives a reference back; the last one frees the storage.
    pub(crate) fn release(&mut self, handle: Handle) {
        let storage = &mut self.storages[handle.storage];
        storage.references -= 1;
        if storage.references == 0 {
            let block = storage.block;
            let event = self.event();
            self.blocks[block].died = Some(event);
        }
    }

    /// Makes `handle` the tensor that an operation gives.
    pub(crate) fn output(&mut self, ir: &TensorIr, mut handle: Handle) {
        handle.dtype = ir.dtype;
        self.tensors.insert(ir.id.value(), handle);
    }

    /// Lets the graph know of an operation of forward.
    pub(crate) fn record(&mut self, operation: &OperationIr) {
        if self.place.0 == Phase::Forward
            && let Some(graph) = &mut self.graph
        {
            graph.run(operation);
        }
    }

    /// Ends an operation: what nobody reads any more goes, at once or with its scope.
    pub(crate) fn end<'a>(&mut self, tensors: impl Iterator<Item = &'a TensorIr>) {
        for ir in tensors {
            let id = ir.id.value();
            if self.needed.contains(&id) {
                continue;
            }
            let Some(handle) = self.tensors.remove(&id) else { continue };
            match self.holder(ir) {
                Some(holder) => self.lingering.push(Lingering { handle, phase: self.place.0, holder }),
                None => self.release(handle),
            }
        }
    }

    /// Who still holds a tensor after its last read.
    fn holder(&self, ir: &TensorIr) -> Option<Holder> {
        if ir.status != TensorStatus::ReadOnly {
            return None;
        }
        let is_referred = || self.graph.as_ref().is_some_and(|graph| graph.refers_to(ir.id.value()));
        match self.place.0 {
            Phase::Forward if is_referred() => Some(Holder::Graph),
            // What an optimizer's rule holds lives to the rule's end. Elsewhere the last read nearly always moves: the
            // measurements of docs/planning.md are met without it.
            Phase::Step if !self.scope.is_empty() => Some(Holder::Scope(self.scope.clone())),
            _ => None,
        }
    }
}
