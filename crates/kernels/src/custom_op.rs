use burn::tensor::Tensor;
use burn_backend::{DType, Shape};
use burn_capture::CaptureBackend;
use burn_flex::{Flex, FlexTensor};
use burn_ir::{CustomOpIr, OperationIr, ScalarIr, TensorId, TensorIr};
use burn_router::{RouterClient, RouterTensor};

use crate::{
    any_tensor::{AnyTensor, ranked},
    backends::{Plain, primitive_on},
    timing,
};

/// Memory that a kernel allocates beside its outputs while it runs, in elements of 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// Elements that all threads share.
    pub(crate) shared: usize,
    /// Elements of each thread that has a task.
    pub(crate) of_each: usize,
    /// The most tasks, whatever the number of threads.
    pub(crate) tasks: usize,
    /// Time steps that the kernel computes of a sequence. It needs no memory for them; plans of its time read the number.
    pub(crate) steps: usize,
}

/// Splits a workspace into parts.
pub(crate) fn split<const N: usize>(mut workspace: &mut [f32], sizes: [usize; N]) -> [&mut [f32]; N] {
    sizes.map(|size| {
        let (part, rest) = std::mem::take(&mut workspace).split_at_mut(size);
        workspace = rest;
        part
    })
}

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
    /// Panics if the inputs are on a GPU ([`on_gpu`](crate::gpu::on_gpu) runs those), or if the operation has not `N` outputs.
    pub(crate) fn run<const N: usize>(
        self,
        kernel: impl FnOnce(Vec<FlexTensor>) -> Vec<FlexTensor>,
    ) -> [AnyTensor; N] {
        self.run_within(Workspace::default(), kernel)
    }

    /// As [`run`](Self::run), for a kernel with a workspace.
    pub(crate) fn run_within<const N: usize>(
        self,
        workspace: Workspace,
        kernel: impl FnOnce(Vec<FlexTensor>) -> Vec<FlexTensor>,
    ) -> [AnyTensor; N] {
        // A kernel returns one tensor for each declared output.
        self.run_all(workspace, kernel).try_into().expect("the operation has the outputs that it declares")
    }

    /// As [`run_within`](Self::run_within), for any number of outputs.
    pub(crate) fn run_all(
        self,
        workspace: Workspace,
        kernel: impl FnOnce(Vec<FlexTensor>) -> Vec<FlexTensor>,
    ) -> Vec<AnyTensor> {
        let described = timing::described(|| self.described(workspace));
        match self.contiguous_inputs(workspace) {
            Ok(inputs) => {
                let outputs = timing::kernel(described, || kernel(inputs));
                outputs.into_iter().map(Flex::tensor).collect()
            }
            Err(recorded) => recorded,
        }
    }

    /// As [`run`](Self::run), for an operation with one output.
    pub(crate) fn run_one<const D: usize>(
        self,
        kernel: impl FnOnce(Vec<FlexTensor>) -> FlexTensor,
    ) -> Tensor<D> {
        let [output] = self.run(|inputs| vec![kernel(inputs)]);
        ranked(output)
    }

    /// Runs an operation whose one output has the shape of the input `first` and the format `dtype`. If `first` has that
    /// format too, the output overwrites it. The kernel reads the inputs `rest`.
    pub(crate) fn change<const D: usize>(
        name: &'static str,
        first: Tensor<D>,
        rest: impl IntoIterator<Item = AnyTensor>,
        dtype: DType,
        kernel: impl FnOnce(FlexTensor, &[FlexTensor]) -> FlexTensor,
    ) -> Tensor<D> {
        Self::changing(name, first, rest, dtype).run_one(|mut inputs| {
            let rest = inputs.split_off(1);
            // The first input is the only one left.
            kernel(inputs.swap_remove(0), &rest)
        })
    }

    /// The operation of [`change`](Self::change).
    pub(crate) fn changing<const D: usize>(
        name: &'static str,
        first: Tensor<D>,
        rest: impl IntoIterator<Item = AnyTensor>,
        dtype: DType,
    ) -> Self {
        let outputs = vec![(first.dims().to_vec(), dtype)];
        let in_place = usize::from(first.dtype() == dtype);
        let inputs = std::iter::once(first.into()).chain(rest).collect();
        Self { name, inputs, outputs, in_place }
    }

    /// The inputs for the kernel, or the outputs of the recorded operation. It is apart from the kernel, so that it is
    /// compiled once.
    fn contiguous_inputs(self, workspace: Workspace) -> Result<Vec<FlexTensor>, Vec<AnyTensor>> {
        if self.is_recorded() {
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

    /// Whether the inputs are on a capture device.
    pub(crate) fn is_recorded(&self) -> bool {
        self.inputs.iter().all(AnyTensor::is_recorded)
    }

    /// Records the operation with its workspace on the CPU.
    fn record(self, workspace: Workspace) -> Vec<AnyTensor> {
        self.record_with(&numbers_of(workspace))
    }

    /// The operation as it would be recorded, but for the identities of its tensors.
    fn described(&self, workspace: Workspace) -> OperationIr {
        let tensor = |shape: Vec<usize>, dtype| TensorIr::uninit(TensorId::new(0), Shape::from(shape), dtype);
        let inputs: Vec<_> = self.inputs.iter().map(|input| tensor(input.dims(), input.dtype())).collect();
        let outputs: Vec<_> =
            self.outputs.iter().map(|(shape, dtype)| tensor(shape.clone(), *dtype)).collect();
        let scalars = scalars(self.in_place, &numbers_of(workspace));
        OperationIr::Custom(CustomOpIr::with_scalars(self.name, &inputs, &outputs, scalars))
    }

    /// Records the operation with the buffers of its GPU kernel, in elements of 32 bits.
    pub(crate) fn record_with_buffers(self, buffers: &[usize]) -> Vec<AnyTensor> {
        self.record_with(&buffers.iter().copied().map(bytes).collect::<Vec<_>>())
    }

    /// Records the operation. Its scalars are the number of outputs in place and `numbers`: the planner reads them.
    fn record_with(self, numbers: &[usize]) -> Vec<AnyTensor> {
        let inputs: Vec<_> = self.inputs.iter().filter_map(primitive_on::<CaptureBackend>).collect();
        drop(self.inputs);
        let Some(client) = inputs.first().map(|input| input.client.clone()) else { return Vec::new() };
        let inputs: Vec<TensorIr> = inputs.into_iter().map(RouterTensor::into_ir).collect();
        let outputs = self
            .outputs
            .into_iter()
            .map(|(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), Shape::from(shape), dtype));
        let outputs: Vec<TensorIr> = outputs.collect();
        let scalars = scalars(self.in_place, numbers);
        let operation = CustomOpIr::with_scalars(self.name, &inputs, &outputs, scalars);
        client.register(OperationIr::Custom(operation)).into_iter().map(CaptureBackend::tensor).collect()
    }
}

/// What a recorded operation says of its workspace.
fn numbers_of(Workspace { shared, of_each, tasks, steps }: Workspace) -> [usize; 4] {
    [bytes(shared), bytes(of_each), tasks, steps]
}

/// The scalars of a recorded operation: its outputs in place, and `numbers`.
fn scalars(in_place: usize, numbers: &[usize]) -> Vec<ScalarIr> {
    let scalars = std::iter::once(in_place).chain(numbers.iter().copied());
    scalars.map(|number| ScalarIr::UInt(number as u64)).collect()
}

/// The bytes of elements of 32 bits.
fn bytes(elements: usize) -> usize {
    elements * size_of::<f32>()
}
