use burn::tensor::Tensor;
use burn_backend::{DType, Shape};
use burn_capture::CaptureBackend;
use burn_flex::{Flex, FlexTensor};
use burn_ir::{CustomOpIr, OperationIr, ScalarIr, TensorIr};
use burn_router::{RouterClient, RouterTensor};

use crate::{
    any_tensor::AnyTensor,
    backends::{Plain, primitive_on},
    workspace::Workspace,
};

/// An operation with a kernel of our own, which allocates the outputs and maybe a [`Workspace`].
pub(crate) struct CustomOp {
    pub(crate) name: &'static str,
    pub(crate) inputs: Vec<AnyTensor>,
    pub(crate) outputs: Vec<(Vec<usize>, DType)>,
    /// How many outputs, from the first on, overwrite the input of the same index, where the operation alone holds that
    /// input.
    pub(crate) in_place: usize,
}

impl CustomOp {
    /// Runs `kernel` on contiguous Flex tensors. On a capture device it records the operation instead.
    ///
    /// # Panics
    /// Panics if the inputs are on a GPU.
    pub(crate) fn run(self, kernel: impl FnOnce(Vec<FlexTensor>) -> Vec<FlexTensor>) -> Vec<AnyTensor> {
        self.run_within(Workspace::default(), kernel)
    }

    /// As [`run`](Self::run), for a kernel with a workspace.
    pub(crate) fn run_within(
        self,
        workspace: Workspace,
        kernel: impl FnOnce(Vec<FlexTensor>) -> Vec<FlexTensor>,
    ) -> Vec<AnyTensor> {
        match self.contiguous_inputs(workspace) {
            Ok(inputs) => kernel(inputs).into_iter().map(Flex::tensor).collect(),
            Err(recorded) => recorded,
        }
    }

    /// As [`run`](Self::run), for an operation with one output.
    pub(crate) fn run_one<const D: usize>(
        self,
        kernel: impl FnOnce(Vec<FlexTensor>) -> FlexTensor,
    ) -> Tensor<D> {
        let output = self.run(|inputs| vec![kernel(inputs)]).pop();
        // A kernel returns one tensor for each declared output.
        output.and_then(AnyTensor::float).expect("the operation has one output of this rank")
    }

    /// The inputs for the kernel, or the outputs of the recorded operation. It is apart from the kernel, so that it is
    /// compiled once.
    fn contiguous_inputs(self, workspace: Workspace) -> Result<Vec<FlexTensor>, Vec<AnyTensor>> {
        if self.inputs.iter().all(|input| primitive_on::<CaptureBackend>(input).is_some()) {
            return Err(self.record(workspace));
        }
        // Consuming the inputs leaves the kernel the only reference to tensors that nothing else uses.
        let contiguous = self.inputs.into_iter().map(|input| {
            // A policy asks for our own kernels on the CPU alone.
            let input = primitive_on::<Flex>(&input).expect("our own kernels run on the CPU");
            input.to_contiguous()
        });
        Ok(contiguous.collect())
    }

    /// Records the operation. Its scalars are the number of outputs in place and the workspace: the planner reads them.
    fn record(self, workspace: Workspace) -> Vec<AnyTensor> {
        let inputs: Vec<_> = self.inputs.iter().filter_map(primitive_on::<CaptureBackend>).collect();
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
