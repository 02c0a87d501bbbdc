//! Operations with a hand-written backward pass.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use burn::tensor::{GradientCheckpointingStrategy, Tensor};
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::AutodiffBackend;

use crate::{
    any_tensor::{AnyTensor, ranked},
    backends::{Plain, Tracked, first_backend},
    graph,
};

type Gradient<const N: usize> = dyn FnOnce(AnyTensor, [bool; N]) -> [Option<AnyTensor>; N] + Send;

/// Ties `output` to `inputs` in the autodiff graph by a hand-written backward pass, as `torch.autograd.Function` does.
///
/// The caller computes `output` from the inputs' [`inner`](AnyTensor::inner) tensors. The graph keeps the tensors that
/// `backward` captures, and no others. `backward` takes the gradient of the output, a plain tensor, and which inputs want
/// a gradient; it returns those gradients. It runs once, and frees a captured tensor at its last use.
///
/// If no input is on an autodiff device, `output` is returned as it is and `backward` is dropped.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use oomph_kernels::{AnyTensor, differentiable, graph};
///
/// /// x³. For backward it keeps x alone.
/// fn cube(x: Tensor<1>) -> Tensor<1> {
///     let plain = graph::inner(x.clone());
///     let output = plain.clone().powi_scalar(3);
///     let output = differentiable([x.into()], output.into(), move |gradient, _| {
///         let gradient = gradient.float::<1>().map(|gradient| gradient * plain.powi_scalar(2) * 3.0);
///         [gradient.map(AnyTensor::from)]
///     });
///     output.float().expect("it has the rank of x")
/// }
///
/// let x = Tensor::<1>::from_floats([2.0], &Device::flex().autodiff()).require_grad();
/// let gradients = cube(x.clone()).sum().backward();
/// assert_eq!(x.grad(&gradients).map(|gradient| gradient.into_scalar::<f32>()), Some(12.0));
/// ```
///
/// # Panics
/// Panics if the inputs are of different backends.
pub fn differentiable<const N: usize>(
    inputs: [AnyTensor; N],
    output: AnyTensor,
    backward: impl FnOnce(AnyTensor, [bool; N]) -> [Option<AnyTensor>; N] + Send + 'static,
) -> AnyTensor {
    let Some(tracked) = inputs.iter().map(AnyTensor::device).find(|device| device.is_autodiff()) else {
        return output;
    };
    let state = PendingBackward(Arc::new(Mutex::new(Some(Box::new(backward)))));
    let strategy = tracked.gradient_checkpointing_strategy();
    let attached = first_backend!(attach::<N>(&inputs, &output, &state, strategy));
    // Every device that a build can open is among the backends.
    attached.expect("all inputs are of one backend, which this build has")
}

/// The second output of an operation, and the slot that carries its gradient to the operation's backward pass.
///
/// In the graph it depends on the first output. So its own backward pass, which only fills the slot, runs before the
/// operation's. The slot stays empty if nobody uses the second output.
#[derive(Clone, Debug, Default)]
pub struct SecondOutput(Arc<Mutex<Option<AnyTensor>>>);

impl SecondOutput {
    /// Puts `value`, a plain tensor, into the graph as the second output of the operation that gave `first`.
    pub fn output<const D: usize, const E: usize>(self, first: &Tensor<D>, value: Tensor<E>) -> Tensor<E> {
        let dims = first.dims();
        let (device, dtype) = (graph::inner(first.clone()).device(), first.dtype());
        ranked(differentiable([first.clone().into()], value.into(), move |of_second, _| {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(of_second);
            // The operation's backward pass runs even if the first output has no gradient.
            [Some(Tensor::<D>::zeros([1; D], (&device, dtype)).expand(dims).into())]
        }))
    }

    /// Takes the gradient of the second output; later calls give `None`.
    pub fn take(&self) -> Option<AnyTensor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn attach<B: Plain, const N: usize>(
    inputs: &[AnyTensor; N],
    output: &AnyTensor,
    state: &PendingBackward<N>,
    strategy: GradientCheckpointingStrategy,
) -> Option<AnyTensor> {
    let output = B::primitive(output)?;
    let parents: Option<Vec<Tracked<B>>> = inputs.iter().map(parent::<B>).collect();
    // One per input.
    let nodes = parents?.into_iter().map(|parent| parent.node).collect::<Vec<_>>().try_into().ok()?;
    let prepared = HandWritten.prepare::<NoCheckpointing>(nodes).compute_bound().stateful();
    let tracked = match prepared {
        OpsKind::Tracked(operation) => operation.finish(state.clone(), output),
        OpsKind::UnTracked(operation) => operation.finish(output),
    };
    Some(B::tracked_tensor(tracked, strategy))
}

/// An input in the graph. A plain input becomes a constant.
fn parent<B: Plain>(input: &AnyTensor) -> Option<Tracked<B>> {
    B::tracked(input).or_else(|| B::primitive(input).map(Autodiff::<B>::from_inner))
}

/// A hand-written backward pass, until it runs.
#[derive(Clone)]
struct PendingBackward<const N: usize>(Arc<Mutex<Option<Box<Gradient<N>>>>>);

impl<const N: usize> fmt::Debug for PendingBackward<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingBackward")
    }
}

#[derive(Debug)]
struct HandWritten;

impl<B: Plain, const N: usize> Backward<B, N> for HandWritten {
    type State = PendingBackward<N>;

    fn backward(
        self,
        ops: Ops<PendingBackward<N>, N>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = B::tensor(gradients.consume::<B>(&ops.node));
        let wanted = ops.parents.each_ref().map(Option::is_some);
        // The closure leaves the state before it runs: a panic inside leaves no half-run closure behind.
        let backward = ops.state.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Burn consumes a graph when it goes backward through it.
        let backward = backward.expect("a graph is gone through once");
        for (parent, gradient) in ops.parents.into_iter().zip(backward(gradient, wanted)) {
            if let (Some(parent), Some(gradient)) = (parent, gradient.as_ref().and_then(B::primitive)) {
                gradients.register::<B>(parent.id, gradient);
            }
        }
    }
}
