//! The way into and out of Burn's autodiff graph.
//!
//! Burn's own `backward`, `inner` and `from_inner` panic on capture tensors (pinned 0.22.0-pre.3). For those tensors the
//! functions here use the primitives of the capture backend, so that the planner records what training runs.

use std::fmt;

use burn::tensor::{GradientCheckpointingStrategy, Gradients, Tensor};
use burn_autodiff::Autodiff;
use burn_backend::AutodiffBackend;
use burn_capture::CaptureBackend;

use crate::{
    any_tensor::{AnyTensor, ranked, with_rank},
    backends::{Plain, first_backend},
};

pub(crate) type Recorded = Autodiff<CaptureBackend>;

/// Takes a tensor off the graph, onto the plain device. A plain tensor is returned as it is.
pub fn inner<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if !tensor.device().is_autodiff() {
        return tensor;
    }
    match tensor.clone().try_into_primitive::<Recorded>() {
        Ok(recorded) => Tensor::from_primitive::<CaptureBackend>(recorded.primitive),
        Err(_) => tensor.inner(),
    }
}

/// Whether backward gives the tensor a gradient: it is trainable, or computed from what is.
pub fn wants_gradient<const D: usize>(tensor: &Tensor<D>) -> bool {
    AnyTensor::from(tensor.clone()).wants_gradient()
}

fn requires_gradient<B: Plain>(tensor: &AnyTensor) -> Option<bool> {
    B::tracked(tensor).map(|tracked| !tracked.node.requirement.is_none())
}

/// Puts a plain tensor onto the autodiff device, untracked. A tensor of that device is returned detached.
pub fn outer<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    outer_as(tensor, GradientCheckpointingStrategy::Disabled)
}

/// As [`outer`], for a tensor that combines with others of that strategy.
fn outer_as<const D: usize>(tensor: Tensor<D>, strategy: GradientCheckpointingStrategy) -> Tensor<D> {
    if tensor.device().is_autodiff() {
        return tensor.detach();
    }
    let tensor = AnyTensor::from(tensor);
    let tracked = first_backend!(wrapped(&tensor, strategy));
    // Every device that a build can open is among the backends.
    ranked(tracked.expect("a tensor is of a backend that this build has"))
}

fn wrapped<B: Plain>(tensor: &AnyTensor, strategy: GradientCheckpointingStrategy) -> Option<AnyTensor> {
    Some(B::tracked_tensor(Autodiff::<B>::from_inner(B::primitive(tensor)?), strategy))
}

impl AnyTensor {
    /// As [`wants_gradient`].
    pub fn wants_gradient(&self) -> bool {
        // A tensor that is not on the autodiff device is of no backend's graph.
        first_backend!(requires_gradient(self)).unwrap_or(false)
    }

    /// Takes the tensor off the autodiff graph, onto the plain device. A plain tensor is returned as it is, and so are
    /// integers, which are in no graph.
    #[must_use]
    pub fn inner(self) -> Self {
        if !self.is_float() {
            return self;
        }
        with_rank!(self, tensor => inner(tensor).into())
    }

    /// Puts a plain float tensor onto the autodiff device as a leaf; `trainable` asks for its gradient. Integers are
    /// returned as they are.
    #[must_use]
    pub fn tracked(self, trainable: bool) -> Self {
        self.tracked_as(trainable, GradientCheckpointingStrategy::Disabled)
    }

    /// As [`tracked`](Self::tracked), on the device of `other` and with its strategy: the result is plain if `other` is.
    #[must_use]
    pub fn tracked_like(self, other: &Self, trainable: bool) -> Self {
        if !other.device().is_autodiff() {
            return self.inner();
        }
        self.tracked_as(trainable, other.device().gradient_checkpointing_strategy())
    }

    /// As [`tracked`](Self::tracked), with a checkpointing strategy.
    #[must_use]
    pub fn tracked_as(self, trainable: bool, strategy: GradientCheckpointingStrategy) -> Self {
        if !self.is_float() {
            return self;
        }
        with_rank!(self, tensor => outer_as(tensor, strategy).set_require_grad(trainable).into())
    }
}

/// The gradients that a backward pass computed.
pub struct GraphGradients(Computed);

enum Computed {
    /// On a device that computes.
    Executed(Gradients),
    /// On a capture device.
    Recorded(<Recorded as AutodiffBackend>::Gradients),
}

impl fmt::Debug for GraphGradients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphGradients").field("recorded", &self.are_recorded()).finish()
    }
}

/// Goes backward through the graph of `loss`.
pub fn backward(loss: Tensor<1>) -> GraphGradients {
    match loss.clone().try_into_primitive::<Recorded>() {
        Ok(recorded) => {
            // The graph lives as long as its root.
            drop(loss);
            GraphGradients(Computed::Recorded(Recorded::backward(recorded)))
        }
        Err(_) => GraphGradients(Computed::Executed(loss.backward())),
    }
}

impl GraphGradients {
    /// Whether they are of a capture device.
    pub fn are_recorded(&self) -> bool {
        matches!(self.0, Computed::Recorded(_))
    }

    /// Removes and returns the gradient of a `tensor` of the graph, as a plain tensor; `None` if it has none.
    pub fn remove(&mut self, tensor: AnyTensor) -> Option<AnyTensor> {
        with_rank!(tensor, tensor => match &mut self.0 {
            Computed::Executed(gradients) => tensor.grad_remove(gradients).map(AnyTensor::from),
            Computed::Recorded(gradients) => {
                let primitive = tensor.try_into_primitive::<Recorded>().ok()?;
                Recorded::grad_remove(&primitive, gradients).map(CaptureBackend::tensor)
            }
        })
    }
}
