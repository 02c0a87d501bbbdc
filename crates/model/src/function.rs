//! Operations whose backward pass is written by hand.

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
    AnyTensor, autodiff,
    backends::{Plain, Tracked, first_backend},
    policy::ranked,
};

type Gradient<const N: usize> = dyn FnOnce(AnyTensor, [bool; N]) -> [Option<AnyTensor>; N] + Send;

/// Ties `output` to `inputs` in the autodiff graph by a backward pass written by hand, as `torch.autograd.Function` does.
///
/// `output` was computed of the inputs' [`inner`](AnyTensor::inner) tensors; what `backward` needs of them it holds,
/// and nothing else is kept. It is given the gradient of the output, a plain tensor, and which inputs want theirs, and
/// gives those; what it moves is freed as soon as it is used up. It may run once.
///
/// Where no input is on an autodiff device, `output` is given back as it is and `backward` is dropped.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use oomph_model::{AnyTensor, differentiable};
///
/// /// x³, which keeps x alone.
/// fn cube(x: Tensor<1>) -> Tensor<1> {
///     let plain = oomph_model::autodiff::inner(x.clone());
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
    let state = State(Arc::new(Mutex::new(Some(Box::new(backward)))));
    let strategy = tracked.gradient_checkpointing_strategy();
    let attached = first_backend!(attach::<N>(&inputs, &output, &state, strategy));
    // Every device that a build can open is among the backends.
    attached.expect("all inputs are of one backend, which this build has")
}

/// Another output of an operation that gives one, and its gradient on the way to the operation's backward pass.
///
/// It hangs on the first output in the graph, so that its own backward pass, which only puts the gradient down here,
/// comes before the operation's. An operation whose second output nobody uses has no gradient of it.
#[derive(Clone, Default)]
pub(crate) struct SecondOutput(Arc<Mutex<Option<AnyTensor>>>);

impl SecondOutput {
    /// The output `value`, off the graph, as one of the operation that gave `first`.
    pub(crate) fn output<const D: usize, const E: usize>(
        self,
        first: &Tensor<D>,
        value: Tensor<E>,
    ) -> Tensor<E> {
        let dims = first.dims();
        let (device, dtype) = (autodiff::inner(first.clone()).device(), first.dtype());
        ranked(differentiable([first.clone().into()], value.into(), move |of_second, _| {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(of_second);
            // The operation's backward pass runs even where the first output has no gradient of its own.
            [Some(Tensor::<D>::zeros([1; D], (&device, dtype)).expand(dims).into())]
        }))
    }

    /// Its gradient, once.
    pub(crate) fn take(&self) -> Option<AnyTensor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn attach<B: Plain, const N: usize>(
    inputs: &[AnyTensor; N],
    output: &AnyTensor,
    state: &State<N>,
    strategy: GradientCheckpointingStrategy,
) -> Option<AnyTensor> {
    let output = B::primitive(output)?;
    let parents: Option<Vec<Tracked<B>>> = inputs.iter().map(parent::<B>).collect();
    // As many as there are inputs.
    let nodes = parents?.into_iter().map(|parent| parent.node).collect::<Vec<_>>().try_into().ok()?;
    let prepared = Hand.prepare::<NoCheckpointing>(nodes).compute_bound().stateful();
    let tracked = match prepared {
        OpsKind::Tracked(operation) => operation.finish(state.clone(), output),
        OpsKind::UnTracked(operation) => operation.finish(output),
    };
    Some(B::tracked_tensor(tracked, strategy))
}

/// An input in the graph; one that is on the plain device is a constant.
fn parent<B: Plain>(input: &AnyTensor) -> Option<Tracked<B>> {
    B::tracked(input).or_else(|| B::primitive(input).map(Autodiff::<B>::from_inner))
}

/// What a hand-written backward pass holds, until it runs.
#[derive(Clone)]
struct State<const N: usize>(Arc<Mutex<Option<Box<Gradient<N>>>>>);

impl<const N: usize> fmt::Debug for State<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("State")
    }
}

#[derive(Debug)]
struct Hand;

impl<B: Plain, const N: usize> Backward<B, N> for Hand {
    type State = State<N>;

    fn backward(self, ops: Ops<State<N>, N>, gradients: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = B::tensor(gradients.consume::<B>(&ops.node));
        let wanted = ops.parents.each_ref().map(Option::is_some);
        // The closure is taken out before it runs: a panic within leaves nothing half done.
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
