//! Operations on plain tensors with a kernel of our own on the CPU: one pass over memory where Burn's operations would
//! take many, and no buffer beside the output. On other backends they are composed of Burn's operations.
//!
//! On a capture device such an operation is recorded as one, with what its kernel allocates: see [`Own`].

mod accumulate;
mod cast;
mod conv;
mod cross_entropy;
mod dropout;
mod interleave;
mod lstm;
mod norm;
mod panels;
mod room;
mod rows;
mod steps;
mod tile;
mod update;
mod vector;
mod workers;

use burn::tensor::Tensor;
use burn_backend::{DType, Shape};
use burn_capture::CaptureBackend;
use burn_flex::{Flex, FlexTensor};
use burn_ir::{CustomOpIr, OperationIr, ScalarIr, TensorIr};
use burn_router::{RouterClient, RouterTensor};

use crate::{AnyTensor, backends::Plain};

pub(crate) use accumulate::{Steps, Sums, Terms};
pub(crate) use cast::cast;
pub(crate) use conv::{Slide, conv2d, conv2d_backward};
pub(crate) use cross_entropy::{mean_loss_backward, row_losses};
pub(crate) use dropout::{Mask, dropped};
pub(crate) use lstm::{
    LstmEnd, LstmGradients, LstmStart, LstmSteps, Matrix, Outputs, lstm_backward, lstm_forward,
    lstm_input_backward,
};
pub(crate) use norm::{Addend, Norm, NormGradients, Shared, moments, rectified_gradient};
pub(crate) use steps::{place_steps, room};
pub use update::{AdamStep, SgdStep};

/// Which kernels there are where it computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Our own, on the CPU.
    Own,
    /// Burn's operations, on any backend.
    Composed,
}

/// What a kernel allocates beside its outputs while it runs, in elements of 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Workspace {
    /// Elements that all threads share.
    shared: usize,
    /// Elements of each thread that has a task.
    of_each: usize,
    /// How many tasks there can be, whatever the number of threads.
    tasks: usize,
}

impl Workspace {
    /// Bytes that all threads share, bytes of each, and how many there are at most.
    fn scalars(self) -> [ScalarIr; 3] {
        let bytes = |elements: usize| (elements * size_of::<f32>()) as u64;
        [bytes(self.shared), bytes(self.of_each), self.tasks as u64].map(ScalarIr::UInt)
    }
}

/// An operation with a kernel of its own, and what that allocates: its outputs, and maybe a [`Workspace`].
struct Own {
    name: &'static str,
    inputs: Vec<AnyTensor>,
    outputs: Vec<(Vec<usize>, DType)>,
    /// How many outputs, the first ones, are written into as many inputs, where nobody else holds those.
    in_place: usize,
}

impl Own {
    /// Runs `kernel` on contiguous tensors of Flex, or records that it would run.
    ///
    /// # Panics
    /// Panics if the inputs are on a GPU.
    fn run(self, kernel: impl FnOnce(Vec<FlexTensor>) -> Vec<FlexTensor>) -> Vec<AnyTensor> {
        self.run_within(Workspace::default(), kernel)
    }

    /// As [`run`](Self::run), for a kernel that has a workspace.
    fn run_within(
        self,
        workspace: Workspace,
        kernel: impl FnOnce(Vec<FlexTensor>) -> Vec<FlexTensor>,
    ) -> Vec<AnyTensor> {
        if self.inputs.iter().all(|input| input.on::<CaptureBackend>().is_some()) {
            return self.record(workspace);
        }
        let Self { inputs, .. } = self;
        // The kernel is to be the only holder of what nobody else holds.
        let contiguous = inputs.into_iter().map(|input| {
            // A policy asks for our own kernels on the CPU alone.
            let input = input.on::<Flex>().expect("our own kernels run on the CPU");
            input.to_contiguous()
        });
        kernel(contiguous.collect()).into_iter().map(Flex::tensor).collect()
    }

    /// As [`run`](Self::run), for the one output of an operation.
    fn run_one<const D: usize>(self, kernel: impl FnOnce(Vec<FlexTensor>) -> FlexTensor) -> Tensor<D> {
        let output = self.run(|inputs| vec![kernel(inputs)]).pop();
        // An operation declares its outputs, and a kernel gives as many.
        output.and_then(AnyTensor::float).expect("the operation has one output of this rank")
    }

    /// The scalars say how many outputs take the places of inputs, and what the workspace is: the planner goes by them.
    fn record(self, workspace: Workspace) -> Vec<AnyTensor> {
        let inputs: Vec<_> = self.inputs.iter().filter_map(|input| input.on::<CaptureBackend>()).collect();
        drop(self.inputs);
        let Some(client) = inputs.first().map(|input| input.client.clone()) else { return Vec::new() };
        let inputs: Vec<TensorIr> = inputs.into_iter().map(RouterTensor::into_ir).collect();
        let outputs = self
            .outputs
            .into_iter()
            .map(|(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), Shape::from(shape), dtype));
        let outputs: Vec<TensorIr> = outputs.collect();
        let scalars =
            std::iter::once(ScalarIr::UInt(self.in_place as u64)).chain(workspace.scalars()).collect();
        let operation = CustomOpIr::with_scalars(self.name, &inputs, &outputs, scalars);
        client.register(OperationIr::Custom(operation)).into_iter().map(CaptureBackend::tensor).collect()
    }
}
