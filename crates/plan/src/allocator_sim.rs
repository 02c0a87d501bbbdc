use std::collections::{HashMap, HashSet};

use burn_backend::DType;
use burn_ir::{OperationIr, TensorIr, TensorStatus};
use oomph_core::{Phase, is_within};
use oomph_timeline::{Block, Name, Names};

use crate::{
    checkpointing::Graph,
    graph_order::GraphOrder,
    layout::{Layout, Rows, TensorRules},
    pools::{PoolSim, Slot},
};

/// One counted reference to a storage, with the layout of its tensor. [`AllocatorSim::release`] or
/// [`AllocatorSim::output`] consumes it; it has no `Drop` because counting needs the simulator.
#[derive(Debug)]
pub(crate) struct Handle {
    storage: usize,
    pub(crate) layout: Layout,
    pub(crate) dtype: DType,
}

/// Storage that tensors share by counted references, as in a backend.
#[derive(Debug)]
struct Storage {
    bytes: u64,
    references: usize,
    block: usize,
    /// Its memory in a pool.
    slot: Option<Slot>,
}

/// A tensor after its last read, if that read did not consume it.
#[derive(Debug)]
struct Lingering {
    handle: Handle,
    phase: Phase,
    holder: Holder,
}

/// The owner of a tensor after its last read.
#[derive(Debug)]
enum Holder {
    /// A variable that lives to the end of its function. A recording does not contain that moment; for a layer's variable
    /// it is at the latest the end of this scope.
    Scope(String),
    /// The autodiff graph of this number, until its backward begins. Number 0 is that of a forward within backward, which
    /// ends with its phase.
    Graph(u64),
}

/// Where the replay is: later blocks and events get this phase and scope.
#[derive(Debug)]
struct Position {
    phase: Phase,
    scope: String,
    /// The name of the scope.
    name: Name,
}

/// Simulates a backend's allocator: storage is allocated, shared and freed.
#[derive(Debug)]
pub(crate) struct AllocatorSim {
    storages: Vec<Storage>,
    tensors: HashMap<u64, Handle>,
    /// Tensors that later operations read.
    needed: HashSet<u64>,
    pub(crate) blocks: Vec<Block>,
    /// The time of each event.
    pub(crate) times: Vec<u64>,
    pub(crate) points: Vec<(Phase, Name)>,
    pub(crate) names: Names,
    /// Tensors still held after their last read.
    lingering: Vec<Lingering>,
    /// References of the graph beyond those that backward reads.
    pub(crate) graph: Option<Graph>,
    pub(crate) graph_order: GraphOrder,
    operation: Name,
    position: Position,
    time: u64,
    next_address: u64,
    /// How new tensors lie in memory.
    tensor_rules: TensorRules,
    /// The pools that allocations come from. Without pools they come from the system.
    pools: Option<PoolSim>,
    /// The bytes that the pools reserve after each event; empty without pools.
    pub(crate) reserved: Vec<u64>,
    /// What they would reserve without unused memory.
    pub(crate) occupied: Vec<u64>,
}

/// Bytes per element. Burn's quantised types do not occur in training.
pub(crate) fn element_bytes(dtype: DType) -> u64 {
    dtype.size() as u64
}

impl AllocatorSim {
    /// The allocator of a CPU: what is asked for is allocated.
    pub(crate) fn new() -> Self {
        Self {
            storages: Vec::new(),
            tensors: HashMap::new(),
            needed: HashSet::new(),
            blocks: Vec::new(),
            times: vec![0],
            points: vec![(Phase::Init, Name::NONE)],
            names: Names::default(),
            lingering: Vec::new(),
            graph: None,
            graph_order: GraphOrder::default(),
            operation: Name::NONE,
            position: Position { phase: Phase::Init, scope: String::new(), name: Name::NONE },
            time: 0,
            next_address: 0x1000,
            tensor_rules: TensorRules { rows: Rows::Packed, bool_bytes: 1 },
            pools: None,
            reserved: Vec::new(),
            occupied: Vec::new(),
        }
    }

    /// The allocator of a GPU: memory comes from pools.
    pub(crate) fn on_gpu(pools: PoolSim, tensor_rules: TensorRules) -> Self {
        Self { tensor_rules, reserved: vec![0], occupied: vec![0], pools: Some(pools), ..Self::new() }
    }

    /// Bytes per element.
    pub(crate) fn element_bytes(&self, dtype: DType) -> u64 {
        if matches!(dtype, DType::Bool(_)) { self.tensor_rules.bool_bytes } else { element_bytes(dtype) }
    }

    /// The bytes of memory for `bytes`: a GPU's allocations are whole multiples of the alignment.
    pub(crate) fn allocated(&self, bytes: u64) -> u64 {
        self.pools.as_ref().map_or(bytes, |pools| pools.padded(bytes))
    }

    /// Enters a phase and scope. Tensors held only by the previous scope are freed.
    pub(crate) fn go(&mut self, phase: Phase, scope: &str) {
        self.graph_order.enter(self.position.phase, phase);
        let order = &self.graph_order;
        let is_left = |held: &Lingering| match &held.holder {
            Holder::Scope(of) => held.phase != phase || !is_within(scope, of),
            Holder::Graph(0) => held.phase != phase,
            Holder::Graph(number) => !order.is_open(*number),
        };
        let (left, stay) = std::mem::take(&mut self.lingering).into_iter().partition(is_left);
        self.lingering = stay;
        self.release_all(left.into_iter().map(|held| held.handle));
        if phase != Phase::Forward
            && let Some(graph) = &mut self.graph
        {
            graph.end_forward();
        }
        self.clean_up_between(self.position.phase, phase);
        self.position = Position { phase, scope: scope.to_owned(), name: self.names.of(scope) };
    }

    /// The trainer gives back unused memory when the model is made, and around evaluations (`trainer::cleanup`).
    fn clean_up_between(&mut self, before: Phase, phase: Phase) {
        let is_made = before == Phase::Init && phase != Phase::Init;
        let turns = (before == Phase::Eval) != (phase == Phase::Eval);
        if let Some(pools) = self.pools.as_mut().filter(|_| is_made || turns) {
            pools.clean_up();
            self.event();
        }
    }

    /// Whether tensors currently come from the host.
    pub(crate) fn is_uploading(&self) -> bool {
        matches!(self.position.phase, Phase::Init | Phase::Data)
    }

    /// Begins an operation. `needed` are its tensors that are read later.
    pub(crate) fn begin(&mut self, operation: &str, needed: HashSet<u64>) {
        self.operation = self.names.of(operation);
        self.needed = needed;
        self.time += 1;
    }

    pub(crate) fn next_event(&self) -> u32 {
        self.times.len() as u32
    }

    /// The address of a tensor's storage; `None` if the tensor is not alive.
    pub(crate) fn address(&self, tensor: u64) -> Option<u64> {
        let handle = self.tensors.get(&tensor)?;
        Some(self.blocks[self.storages[handle.storage].block].address)
    }

    fn event(&mut self) -> u32 {
        self.times.push(self.time);
        self.reserved.extend(self.pools.as_ref().map(PoolSim::reserved));
        self.occupied.extend(self.pools.as_ref().map(PoolSim::occupied));
        self.points.push((self.position.phase, self.position.name));
        (self.times.len() - 1) as u32
    }

    /// An input of an operation: the tensor's own reference if the operation consumes it, else another one.
    ///
    /// A tensor that the recording does not create existed before or comes from the host. It is allocated here.
    pub(crate) fn input(&mut self, ir: &TensorIr) -> Handle {
        let id = ir.id.value();
        let handle = self.tensors.remove(&id).unwrap_or_else(|| self.allocate(&ir.shape[..], ir.dtype));
        if ir.status == TensorStatus::ReadWrite {
            return handle;
        }
        // Even at its last read, its owner still holds it while this operation runs. So it is not written in place, and is
        // freed at the operation's end, the earliest certain moment.
        let more = self.share(&handle);
        self.tensors.insert(id, handle);
        more
    }

    pub(crate) fn inputs(&mut self, operation: &OperationIr) -> Vec<Handle> {
        operation.inputs().map(|ir| self.input(ir)).collect()
    }

    /// Another reference to the same storage.
    pub(crate) fn share(&mut self, handle: &Handle) -> Handle {
        self.storages[handle.storage].references += 1;
        Handle { storage: handle.storage, layout: handle.layout.clone(), dtype: handle.dtype }
    }

    /// Whether this is the only reference to the storage: only then may it be written in place.
    pub(crate) fn is_unique(&self, handle: &Handle) -> bool {
        self.storages[handle.storage].references == 1
    }

    /// Whether the tensor covers its whole storage.
    pub(crate) fn is_whole(&self, handle: &Handle) -> bool {
        self.storages[handle.storage].bytes
            == handle.layout.elements() as u64 * self.element_bytes(handle.dtype)
    }

    /// A new tensor, contiguous but for the padding of its rows on a GPU.
    pub(crate) fn allocate(&mut self, shape: &[usize], dtype: DType) -> Handle {
        match self.tensor_rules.rows {
            Rows::Packed => self.allocate_packed(shape, dtype),
            Rows::Padded => {
                let bytes = self.element_bytes(dtype);
                let (layout, elements) = Layout::padded(shape, bytes as usize);
                self.born(elements as u64 * bytes, layout, dtype)
            }
        }
    }

    /// A new contiguous tensor.
    pub(crate) fn allocate_packed(&mut self, shape: &[usize], dtype: DType) -> Handle {
        self.allocate_as(Layout::contiguous(shape), dtype)
    }

    /// A new tensor whose layout fills its storage.
    pub(crate) fn allocate_as(&mut self, layout: Layout, dtype: DType) -> Handle {
        let bytes = layout.elements() as u64 * self.element_bytes(dtype);
        self.born(bytes, layout, dtype)
    }

    pub(crate) fn workspace(&mut self, bytes: u64) -> Handle {
        self.born(bytes, Layout::contiguous(&[bytes as usize]), DType::U8)
    }

    /// A buffer that the backend never frees.
    pub(crate) fn keep(&mut self, bytes: u64, what: &str) {
        let name = self.names.of(what);
        let operation = std::mem::replace(&mut self.operation, name);
        self.workspace(bytes);
        self.operation = operation;
    }

    fn born(&mut self, bytes: u64, layout: Layout, dtype: DType) -> Handle {
        let allocated = self.allocated(bytes);
        let slot = self.pools.as_mut().map(|pools| pools.allocate(allocated));
        let born = self.event();
        let Position { phase, name: scope, .. } = self.position;
        let dtype_name = self.names.of(&format!("{dtype:?}").to_lowercase());
        self.storages.push(Storage { bytes, references: 1, block: self.blocks.len(), slot });
        self.blocks.push(Block {
            phase,
            scope,
            operation: self.operation,
            shape: layout.shape.clone(),
            dtype: dtype_name,
            ..Block::new(self.next_address, allocated, born)
        });
        // At least one byte: no two storages share an address.
        self.next_address += allocated.max(1);
        Handle { storage: self.storages.len() - 1, layout, dtype }
    }

    /// Drops a reference; the last one frees the storage.
    pub(crate) fn release(&mut self, handle: Handle) {
        let storage = &mut self.storages[handle.storage];
        storage.references -= 1;
        if storage.references == 0 {
            let (block, slot) = (storage.block, storage.slot);
            if let (Some(pools), Some(slot)) = (&mut self.pools, slot) {
                pools.free(slot);
            }
            let event = self.event();
            self.blocks[block].died = Some(event);
        }
    }

    pub(crate) fn release_all(&mut self, handles: impl IntoIterator<Item = Handle>) {
        handles.into_iter().for_each(|handle| self.release(handle));
    }

    /// Allocates the outputs of an operation, each as [`allocate`](Self::allocate) does.
    pub(crate) fn allocate_outputs<'a>(&mut self, outputs: impl IntoIterator<Item = &'a TensorIr>) {
        for ir in outputs {
            let output = self.allocate(&ir.shape[..], ir.dtype);
            self.output(ir, output);
        }
    }

    /// Makes `handle` an output of an operation.
    pub(crate) fn output(&mut self, ir: &TensorIr, mut handle: Handle) {
        handle.dtype = ir.dtype;
        self.tensors.insert(ir.id.value(), handle);
    }

    /// Adds an operation of forward to the graph.
    pub(crate) fn record(&mut self, operation: &OperationIr) {
        if self.position.phase == Phase::Forward
            && let Some(graph) = &mut self.graph
        {
            graph.run(operation);
        }
    }

    /// Ends an operation. Tensors after their last read are freed, at once or at the end of their scope.
    pub(crate) fn end<'a>(&mut self, tensors: impl Iterator<Item = &'a TensorIr>) {
        for ir in tensors {
            let id = ir.id.value();
            if self.needed.contains(&id) {
                continue;
            }
            let Some(handle) = self.tensors.remove(&id) else { continue };
            match self.holder(ir) {
                Some(holder) => self.lingering.push(Lingering { handle, phase: self.position.phase, holder }),
                None => self.release(handle),
            }
        }
    }

    /// The owner of a tensor after its last read, if any.
    fn holder(&self, ir: &TensorIr) -> Option<Holder> {
        if ir.status != TensorStatus::ReadOnly {
            return None;
        }
        let is_referred = || self.graph.as_ref().is_some_and(|graph| graph.refers_to(ir.id.value()));
        match self.position.phase {
            Phase::Forward if is_referred() => Some(Holder::Graph(self.graph_order.current())),
            // Variables of an optimizer's rule live to the rule's end. Elsewhere the last read nearly always moves the
            // tensor: plans match the measurements of docs/reference/planning-accuracy.md without holding it.
            Phase::Step if !self.position.scope.is_empty() => {
                Some(Holder::Scope(self.position.scope.clone()))
            }
            _ => None,
        }
    }
}
