//! The custom operations around a GPU's LSTM: all steps of a run in one launch.

use burn::tensor::Tensor;
use burn_backend::DType;

use crate::{
    any_tensor::{AnyTensor, ranked},
    custom_op::CustomOp,
    gpu::{self, on_gpu},
    recurrent::{RecurrentMatrix, RunEnd, RunGradients, RunOutputs, RunStart, RunSteps, words},
};

/// Runs the steps over `input`, the whole sequence, with the weights of the input. Outputs are written into the tensor of the sequence, if there is one; gates and
/// state are new.
pub(super) fn forward(
    input: Tensor<3>,
    of_input: &RecurrentMatrix,
    start: RunStart<2>,
    recurrent: &RecurrentMatrix,
) -> RunSteps<2> {
    let RunStart { steps, bias, state: [hidden, cell], outputs, keeps_gates, .. } = start;
    let [batch, all_steps, features] = input.dims();
    let (units, count, dtype) = (recurrent.sizes.inner, steps.len(), recurrent.dtype);
    let state = (vec![batch, units], DType::F32);
    let writes = !matches!(outputs, RunOutputs::Known);
    let of_outputs = writes.then(|| (vec![batch, all_steps, units], dtype));
    let of_gates = keeps_gates.then(|| (vec![batch, count, 4 * units], dtype));
    // Gates in 32 bits overwrite the product of inputs and weights.
    let is_product_kept = keeps_gates && dtype == DType::F32;
    let product = if is_product_kept { 0 } else { batch * count * 4 * units };
    let is_copied = count < all_steps || input.dtype() != dtype;
    let copy = if is_copied { words(batch * count * features, dtype) } else { 0 };
    let there = outputs.there().map(AnyTensor::from);
    let in_place = usize::from(there.is_some());
    let inputs = [input.into(), bias.into(), hidden.into(), cell.into()].into_iter();
    let matrices = [of_input, recurrent].map(|matrix| matrix.tensor().into());
    let operation = CustomOp {
        name: "lstm_forward",
        inputs: there.into_iter().chain(inputs).chain(matrices).collect(),
        outputs: of_outputs.into_iter().chain(of_gates).chain([state.clone(), state]).collect(),
        in_place,
    };
    let made = on_gpu!(operation, [product, copy], |inputs| {
        let mut inputs = inputs;
        let read = gpu::listed(inputs.split_off(in_place));
        let outputs = match inputs.pop() {
            Some(there) => oomph_gpu_kernels::lstm::LstmOutputs::There(there),
            None if writes => oomph_gpu_kernels::lstm::LstmOutputs::New,
            None => oomph_gpu_kernels::lstm::LstmOutputs::Known,
        };
        let [input, bias, hidden, cell, of_input, recurrent] = read;
        let state = [hidden, cell];
        let start = oomph_gpu_kernels::lstm::LstmStart { input, steps, bias, state, outputs, keeps_gates };
        let made = oomph_gpu_kernels::lstm::lstm_forward(start, of_input, recurrent);
        made.output.into_iter().chain(made.gates).chain(made.state).collect()
    });
    let mut made = made.into_iter();
    // The outputs are declared above, with these ranks.
    let mut next = || made.next().expect("the operation has the outputs that it declares");
    let output = writes.then(|| ranked(next()));
    let gates = keeps_gates.then(|| ranked(next())).into_iter().collect();
    RunSteps { output, gates, between: Vec::new(), state: [ranked(next()), ranked(next())] }
}

/// Goes back through the steps. The gradients of gates of 32 bits overwrite the gates.
#[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only the GPU's kernel reads it"))]
pub(super) fn backward(end: RunEnd<2>, recurrent: &RecurrentMatrix) -> RunGradients<2> {
    let RunEnd { gates, before: [hidden, cell], steps, outputs, after } = end;
    let [hidden_gradient, cell_gradient] = after;
    let dims @ [batch, count, _] = gates.dims();
    let units = recurrent.sizes.columns;
    let state = (vec![batch, units], DType::F32);
    let of_steps = (vec![batch, count, units], DType::F32);
    let operation = CustomOp {
        name: "lstm_backward",
        in_place: usize::from(gates.dtype() == DType::F32),
        inputs: vec![
            gates.into(),
            hidden.into(),
            cell.into(),
            outputs.into(),
            hidden_gradient.into(),
            cell_gradient.into(),
            recurrent.tensor().into(),
        ],
        outputs: vec![(dims.to_vec(), DType::F32), of_steps, state.clone(), state],
    };
    let cells = batch * count * units;
    let [gates, previous, hidden, cell] = gpu::outputs(on_gpu!(operation, [cells], |inputs| {
        let [gates, hidden, cell, outputs, hidden_gradient, cell_gradient, recurrent] = gpu::listed(inputs);
        let (before, after) = ([hidden, cell], [hidden_gradient, cell_gradient]);
        let end = oomph_gpu_kernels::lstm::LstmEnd { gates, before, steps, outputs, after };
        let made = oomph_gpu_kernels::lstm::lstm_backward(end, recurrent);
        let [hidden, cell] = made.state;
        vec![made.gates, made.previous, hidden, cell]
    }));
    RunGradients {
        gates: ranked(gates),
        of_hidden: None,
        previous: ranked(previous),
        state: [hidden, cell].map(ranked),
    }
}
