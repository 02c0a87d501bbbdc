use burn_backend::DType;
use burn_ir::{
    BaseOperationIr as Base, CustomOpIr, FloatOperationIr, ModuleOperationIr as Module, NumericOperationIr,
    OperationIr, ScalarIr, TensorIr, TensorStatus,
};

use crate::{allocator_sim::element_bytes, layout::is_view, operation::operation_name};

/// What the duration of a recorded operation depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The kind of kernel, from the general to the special: `conv2d 3x3`, `adam`, `product`.
    pub kind: String,
    /// The sizes that decide how well the kernel uses the machine: those of a product or a convolution, else its bytes.
    pub sizes: Vec<f64>,
    /// Multiplications and additions.
    pub arithmetic: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// Bytes of new tensors that are so large that the system maps their memory anew, page by page.
    pub mapped: f64,
}

/// From this size on the allocator gets memory from the system for each tensor, and gives it back
/// (`keep_freed_memory` of `oomph-memory`).
const MAPPED_FROM: f64 = (32 << 20) as f64;

/// What an activation's number costs, in additions and multiplications of a product.
const OF_ACTIVATION: f64 = 96.0;

/// The kind of a copy to host memory and back.
pub(super) const FROM_HOST: &str = "from host";

impl Work {
    /// The work of an operation. `None` for a view of the same storage, which only costs what every operation costs.
    pub fn of(operation: &OperationIr) -> Option<Self> {
        match operation {
            OperationIr::BaseFloat(base) | OperationIr::BaseInt(base) | OperationIr::BaseBool(base)
                if is_view(base) =>
            {
                None
            }
            OperationIr::Drop(_) => None,
            // A tensor from host memory, or from another device. Its memory left a device before.
            OperationIr::BaseFloat(Base::Ones(_)) | OperationIr::BaseInt(Base::Ones(_)) => {
                Some(Self { kind: FROM_HOST.to_owned(), ..by_bytes(operation, 2.0 * bytes_of(operation)) })
            }
            // With it oomph records a copy that is made of parts of larger storage alone.
            OperationIr::NumericFloat(_, NumericOperationIr::MulScalar(op))
                if op.rhs.elem::<f64>() == 1.0 =>
            {
                None
            }
            OperationIr::BaseFloat(Base::SliceAssign(op)) => {
                let is_alone = op.tensor.status == TensorStatus::ReadWrite;
                let whole = if is_alone { 0.0 } else { bytes(&op.tensor) };
                Some(by_bytes(operation, 2.0 * (bytes(&op.value) + whole)))
            }
            OperationIr::Float(_, FloatOperationIr::Matmul(op)) => {
                Some(product(operation, &op.out, last(&op.lhs)))
            }
            OperationIr::Module(module) => Some(of_module(operation, module)),
            OperationIr::Custom(op) => Some(of_own_kernel(operation, op)),
            _ => Some(by_bytes(operation, bytes_of(operation))),
        }
    }
}

fn of_module(operation: &OperationIr, module: &Module) -> Work {
    match module {
        Module::Linear(op) => product(operation, &op.out, last(&op.x)),
        Module::LinearXBackward(op) => product(operation, &op.out, last(&op.output_grad)),
        Module::LinearWeightBackward(op) => {
            product(operation, &op.out, elements(&op.output_grad) / last(&op.output_grad).max(1))
        }
        Module::Conv2d(op) => convolution("burn conv2d", operation, [&op.x, &op.weight, &op.out]),
        Module::Conv2dXBackward(op) => {
            convolution("burn conv2d_x_backward", operation, [&op.x, &op.weight, &op.output_grad])
        }
        Module::Conv2dWeightBackward(op) => {
            convolution("burn conv2d_weight_backward", operation, [&op.x, &op.weight, &op.output_grad])
        }
        _ => by_bytes(operation, bytes_of(operation)),
    }
}

/// The work of an operation with a kernel of `oomph-kernels`.
fn of_own_kernel(operation: &OperationIr, op: &CustomOpIr) -> Work {
    match (op.id.as_str(), &op.inputs[..], &op.outputs[..]) {
        ("conv2d", [input, weight, ..], [output, ..]) => {
            convolution(&op.id, operation, [input, weight, output])
        }
        ("conv2d_input_backward", [gradient, weight, ..], [input, ..]) => {
            convolution(&op.id, operation, [input, weight, gradient])
        }
        ("conv2d_weight_backward", [input, gradient, ..], [weight, ..]) => {
            convolution(&op.id, operation, [input, weight, gradient])
        }
        // Gates of a run, [B, k, 4U], of inputs and of hidden units.
        ("lstm_forward", _, [.., hidden, _]) => run_forward(operation, op, hidden, LSTM),
        ("gru_forward", _, [.., hidden]) => run_forward(operation, op, hidden, GRU),
        ("lstm_backward", _, [gates, hidden, ..]) => {
            let sizes = [dim(gates, 0), dim(gates, 1), last(hidden)];
            recurrent(operation, op, sizes, 0, LSTM.kinds[1], LSTM.products)
        }
        // Three gates, and the product of the candidate again.
        ("gru_backward", _, [gates, hidden, ..]) => {
            let sizes = [dim(gates, 0), dim(gates, 1), last(hidden)];
            recurrent(operation, op, sizes, 0, GRU.kinds[1], 4)
        }
        ("lstm_input_backward", [whole, gates, ..], _) => {
            let sizes = [dim(gates, 0) * dim(gates, 1), last(whole), last(gates)];
            products(operation, sizes, traffic_of_run(op))
        }
        (name, [_, weight, ..], [output]) if name.starts_with("linear_behind_") => {
            let [rows, inner] = [dim(output, 0), last(weight)];
            behind_activation(operation, "linear", [rows, last(output), inner], rows * inner)
        }
        ("linear" | "linear_input_backward", [left, ..], [output]) => {
            let sizes = [dim(output, 0), last(output), last(left)];
            products(operation, sizes, bytes_of(operation))
        }
        ("linear_weight_backward", [gradient, ..], [weight, ..]) => {
            let sizes = [dim(weight, 0), last(weight), dim(gradient, 0)];
            products(operation, sizes, bytes_of(operation))
        }
        (name, [gradient, ..], [weight, ..]) if name.starts_with("linear_weight_backward_behind_") => {
            let sizes = [dim(weight, 0), last(weight), dim(gradient, 0)];
            behind_activation(operation, "linear_weight_backward", sizes, dim(gradient, 0) * last(weight))
        }
        ("attention" | "attention_causal", _, [output, log_sums]) => {
            attention(operation, [output, log_sums], 4)
        }
        ("attention_backward" | "attention_causal_backward", [_, output, _, log_sums], _) => {
            attention(operation, [output, log_sums], 10)
        }
        // The gates of a run, [B, k, 4U].
        ("add_products", inputs, sums) => {
            let rows = inputs.get(sums.len()).map_or(0, |rows| dim(rows, 0) * dim(rows, 1));
            let matrices = || sums.iter().filter(|sum| sum.shape.rank() == 2);
            let columns = matrices().map(last).sum();
            products(
                operation,
                [matrices().map(|sum| dim(sum, 0)).max().unwrap_or(0), columns, rows],
                traffic_of_run(op),
            )
        }
        ("channel_moments" | "normalise" | "normalise_backward" | "rectify_backward", [images, ..], _) => {
            over_channels(operation, images)
        }
        // It writes a part of its first operand and leaves the rest.
        ("place_steps", inputs, _) => {
            by_bytes(operation, inputs.iter().skip(1).map(bytes).sum::<f64>() * 2.0)
        }
        _ => by_bytes(operation, bytes_of(operation)),
    }
}

/// A product of a linear layer, of so many numbers that an activation makes.
fn behind_activation(operation: &OperationIr, name: &str, sizes: [usize; 3], activated: usize) -> Work {
    let product = products(operation, sizes, bytes_of(operation));
    let arithmetic = product.arithmetic + OF_ACTIVATION * activated as f64;
    Work { kind: kind(name, operation), arithmetic, ..product }
}

/// A matrix product whose result is `output`.
fn product(operation: &OperationIr, output: &TensorIr, inner: usize) -> Work {
    let columns = last(output);
    let sizes = [elements(output) / columns.max(1), columns, inner];
    Work { kind: kind("product", operation), ..products(operation, sizes, bytes_of(operation)) }
}

fn products(operation: &OperationIr, sizes: [usize; 3], bytes: f64) -> Work {
    let arithmetic = 2.0 * sizes.iter().map(|size| *size as f64).product::<f64>();
    let kind = kind(&operation_name(operation), operation);
    Work { kind, sizes: numbers(sizes), arithmetic, bytes, mapped: mapped(operation) }
}

/// A convolution between `input` and `output`, in either direction.
fn convolution(name: &str, operation: &OperationIr, [input, weight, output]: [&TensorIr; 3]) -> Work {
    let window = match &weight.shape[2..] {
        [1, 1] => "1x1",
        [3, 3] => "3x3",
        _ => "wide",
    };
    let is_strided = dim(input, 2) > dim(output, 2) + dim(weight, 2);
    let name = format!("{name} {window}{}", if is_strided { " strided" } else { "" });
    let taps = weight.shape.as_slice().iter().skip(1).product::<usize>();
    Work {
        kind: kind(&name, operation),
        sizes: numbers([dim(input, 1), dim(weight, 0), dim(output, 2) * dim(output, 3), dim(input, 0)]),
        arithmetic: 2.0 * elements(output) as f64 * taps as f64,
        bytes: bytes_of(operation),
        mapped: mapped(operation),
    }
}

/// What the time of a recurrent layer's steps depends on, beside its sizes.
#[derive(Clone, Copy)]
struct RecurrentCell {
    /// The kinds of its operations, forward and backward. Those of a GRU are special ones of an LSTM, which has the same
    /// loops: a calibration without them has the speeds of the LSTM's.
    kinds: [&'static str; 2],
    /// Products for each hidden unit and input.
    products: usize,
}

const LSTM: RecurrentCell = RecurrentCell { kinds: ["lstm_forward", "lstm_backward"], products: 4 };
const GRU: RecurrentCell = RecurrentCell { kinds: ["lstm_forward gru", "lstm_backward gru"], products: 3 };

/// A run forward, whose last hidden units are `hidden`.
fn run_forward(operation: &OperationIr, op: &CustomOpIr, hidden: &TensorIr, cell: RecurrentCell) -> Work {
    // The outputs of other runs come before the sequence that is read.
    let first = usize::from(matches!(op.scalars[..], [ScalarIr::UInt(1..), ..]));
    // Tokens, [B, T], have their products already.
    let input = op.inputs.get(first).filter(|input| input.shape.rank() == 3);
    let sizes = [dim(hidden, 0), steps_of_run(op), last(hidden)];
    recurrent(operation, op, sizes, input.map_or(0, last), cell.kinds[0], cell.products)
}

/// Steps of a recurrent layer: rows of the batch, steps and units, and features of an input that is multiplied too, 0 if there is
/// none. Only forward multiplies one. Then the kind, and the products for each hidden unit and input.
fn recurrent(
    operation: &OperationIr,
    op: &CustomOpIr,
    [rows, steps, units]: [usize; 3],
    features: usize,
    name: &str,
    products: usize,
) -> Work {
    let width = products * units;
    let arithmetic = 2.0 * (rows * steps) as f64 * width as f64 * (features + units) as f64;
    let sizes = numbers([rows, steps, units, features.max(1)]);
    let kind = kind(name, operation);
    Work { kind, sizes, arithmetic, bytes: traffic_of_run(op), mapped: mapped(operation) }
}

/// An attention with an output of [B, T, H·D] and sums of [B, T, H], of so many multiplications and additions for each score and feature.
/// Causal attention computes half of the scores.
fn attention(operation: &OperationIr, [output, log_sums]: [&TensorIr; 2], of_each: usize) -> Work {
    let (positions, heads) = (dim(output, 1), last(log_sums));
    let name = operation_name(operation);
    let scores = (dim(output, 0) * heads) as f64 * (positions as f64).powi(2);
    let scores = if name.contains("causal") { scores / 2.0 } else { scores };
    Work {
        kind: kind(&name, operation),
        sizes: numbers([dim(output, 0) * heads, positions, last(output) / heads.max(1)]),
        arithmetic: scores * (of_each * last(output) / heads.max(1)) as f64,
        bytes: bytes_of(operation),
        mapped: mapped(operation),
    }
}

/// The steps of a run: declared, or those of the shortest sequence, since some inputs and outputs hold the whole sequence.
fn steps_of_run(op: &CustomOpIr) -> usize {
    if let [_, _, _, _, ScalarIr::UInt(steps @ 1..)] = op.scalars[..] {
        return steps as usize;
    }
    let all = op.inputs.iter().chain(&op.outputs).filter(|tensor| tensor.shape.rank() == 3);
    all.map(|tensor| dim(tensor, 1)).min().unwrap_or(1)
}

/// Bytes read and written by an operation on some time steps of a sequence.
fn traffic_of_run(op: &CustomOpIr) -> f64 {
    let of_run = steps_of_run(op);
    let share = |tensor: &TensorIr| match tensor.shape.rank() {
        3 => of_run.min(dim(tensor, 1)) as f64 / dim(tensor, 1).max(1) as f64,
        _ => 1.0,
    };
    op.inputs.iter().chain(&op.outputs).map(|tensor| bytes(tensor) * share(tensor)).sum()
}

fn by_bytes(operation: &OperationIr, bytes: f64) -> Work {
    let kind = kind(group(&operation_name(operation)), operation);
    Work {
        kind,
        sizes: vec![bytes.max(1.0)],
        arithmetic: 0.0,
        bytes: bytes.max(1.0),
        mapped: mapped(operation),
    }
}

/// The operation that stands for those which take as long.
fn group(name: &str) -> &str {
    match name {
        "sub" | "mul" | "div" | "relu" | "relu_backward" | "clamp_min" | "clamp_max" | "neg" | "abs" => "add",
        "add_scalar" | "sub_scalar" | "mul_scalar" | "div_scalar" | "recip" | "sign" => "mul_scalar",
        "sigmoid" | "erf" | "gelu" | "sin" | "cos" | "sinh" | "cosh" | "tan" | "powf_scalar" => "tanh",
        "log" | "log1p" | "softmax" | "log_softmax" | "log_sigmoid" => "exp",
        "max_pool2d_with_indices_backward" => "max_pool2d_with_indices",
        "sum" | "mean" | "mean_dim" | "prod_dim" | "arg_max" | "arg_min" => "sum_dim",
        other => other,
    }
}

/// Bytes of the outputs that are mapped. An output with the shape of an input that nobody reads again overwrites it.
fn mapped(operation: &OperationIr) -> f64 {
    let mut unread: Vec<&TensorIr> =
        operation.inputs().filter(|input| input.status == TensorStatus::ReadWrite).collect();
    let mut is_new = |output: &&TensorIr| {
        let place = unread.iter().position(|input| {
            input.shape == output.shape && input.dtype == output.dtype && is_in_place(operation)
        });
        place.map(|place| unread.remove(place)).is_none()
    };
    let large = operation.outputs().filter(|output| bytes(output) >= MAPPED_FROM);
    large.filter(|output| is_new(output)).map(bytes).fold(0.0, |sum, bytes| sum + bytes)
}

/// Whether an operation may overwrite an operand.
fn is_in_place(operation: &OperationIr) -> bool {
    match operation {
        OperationIr::NumericFloat(..) | OperationIr::Float(..) | OperationIr::Activation(_) => true,
        OperationIr::Custom(op) => matches!(op.scalars[..], [ScalarIr::UInt(1..), ..]),
        _ => false,
    }
}

/// A normalisation or the like over channels: its bytes, and the pixels of a channel of an image, which are one row in memory.
fn over_channels(operation: &OperationIr, images: &TensorIr) -> Work {
    let row = (dim(images, 2) * dim(images, 3)).max(1) as f64;
    let work = by_bytes(operation, bytes_of(operation));
    Work { sizes: vec![work.bytes, row], ..work }
}

/// The name with the format of the first operand, where that has 16 bits.
fn kind(name: &str, operation: &OperationIr) -> String {
    let is_narrow = |tensor: &TensorIr| matches!(tensor.dtype, DType::F16 | DType::BF16);
    let is_narrow = operation.inputs().any(is_narrow) || operation.outputs().any(is_narrow);
    format!("{name}{}", if is_narrow { " 16-bit" } else { "" })
}

fn bytes_of(operation: &OperationIr) -> f64 {
    operation.inputs().chain(operation.outputs()).map(bytes).sum()
}

fn bytes(tensor: &TensorIr) -> f64 {
    elements(tensor) as f64 * element_bytes(tensor.dtype) as f64
}

fn elements(tensor: &TensorIr) -> usize {
    tensor.shape.num_elements()
}

fn last(tensor: &TensorIr) -> usize {
    tensor.shape.as_slice().last().copied().unwrap_or(1)
}

fn dim(tensor: &TensorIr, dim: usize) -> usize {
    tensor.shape.as_slice().get(dim).copied().unwrap_or(1)
}

fn numbers<const N: usize>(sizes: [usize; N]) -> Vec<f64> {
    sizes.iter().map(|size| *size as f64).collect()
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use burn_backend::Shape;
    use burn_ir::{BinaryOpIr, MatmulOpIr, ScalarOpIr, ShapeOpIr, TensorId};

    use super::*;

    fn tensor(id: u64, shape: &[usize]) -> TensorIr {
        TensorIr::uninit(TensorId::new(id), Shape::from(shape.to_vec()), DType::F32)
    }

    fn own(name: &'static str, inputs: &[TensorIr], outputs: &[TensorIr]) -> Work {
        Work::of(&OperationIr::Custom(CustomOpIr::new(name, inputs, outputs))).unwrap()
    }

    #[test]
    fn a_convolution_has_the_same_arithmetic_in_each_direction() {
        let [images, gradient, weight] =
            [tensor(1, &[32, 64, 32, 32]), tensor(2, &[32, 128, 16, 16]), tensor(3, &[128, 64, 3, 3])];
        let forward = own("conv2d", &[images.clone(), weight.clone()], from_ref(&gradient));
        assert_eq!(forward.kind, "conv2d 3x3 strided");
        assert_eq!(forward.sizes, [64.0, 128.0, 256.0, 32.0]);
        assert_eq!(forward.arithmetic, 2.0 * (32 * 128 * 16 * 16) as f64 * (64 * 9) as f64);
        let input = own("conv2d_input_backward", &[gradient.clone(), weight.clone()], from_ref(&images));
        let weight = own("conv2d_weight_backward", &[images, gradient], &[weight]);
        assert_eq!([input.arithmetic, weight.arithmetic], [forward.arithmetic; 2]);
        assert_eq!([input.sizes, weight.sizes], [forward.sizes.clone(), forward.sizes]);
    }

    #[test]
    fn a_run_of_an_lstm_counts_its_own_steps() {
        // Batch 32, 8 of 64 steps, 128 features, 256 units.
        let (input, output) = (tensor(1, &[32, 64, 128]), tensor(2, &[32, 64, 256]));
        let (gates, state) = (tensor(3, &[32, 8, 1024]), tensor(4, &[32, 256]));
        let arithmetic = 2.0 * (32 * 8 * 1024) as f64 * (128 + 256) as f64;
        let outputs = [output.clone(), gates.clone(), state.clone(), state.clone()];
        assert_eq!(own("lstm_forward", from_ref(&input), &outputs).arithmetic, arithmetic);
        // Without its gates, the operation declares its steps.
        let declared = [0, 0, 0, 0, 8].map(ScalarIr::UInt).to_vec();
        let outputs = [output, state.clone(), state];
        let again = CustomOpIr::with_scalars("lstm_forward", from_ref(&input), &outputs, declared);
        assert_eq!(Work::of(&OperationIr::Custom(again)).unwrap().arithmetic, arithmetic);
        let sums = [tensor(6, &[1024, 128]), tensor(7, &[1024, 256]), tensor(8, &[1024])];
        let read = [gates, input, tensor(10, &[32, 8, 256])];
        let added = own("add_products", &[&sums[..], &read].concat(), &sums);
        assert_eq!(added.arithmetic, 2.0 * 256.0 * (1024 * 384) as f64);
    }

    #[test]
    fn a_run_of_a_gru_has_three_products_forward_and_four_backward() {
        let (input, output) = (tensor(1, &[32, 8, 128]), tensor(2, &[32, 8, 256]));
        let (gates, state) = (tensor(3, &[32, 8, 768]), tensor(4, &[32, 256]));
        let rows = 2.0 * (32 * 8) as f64;
        let outputs = [output.clone(), gates.clone(), state.clone()];
        let forward = own("gru_forward", from_ref(&input), &outputs);
        assert_eq!(forward.kind, "lstm_forward gru");
        assert_eq!(forward.arithmetic, rows * 768.0 * (128 + 256) as f64);
        let outputs = [gates.clone(), output, state, gates.clone()];
        let backward = own("gru_backward", from_ref(&gates), &outputs);
        assert_eq!(backward.kind, "lstm_backward gru");
        assert_eq!(backward.arithmetic, rows * (4 * 256 * 256) as f64);
    }

    #[test]
    fn views_and_copies_that_are_not_made_are_no_work() {
        let (input, out) = (tensor(1, &[1 << 20]), tensor(2, &[1024, 1024]));
        assert_eq!(Work::of(&OperationIr::BaseFloat(Base::Reshape(ShapeOpIr { input, out }))), None);
        let product = |by: f32| {
            let op =
                ScalarOpIr { lhs: tensor(1, &[10]), rhs: ScalarIr::Float(by.into()), out: tensor(2, &[10]) };
            Work::of(&OperationIr::NumericFloat(DType::F32, NumericOperationIr::MulScalar(op)))
        };
        assert_eq!(product(1.0), None);
        assert_eq!(product(2.0).unwrap().bytes, 80.0);
    }

    #[test]
    fn large_results_are_mapped_unless_they_overwrite_an_operand() {
        let large = |id| tensor(id, &[16 << 20]);
        let product = MatmulOpIr {
            lhs: tensor(1, &[4096, 64]),
            rhs: tensor(2, &[64, 4096]),
            out: tensor(3, &[4096, 4096]),
        };
        let product = Work::of(&OperationIr::Float(DType::F32, FloatOperationIr::Matmul(product))).unwrap();
        assert_eq!((product.mapped, product.kind.as_str()), ((64 << 20) as f64, "product"));
        let add = |status| {
            let lhs = TensorIr { status, ..large(1) };
            let rhs = TensorIr { status: TensorStatus::ReadOnly, ..large(2) };
            let op = BinaryOpIr { lhs, rhs, out: large(3) };
            Work::of(&OperationIr::NumericFloat(DType::F32, NumericOperationIr::Add(op))).unwrap().mapped
        };
        assert_eq!([TensorStatus::ReadOnly, TensorStatus::ReadWrite].map(add), [(64 << 20) as f64, 0.0]);
    }
}
