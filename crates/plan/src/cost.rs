//! The duration of recorded operations, by a roofline (Williams et al. 2009,
//! <https://doi.org/10.1145/1498765.1498785>): the time of the arithmetic or of the memory traffic, whichever is longer,
//! plus a fixed overhead per operation.
//!
//! The figures are those of one machine per backend. So only ratios of two costs on one backend are meaningful, such as
//! the cost of a smaller micro-batch or of a recomputed stage. `tools/lever_cost` compares such ratios with the clock.

use std::collections::HashMap;

use burn_ir::{CustomOpIr, FloatOperationIr, ModuleOperationIr as Module, OperationIr, TensorIr};

use oomph_core::{Phase, is_within};

use crate::{
    Backend, Noted, Recording, allocator_sim::element_bytes, layout::is_view, recording::first_output,
};

/// The throughput of a backend per second, and its overhead per operation.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// Multiplications and additions of matrix products.
    product: f64,
    /// Multiplications and additions of forward convolutions.
    convolution: f64,
    /// Multiplications and additions of backward convolutions.
    convolution_backward: f64,
    /// Multiplications and additions of oomph's own convolutions, forward and backward.
    own_convolution: f64,
    /// Bytes read and written.
    bytes: f64,
    /// Seconds per operation.
    overhead: f64,
}

impl Speed {
    /// The CPU's figures were measured on 2 cores of an AMD EPYC (AVX-512): 190 GFLOP/s for matrix products, 63 for
    /// forward and 38 for backward convolutions. CUDA's are from the data sheet of an H100, not measured.
    fn of(backend: Backend) -> Self {
        match backend {
            Backend::Cpu { threads } => {
                let threads = threads.max(1) as f64;
                Self {
                    product: 95e9 * threads,
                    convolution: 31e9 * threads,
                    convolution_backward: 19e9 * threads,
                    own_convolution: 100e9 * threads,
                    bytes: 6e9,
                    overhead: 2e-6,
                }
            }
            Backend::Cuda | Backend::Vulkan => Self {
                product: 60e12,
                convolution: 40e12,
                convolution_backward: 30e12,
                // They exist on the CPU only.
                own_convolution: 40e12,
                bytes: 2.5e12,
                overhead: 6e-6,
            },
        }
    }
}

/// The estimated seconds of the recorded operations, up to [`Noted::End`].
pub fn cost(recording: &Recording, backend: Backend) -> f64 {
    let speed = Speed::of(backend);
    let end = recording.notes.iter().find(|note| note.what == Noted::End).map_or(u64::MAX, |note| note.at);
    let is_before = |operation: &&OperationIr| first_output(operation).is_none_or(|first| first < end);
    recording.operations.iter().take_while(is_before).map(|operation| seconds(operation, speed)).sum()
}

/// The estimated seconds of each stage's recorded forward operations, by stage name.
pub fn forward_costs(recording: &Recording, backend: Backend) -> HashMap<String, f64> {
    let speed = Speed::of(backend);
    let mut costs: HashMap<String, f64> = HashMap::new();
    let mut notes = recording.notes.iter().peekable();
    let mut stage: Option<&String> = None;
    for operation in &recording.operations {
        let first = first_output(operation);
        while let Some(note) = notes.next_if(|note| first.is_some_and(|first| note.at < first)) {
            if let Noted::Point(point) = &note.what {
                let scope = point.scope();
                let is_of = |stage: &&String| is_within(&scope, stage);
                stage = recording.stages.iter().find(is_of).filter(|_| point.phase() == Phase::Forward);
            }
        }
        if let Some(stage) = stage {
            *costs.entry(stage.clone()).or_default() += seconds(operation, speed);
        }
    }
    costs
}

fn seconds(operation: &OperationIr, speed: Speed) -> f64 {
    let Some(arithmetic) = arithmetic(operation, speed) else { return speed.overhead };
    arithmetic.max(traffic(operation) / speed.bytes) + speed.overhead
}

/// Bytes read and written.
fn traffic(operation: &OperationIr) -> f64 {
    match operation {
        // It writes a part of its first operand and leaves the rest.
        OperationIr::Custom(op) if op.id == "place_steps" => {
            op.inputs.iter().skip(1).map(bytes).sum::<f64>() * 2.0
        }
        OperationIr::Custom(op) if op.id.starts_with("lstm") || op.id == "add_products" => {
            let all = || op.inputs.iter().chain(&op.outputs).filter(|tensor| tensor.shape.rank() == 3);
            let steps = |tensor: &TensorIr| tensor.shape[1];
            // Only some time steps of a sequence are read or written.
            let of_run = all().map(steps).min().unwrap_or(1);
            let share = |tensor: &TensorIr| match tensor.shape.rank() {
                3 => of_run.min(steps(tensor)) as f64 / steps(tensor).max(1) as f64,
                _ => 1.0,
            };
            op.inputs.iter().chain(&op.outputs).map(|tensor| bytes(tensor) * share(tensor)).sum()
        }
        _ => operation.inputs().chain(operation.outputs()).map(bytes).sum(),
    }
}

fn bytes(tensor: &TensorIr) -> f64 {
    tensor.shape.num_elements() as f64 * element_bytes(tensor.dtype) as f64
}

/// Seconds of arithmetic; `None` for a view of the same storage.
fn arithmetic(operation: &OperationIr, speed: Speed) -> Option<f64> {
    let elements = |tensor: &TensorIr| tensor.shape.num_elements() as f64;
    let product = |output: &TensorIr, inner: usize| 2.0 * elements(output) * inner as f64 / speed.product;
    let last = |tensor: &TensorIr| tensor.shape.as_slice().last().copied().unwrap_or(1);
    Some(match operation {
        OperationIr::BaseFloat(base) | OperationIr::BaseInt(base) | OperationIr::BaseBool(base)
            if is_view(base) =>
        {
            return None;
        }
        OperationIr::Float(_, FloatOperationIr::Matmul(op)) => product(&op.out, last(&op.lhs)),
        OperationIr::Module(Module::Linear(op)) => product(&op.out, last(&op.x)),
        OperationIr::Module(Module::LinearXBackward(op)) => product(&op.out, last(&op.output_grad)),
        OperationIr::Module(Module::LinearWeightBackward(op)) => {
            let inner = elements(&op.output_grad) / last(&op.output_grad).max(1) as f64;
            product(&op.out, inner as usize)
        }
        OperationIr::Module(Module::Conv2d(op)) => convolution(&op.out, &op.weight, speed.convolution),
        OperationIr::Module(Module::Conv2dXBackward(op)) => {
            convolution(&op.output_grad, &op.weight, speed.convolution_backward)
        }
        OperationIr::Module(Module::Conv2dWeightBackward(op)) => {
            convolution(&op.output_grad, &op.weight, speed.convolution_backward)
        }
        OperationIr::Custom(op) if op.id.starts_with("conv2d") => own_convolution(op, speed),
        OperationIr::Custom(op) => match (op.id.as_str(), &op.inputs[..], &op.outputs[..]) {
            // Gates of a run, [B, k, 4U], of inputs and of hidden units.
            ("lstm_forward", inputs, [.., gates, hidden, _]) => {
                let input = inputs.get(op.outputs.len() - 3).map_or(0, last);
                product(gates, input + last(hidden))
            }
            ("lstm_backward", _, [gates, hidden, ..]) => product(gates, last(hidden)),
            ("lstm_input_backward", [whole, gates, ..], _) => product(gates, last(whole)),
            // The gates of a run, [B, k, 4U].
            ("add_products", inputs, sums) => {
                let rows = inputs.get(sums.len()).map_or(0, |rows| rows.shape[0] * rows.shape[1]);
                sums.iter().filter(|sum| sum.shape.rank() == 2).map(|sum| product(sum, rows)).sum()
            }
            _ => 0.0,
        },
        _ => 0.0,
    })
}

/// The arithmetic of oomph's own convolutions: forward, the gradient of the input, and the gradient of the weight.
fn own_convolution(op: &CustomOpIr, speed: Speed) -> f64 {
    let ([first, second], [output]) = (&op.inputs[..], &op.outputs[..]) else { return 0.0 };
    let (images, weight) = match op.id.as_str() {
        "conv2d" => (output, second),
        "conv2d_input_backward" => (first, second),
        _ => (second, output),
    };
    convolution(images, weight, speed.own_convolution)
}

fn convolution(output: &TensorIr, weight: &TensorIr, speed: f64) -> f64 {
    let taps = weight.shape.as_slice().iter().skip(1).product::<usize>();
    2.0 * output.shape.num_elements() as f64 * taps as f64 / speed
}

#[cfg(test)]
mod tests {
    use burn_backend::{DType, Shape};
    use burn_ir::{BaseOperationIr as Base, BinaryOpIr, MatmulOpIr, NumericOperationIr, ShapeOpIr, TensorId};

    use super::*;
    use crate::Note;

    fn tensor(id: u64, shape: &[usize]) -> TensorIr {
        TensorIr::uninit(TensorId::new(id), Shape::from(shape.to_vec()), DType::F32)
    }

    const CPU: Backend = Backend::Cpu { threads: 2 };

    fn of(operations: Vec<OperationIr>) -> f64 {
        cost(&Recording { operations, ..Recording::default() }, CPU)
    }

    fn matmul(rows: usize, inner: usize, columns: usize) -> OperationIr {
        let (lhs, rhs, out) =
            (tensor(1, &[rows, inner]), tensor(2, &[inner, columns]), tensor(3, &[rows, columns]));
        OperationIr::Float(DType::F32, FloatOperationIr::Matmul(MatmulOpIr { lhs, rhs, out }))
    }

    #[test]
    fn a_large_product_is_arithmetic_and_a_flat_one_traffic() {
        // 2 · 1024³ at 190 GFLOP/s.
        let large = of(vec![matmul(1024, 1024, 1024)]);
        assert!((large - 2.0 * 1024f64.powi(3) / 190e9).abs() < 1e-5, "{large}");
        let flat = of(vec![matmul(1, 4096, 4096)]);
        assert!((flat - 4096.0 * 4098.0 * 4.0 / 6e9).abs() < 1e-4, "{flat}");
    }

    #[test]
    fn own_convolutions_cost_their_products_forward_and_backward() {
        let [images, gradient, weight] =
            [tensor(1, &[32, 64, 32, 32]), tensor(2, &[32, 128, 16, 16]), tensor(3, &[128, 64, 3, 3])];
        let of = |name, inputs: [&TensorIr; 2], output: &TensorIr| {
            let inputs = inputs.map(Clone::clone);
            of(vec![OperationIr::Custom(CustomOpIr::new(name, &inputs, std::slice::from_ref(output)))])
        };
        let forward = of("conv2d", [&images, &weight], &gradient);
        let operations = 2.0 * (32 * 128 * 16 * 16) as f64 * (64 * 9) as f64;
        assert!((forward - operations / 200e9).abs() < 1e-5, "{forward}");
        assert_eq!(of("conv2d_input_backward", [&gradient, &weight], &images), forward);
        assert_eq!(of("conv2d_weight_backward", [&images, &gradient], &weight), forward);
    }

    #[test]
    fn some_steps_of_a_sequence_cost_their_products_and_traffic() {
        let own = |name, inputs: &[TensorIr], outputs: &[TensorIr]| {
            of(vec![OperationIr::Custom(CustomOpIr::new(name, inputs, outputs))])
        };
        // Batch 32, 8 of 64 steps, 128 features, 256 units.
        let (input, output) = (tensor(1, &[32, 64, 128]), tensor(2, &[32, 64, 256]));
        let (gates, state) = (tensor(3, &[32, 8, 1024]), tensor(4, &[32, 256]));
        let products = 2.0 * (32 * 8 * 1024) as f64 * (128 + 256) as f64 / 190e9;
        let written = [output.clone(), gates.clone(), state.clone(), state.clone()];
        let made = own("lstm_forward", &[output, input.clone()], &written);
        assert!((made - products).abs() < 1e-5, "{made}");
        let again = own("lstm_forward", std::slice::from_ref(&input), &[gates, state.clone(), state]);
        assert!((again - products).abs() < 1e-5, "{again}");
        // 1 of 64 steps of a product with little to multiply: the gates and a step of the sequence.
        let back = own(
            "lstm_input_backward",
            &[input.clone(), tensor(5, &[32, 1, 4])],
            std::slice::from_ref(&input),
        );
        let bytes = (2 * 32 * 128 + 32 * 4) as f64 * 4.0;
        assert!((back - (bytes / 6e9 + 2e-6)).abs() < 1e-7, "{back}");
        let sums = [tensor(6, &[1024, 128]), tensor(7, &[1024, 256]), tensor(8, &[1024])];
        let read = [tensor(9, &[32, 8, 1024]), input, tensor(10, &[32, 8, 256])];
        let added = own("add_products", &[&sums[..], &read].concat(), &sums);
        assert!((added - 2.0 * 256f64 * (1024 * 384) as f64 / 190e9).abs() < 1e-5, "{added}");
    }

    #[test]
    fn a_view_costs_the_overhead_and_operations_after_the_end_cost_nothing() {
        let view = OperationIr::BaseFloat(Base::Reshape(ShapeOpIr {
            input: tensor(1, &[1 << 20]),
            out: tensor(2, &[1024, 1024]),
        }));
        assert_eq!(of(vec![view]), 2e-6);
        let add = |id| {
            let operands = (tensor(1, &[10]), tensor(2, &[10]), tensor(id, &[10]));
            OperationIr::NumericFloat(
                DType::F32,
                NumericOperationIr::Add(BinaryOpIr { lhs: operands.0, rhs: operands.1, out: operands.2 }),
            )
        };
        let recording = |end| Recording {
            operations: vec![add(3), add(5)],
            notes: vec![Note { at: end, what: Noted::End }],
            ..Recording::default()
        };
        assert!(cost(&recording(4), CPU) < cost(&recording(9), CPU));
    }
}
