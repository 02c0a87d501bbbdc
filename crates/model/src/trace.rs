use burn::tensor::{Device, Tensor};
use burn_capture::{CaptureBackend, TensorId};

/// The type of a layer, as the summary shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerKind(pub &'static str);

/// Traces a forward on a capture device: each layer with its operations and shapes.
#[derive(Debug)]
pub(crate) struct Trace {
    device: Device,
    open: Vec<usize>,
    pub(crate) scopes: Vec<TracedScope>,
}

/// One scope of a traced forward.
#[derive(Debug)]
pub(crate) struct TracedScope {
    pub(crate) place: String,
    pub(crate) depth: usize,
    /// Identities of two marker tensors: the operations recorded between them belong to the scope.
    pub(crate) span: (TensorId, TensorId),
    pub(crate) layer: Option<TracedLayer>,
}

#[derive(Debug)]
pub(crate) struct TracedLayer {
    pub(crate) kind: LayerKind,
    pub(crate) input: Vec<usize>,
    pub(crate) output: Vec<usize>,
    pub(crate) parameters: usize,
}

impl Trace {
    pub(crate) fn new(device: &Device) -> Self {
        Self { device: device.clone(), open: Vec::new(), scopes: Vec::new() }
    }

    pub(crate) fn enter(&mut self, place: &[String]) {
        let mark = self.mark();
        self.open.push(self.scopes.len());
        self.scopes.push(TracedScope {
            place: place.join("."),
            depth: self.open.len() - 1,
            span: (mark, mark),
            layer: None,
        });
    }

    pub(crate) fn leave(&mut self) {
        let mark = self.mark();
        if let Some(index) = self.open.pop() {
            self.scopes[index].span.1 = mark;
        }
    }

    pub(crate) fn layer(&mut self, kind: LayerKind, input: &[usize], output: &[usize], parameters: usize) {
        if let Some(&index) = self.open.last() {
            self.scopes[index].layer =
                Some(TracedLayer { kind, input: input.to_vec(), output: output.to_vec(), parameters });
        }
    }

    /// Identities on a capture device only grow: that of a new tensor marks this moment of the recording.
    fn mark(&self) -> TensorId {
        let marker = Tensor::<1>::zeros([1], &self.device);
        // Only `summarize` makes a trace, on a capture device, where the conversion cannot fail.
        marker.try_into_primitive::<CaptureBackend>().expect("a trace runs on a capture device").id()
    }
}
