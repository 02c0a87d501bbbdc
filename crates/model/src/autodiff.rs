//! Backward through a model.
//!
//! [`inner`], [`outer`] and the functions here are the only way into and out of the autodiff graph: they work on capture
//! tensors too, so that the planner records what training runs.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{GradientCheckpointingStrategy, Tensor};
use oomph_core::{Account, charge};
use oomph_kernels::{AnyTensor, differentiable, graph, ranked};

use crate::{parameters::Named, stages::Stages};

pub use crate::{handover::Handover, stages::hands_on};
pub use oomph_kernels::graph::{inner, outer, wants_gradient};

/// The end of a graph whose gradient comes from elsewhere. It does not keep the output's values.
#[derive(Debug)]
pub struct Awaiting {
    /// Depends on the output in the graph.
    root: Tensor<1>,
    gradient: Arc<Mutex<Option<AnyTensor>>>,
}

impl Awaiting {
    /// The end of the graph that gave `output`.
    pub fn new(output: AnyTensor) -> Self {
        let gradient = Arc::<Mutex<Option<AnyTensor>>>::default();
        let zero = Tensor::<1>::zeros([1], &output.device().inner());
        let given = gradient.clone();
        let root = differentiable([output], zero.into(), move |_, _| {
            [given.lock().unwrap_or_else(PoisonError::into_inner).take()]
        });
        Self { root: ranked(root), gradient }
    }

    /// A loss whose gradient at the output is `gradient`, a plain tensor of the output's shape. Backward continues from it as
    /// if the later layers had given it.
    pub fn resume(self, gradient: AnyTensor) -> Tensor<1> {
        *self.gradient.lock().unwrap_or_else(PoisonError::into_inner) = Some(gradient);
        self.root
    }
}

/// The start of a graph whose gradient goes elsewhere. It does not keep the input's values: they live as long as an operation of
/// the graph needs them.
#[derive(Debug)]
pub struct Starting(Arc<Mutex<Option<AnyTensor>>>);

impl Starting {
    /// The start of a graph at `input`, a plain tensor, and the input in this graph. All tensors of a graph have one `strategy`.
    pub fn new(input: AnyTensor, strategy: GradientCheckpointingStrategy) -> (Self, AnyTensor) {
        let gradient = Arc::<Mutex<Option<AnyTensor>>>::default();
        let zero = AnyTensor::from(Tensor::<1>::zeros([1], &input.device())).tracked_as(true, strategy);
        let taken = gradient.clone();
        let input = differentiable([zero], input, move |gradient, _| {
            *taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(gradient);
            [None]
        });
        (Self(gradient), input)
    }

    /// The gradient of the input, once backward went through the graph; `None` if the loss does not depend on the input.
    pub fn gradient(self) -> Option<AnyTensor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The results of [`backward_to`].
#[derive(Debug, Default)]
pub struct BackwardOutcome {
    /// The gradients of parameters by name.
    pub gradients: Named<AnyTensor>,
    /// The gradient of the input.
    pub input: Option<AnyTensor>,
}

/// Shows a recording that a tensor is held until here: a plan frees it at its last use. Otherwise it does nothing.
pub(crate) fn held_until_here(tensor: AnyTensor) {
    let tensor = tensor.inner();
    if tensor.is_recorded() {
        // The planner knows that training executes no product by one.
        drop(tensor.scale(1.0));
    }
}

/// The gradients of `loss` with respect to the trainable parameters of `model`, as plain tensors by parameter name.
///
/// A parameter that the loss does not depend on has no entry. A gradient that is smaller than its storage is copied, which
/// frees the storage: gradients take as much memory as parameters. Burn's convolutions with a stride give such gradients.
pub fn backward(loss: Tensor<1>, model: &Stages) -> Named<AnyTensor> {
    backward_to(loss, model, None).gradients
}

/// As [`backward`], and with respect to `input`, a [`tracked`](AnyTensor::tracked) tensor that the loss was computed
/// from.
pub fn backward_to(loss: Tensor<1>, model: &Stages, input: Option<AnyTensor>) -> BackwardOutcome {
    let mut gradients = graph::backward(loss);
    let recorded = gradients.are_recorded();
    // A caller that wants the input's gradient holds the input until here.
    input.clone().into_iter().for_each(held_until_here);
    let input = input.and_then(|input| gradients.remove(input));
    let mut named = Named::new();
    model.visit(&mut |info, parameter| {
        if info.trainable
            && let Some(gradient) = gradients.remove(parameter)
        {
            // In a recording the planner decides whether training would execute this product by one.
            let copied = recorded || gradient.is_part();
            // Gradients are charged to the device, and their names to the host.
            let name = charge(Account::Host, || info.name.to_owned());
            named.insert(name, if copied { gradient.scale(1.0) } else { gradient });
        }
    });
    BackwardOutcome { gradients: named, input }
}
