//! The one place where oomph enters and leaves the autodiff graph.
//!
//! Burn's own `backward`, `inner` and `from_inner` panic on capture tensors (pinned 0.22.0-pre.3). The functions here
//! take the capture backend's own primitives there, so that what is planned is exactly what is trained.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{GradientCheckpointingStrategy, Tensor};
use burn_autodiff::Autodiff;
use burn_backend::AutodiffBackend;
use burn_capture::CaptureBackend;
use oomph_core::{Account, charge};

use crate::{
    AnyTensor, Named, Stages,
    backends::{Plain, first_backend},
    differentiable,
    policy::ranked,
};

pub(crate) type Recorded = Autodiff<CaptureBackend>;

/// Takes a tensor off the graph, onto the plain device. A plain one is returned as it is.
pub fn inner<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if !tensor.device().is_autodiff() {
        return tensor;
    }
    match tensor.clone().try_into_primitive::<Recorded>() {
        Ok(recorded) => Tensor::from_primitive::<CaptureBackend>(recorded.primitive),
        Err(_) => tensor.inner(),
    }
}

/// Puts a plain tensor onto the autodiff device, untracked. One that is there already is returned detached.
pub fn outer<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    outer_as(tensor, GradientCheckpointingStrategy::Disabled)
}

/// As [`outer`], for tensors to go with others of that strategy.
pub(crate) fn outer_as<const D: usize>(
    tensor: Tensor<D>,
    strategy: GradientCheckpointingStrategy,
) -> Tensor<D> {
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

/// The end of a graph whose gradient comes from elsewhere: the values that it put out are not kept for it.
#[derive(Debug)]
pub struct Awaiting {
    /// Depends on the output in the graph.
    root: Tensor<1>,
    gradient: Arc<Mutex<Option<AnyTensor>>>,
}

impl Awaiting {
    /// What goes back through the graph that gave `output`.
    pub fn new(output: AnyTensor) -> Self {
        let gradient = Arc::<Mutex<Option<AnyTensor>>>::default();
        let zero = Tensor::<1>::zeros([1], &output.device().inner());
        let given = gradient.clone();
        let root = differentiable([output], zero.into(), move |_, _| {
            [given.lock().unwrap_or_else(PoisonError::into_inner).take()]
        });
        Self { root: ranked(root), gradient }
    }

    /// A loss of which the output has the gradient `gradient`, a plain tensor of its shape, whatever comes before the
    /// output: backward goes on from it as if it had come from what follows.
    pub fn resume(self, gradient: AnyTensor) -> Tensor<1> {
        *self.gradient.lock().unwrap_or_else(PoisonError::into_inner) = Some(gradient);
        self.root
    }
}

/// What [`backward_to`] gives.
#[derive(Debug, Default)]
pub struct BackwardOutcome {
    /// The gradients of parameters by name.
    pub gradients: Named<AnyTensor>,
    /// The gradient of the input.
    pub input: Option<AnyTensor>,
}

/// The gradients of `loss` with respect to the trainable parameters of `model`, as plain tensors by parameter name.
///
/// A parameter that the loss does not depend on has no entry. A gradient that is only a part of its storage, as Burn's
/// convolutions with a stride give them, is copied out of it, so that the rest is freed: gradients take what parameters
/// take.
pub fn backward(loss: Tensor<1>, model: &Stages) -> Named<AnyTensor> {
    backward_to(loss, model, None).gradients
}

/// As [`backward`], and with respect to `input`, a [`tracked`](AnyTensor::tracked) tensor that the loss was computed
/// from.
pub fn backward_to(loss: Tensor<1>, model: &Stages, input: Option<AnyTensor>) -> BackwardOutcome {
    match loss.clone().try_into_primitive::<Recorded>() {
        Ok(recorded) => {
            // The graph lives as long as its root.
            drop(loss);
            backward_recorded(recorded, model, input)
        }
        Err(_) => backward_executed(loss, model, input),
    }
}

fn backward_executed(loss: Tensor<1>, model: &Stages, input: Option<AnyTensor>) -> BackwardOutcome {
    let mut gradients = loss.backward();
    let input = input.and_then(|input| input.remove_gradient(&mut gradients));
    let mut named = Named::new();
    model.visit(&mut |info, parameter| {
        if info.trainable
            && let Some(gradient) = parameter.remove_gradient(&mut gradients)
        {
            let gradient = if gradient.is_part() { gradient.scale(1.0) } else { gradient };
            named.insert(name_of(info.name), gradient);
        }
    });
    BackwardOutcome { gradients: named, input }
}

fn backward_recorded(
    loss: <Recorded as burn_backend::BackendTypes>::FloatTensorPrimitive,
    model: &Stages,
    input: Option<AnyTensor>,
) -> BackwardOutcome {
    let mut gradients = Recorded::backward(loss);
    // Who wants the gradient of an input holds it up to here. The planner knows it by this product by one, as below.
    drop(input.clone().map(|input| input.inner().scale(1.0)));
    let input = input.and_then(|input| input.remove_recorded_gradient(&mut gradients));
    let mut named = Named::new();
    model.visit(&mut |info, parameter| {
        if info.trainable
            && let Some(gradient) = parameter.remove_recorded_gradient(&mut gradients)
        {
            // The planner knows this product by one, and whether it would be executed.
            named.insert(name_of(info.name), gradient.scale(1.0));
        }
    });
    BackwardOutcome { gradients: named, input }
}

/// A name of its own, which is the program's and not the device's as gradients are.
fn name_of(parameter: &str) -> String {
    charge(Account::Host, || parameter.to_owned())
}

/// The gradient of a capture tensor, as a plain one.
pub(crate) fn remove_recorded<const D: usize>(
    tensor: Tensor<D>,
    gradients: &mut <Recorded as AutodiffBackend>::Gradients,
) -> Option<Tensor<D>> {
    let primitive = tensor.try_into_primitive::<Recorded>().ok()?;
    Recorded::grad_remove(&primitive, gradients).map(Tensor::from_primitive::<CaptureBackend>)
}
