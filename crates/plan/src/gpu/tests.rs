//! Small recordings, and the allocations that the rules make of them: `+bytes` and `-bytes` in order.

use TensorStatus::{NotInit, ReadOnly, ReadWrite};
use burn_backend::{DType, Shape};
use burn_ir::{
    BaseOperationIr as Base, BinaryOpIr, CustomOpIr, FloatOperationIr as Float, LinearOpIr, MatmulOpIr,
    ModuleOperationIr as Module, NumericOperationIr as Numeric, OperationIr, PermuteOpIr, ReduceDimOpIr,
    ScalarIr, ShapeOpIr, TensorId, TensorIr, TensorStatus, UnaryOpIr,
};

use super::run;
use crate::{
    allocator_sim::AllocatorSim,
    layout::{Rows, TensorRules},
    pools::{Grain, PoolLayout, PoolSim},
};

fn tensor(id: u64, shape: &[usize], status: TensorStatus) -> TensorIr {
    TensorIr { status, ..TensorIr::uninit(TensorId::new(id), Shape::from(shape.to_vec()), DType::F32) }
}

fn out(id: u64, shape: &[usize]) -> TensorIr {
    tensor(id, shape, NotInit)
}

/// The allocations of the operations on CUDA. Tensors up to number 9 exist before.
fn allocations(operations: &[OperationIr]) -> Vec<i64> {
    let pools = PoolSim::new(PoolLayout::Direct { reclaim_at: None }, Grain::CUDA, None);
    allocations_of(AllocatorSim::on_gpu(pools, TensorRules { rows: Rows::Padded, bool_bytes: 1 }), operations)
}

fn allocations_of(mut sim: AllocatorSim, operations: &[OperationIr]) -> Vec<i64> {
    for ir in operations.iter().flat_map(OperationIr::inputs).filter(|ir| ir.id.value() < 10) {
        if sim.address(ir.id.value()).is_none() {
            let made = sim.allocate(&ir.shape[..], ir.dtype);
            sim.output(ir, made);
        }
    }
    let before = sim.blocks.len();
    for (index, operation) in operations.iter().enumerate() {
        let later = operations[index + 1..].iter().flat_map(OperationIr::inputs);
        sim.begin("operation", later.map(|ir| ir.id.value()).chain(100..200).collect());
        run(&mut sim, operation);
        sim.end(operation.inputs().chain(operation.outputs()));
    }
    let mut events = Vec::new();
    for block in &sim.blocks[before..] {
        events.push((block.born, block.bytes as i64));
        events.extend(block.died.map(|died| (died, -(block.bytes as i64))));
    }
    events.sort_unstable();
    events.into_iter().map(|(_, bytes)| bytes).collect()
}

fn unary(input: TensorIr, out: TensorIr) -> OperationIr {
    OperationIr::Float(DType::F32, Float::Exp(UnaryOpIr { input, out }))
}

fn sum(lhs: TensorIr, rhs: TensorIr, out: TensorIr) -> OperationIr {
    OperationIr::NumericFloat(DType::F32, Numeric::Add(BinaryOpIr { lhs, rhs, out }))
}

fn custom(id: &'static str, inputs: &[TensorIr], outputs: &[TensorIr], scalars: &[u64]) -> OperationIr {
    OperationIr::Custom(CustomOpIr::with_scalars(
        id,
        inputs,
        outputs,
        scalars.iter().copied().map(ScalarIr::UInt).collect(),
    ))
}

#[test]
fn a_consumed_operand_is_written_in_place_and_rows_are_padded() {
    let shape = [10, 28];
    assert_eq!(allocations(&[unary(tensor(1, &shape, ReadWrite), out(100, &shape))]), [0; 0]);
    // Ten rows of 128 bytes are 1280, rounded up to 1536.
    assert_eq!(allocations(&[unary(tensor(1, &shape, ReadOnly), out(100, &shape))]), [1536]);
}

#[test]
fn a_sum_is_written_into_the_operand_that_covers_the_other() {
    let (row, all) = ([1, 128], [10, 128]);
    let [small, large] = [tensor(1, &row, ReadWrite), tensor(2, &all, ReadWrite)];
    assert_eq!(allocations(&[sum(small.clone(), large.clone(), out(100, &all))]), [0; 0]);
    assert_eq!(allocations(&[sum(large, small.clone(), out(100, &all))]), [0; 0]);
    assert_eq!(allocations(&[sum(small, tensor(2, &all, ReadOnly), out(100, &all))]), [5120]);
}

#[test]
fn padded_rows_are_copied_where_they_are_joined() {
    let reshape = |input, shape: &[usize]| {
        OperationIr::BaseFloat(Base::Reshape(ShapeOpIr { input, out: out(100, shape) }))
    };
    assert_eq!(allocations(&[reshape(tensor(1, &[10, 128], ReadWrite), &[1280])]), [0; 0]);
    assert_eq!(allocations(&[reshape(tensor(1, &[10, 28], ReadOnly), &[280])]), [1536]);
    assert_eq!(allocations(&[reshape(tensor(1, &[10, 28], ReadWrite), &[2, 5, 28])]), [0; 0]);
}

#[test]
fn reductions_write_packed_rows() {
    let input = tensor(1, &[64, 8, 28], ReadOnly);
    let mean = ReduceDimOpIr { input, out: out(100, &[64, 1, 28]), axis: 1, accumulator_len: 1 };
    // 64 · 28 · 4 = 7168 bytes; padded rows would take 8192.
    assert_eq!(allocations(&[OperationIr::NumericFloat(DType::F32, Numeric::MeanDim(mean))]), [7168]);
}

#[test]
fn products_copy_what_is_no_matrix_in_memory() {
    let product = |lhs, rhs| {
        let out = out(100, &[8, 128, 128]);
        OperationIr::Float(DType::F32, Float::Matmul(MatmulOpIr { lhs, rhs, out }))
    };
    let whole = 8 * 128 * 128 * 4;
    let [left, right] = [1, 2].map(|id| tensor(id, &[8, 128, 128], ReadOnly));
    assert_eq!(allocations(&[product(left.clone(), right)]), [whole]);
    // Matrices whose rows lie between those of other matrices.
    let between = tensor(3, &[128, 8, 128], ReadOnly);
    let swapped = tensor(50, &[8, 128, 128], ReadWrite);
    let permute =
        PermuteOpIr { input: between, out: tensor(50, &[8, 128, 128], NotInit), axes: vec![1, 0, 2] };
    let permute = OperationIr::BaseFloat(Base::Permute(permute));
    assert_eq!(allocations(&[permute, product(left, swapped)]), [whole, whole, -whole]);
}

#[test]
fn a_linear_layer_joins_rows_that_fill_no_tiles() {
    let linear = |steps: usize| {
        let x = tensor(1, &[16, steps, 28], ReadOnly);
        let [weight, bias] = [tensor(2, &[28, 256], ReadOnly), tensor(3, &[256], ReadOnly)];
        let linear = LinearOpIr { x, weight, bias: Some(bias), out: out(100, &[16, steps, 256]) };
        OperationIr::Module(Module::Linear(linear))
    };
    // 32 rows a matrix: a batch of products, without a copy of the padded input.
    assert_eq!(allocations(&[linear(32)]), [16 * 32 * 1024]);
    // 8 rows a matrix: the padded input is copied to join them, in padded rows again.
    assert_eq!(allocations(&[linear(8)]), [16 * 8 * 128, 16 * 8 * 1024, -16 * 8 * 128]);
}

#[test]
fn convolutions_read_and_write_channels_last_memory() {
    let operation = |input, gradient, name| {
        let [image, weight] = [tensor(1, input, ReadOnly), tensor(2, &[32, 16, 3, 3], ReadOnly)];
        let scalars = &[0, 4096];
        match name {
            "conv2d" => custom(name, &[image, weight], &[out(100, gradient)], scalars),
            _ => custom(name, &[tensor(3, gradient, ReadOnly), weight], &[out(100, input)], scalars),
        }
    };
    let (image, kernel) = (8 * 28 * 28 * 16 * 4, 32 * 3 * 3 * 16 * 4);
    let output = 2 * image;
    let same: [usize; 4] = [8, 32, 28, 28];
    let forward = allocations(&[operation(&[8, 16, 28, 28], &same, "conv2d")]);
    assert_eq!(forward, [output, image, kernel, -image, -kernel]);
    let backward = allocations(&[operation(&[8, 16, 28, 28], &same, "conv2d_input_backward")]);
    // The weight's channels are padded to 64 bytes in both orders.
    assert_eq!(backward, [image, output, kernel, -output, -kernel]);
    // With a stride: the gradient is packed channels-last, and spread to the size of the image.
    let strided = allocations(&[operation(&[8, 16, 28, 28], &[8, 32, 14, 14], "conv2d_input_backward")]);
    let gradient = 8 * 14 * 14 * 32 * 4;
    assert_eq!(strided, [gradient, output, -gradient, image, kernel, -kernel, -output]);
}

#[test]
fn normalisation_keeps_images_channels_last() {
    let (image, shape) = (tensor(1, &[8, 16, 28, 28], ReadOnly), [8, 32, 28, 28]);
    let convolved = |status| tensor(100, &shape, status);
    let convolution =
        custom("conv2d", &[image, tensor(2, &[32, 16, 3, 3], ReadOnly)], &[convolved(NotInit)], &[0]);
    let scale = || tensor(3, &[32], ReadOnly);
    let moments = custom("channel_moments", &[convolved(ReadOnly)], &[out(101, &[32])], &[0]);
    let normalise = custom("normalise", &[convolved(ReadOnly), scale()], &[out(102, &shape)], &[1]);
    // The gradient comes channels-first and is copied; the copy becomes the gradient of the input.
    let inputs = [tensor(4, &shape, ReadOnly), convolved(ReadWrite), scale()];
    let backward = custom("normalise_backward", &inputs, &[out(103, &shape), out(104, &[32])], &[1]);
    // The next convolution reads the normalised image as it is.
    let weight = tensor(5, &[8, 32, 1, 1], ReadOnly);
    let next =
        custom("conv2d", &[tensor(102, &shape, ReadWrite), weight], &[out(105, &[8, 8, 28, 28])], &[0]);
    let (read, kernel, whole, vector) =
        (8 * 28 * 28 * 16 * 4, 32 * 3 * 3 * 16 * 4, 8 * 28 * 28 * 32 * 4, 512);
    let first = [whole, read, kernel, -read, -kernel];
    let rest = [vector, whole, whole, vector, -whole, whole / 4, -whole];
    assert_eq!(allocations(&[convolution, moments, normalise, backward, next]), [&first[..], &rest].concat());
}

#[test]
fn our_kernels_read_and_write_packed_rows() {
    let shape = [10, 28];
    let in_place = [tensor(1, &shape, ReadWrite)];
    // The padded input is copied to 1120 bytes, rounded up to 1536; the output overwrites the copy.
    assert_eq!(allocations(&[custom("adam", &in_place, &[out(100, &shape)], &[1])]), [1536]);
    let packed = [tensor(1, &[10, 128], ReadWrite)];
    assert_eq!(allocations(&[custom("adam", &packed, &[out(100, &[10, 128])], &[1])]), [0; 0]);
    let held = [tensor(1, &[10, 128], ReadOnly)];
    let scratch = custom("scan", &held, &[out(100, &[10, 128])], &[1, 700, 512]);
    assert_eq!(allocations(&[scratch]), [5120, 1024, 512, -1024, -512]);
}

#[test]
fn only_rows_out_of_order_are_copied() {
    let contiguous = |shape| custom("contiguous", &[tensor(1, shape, ReadOnly)], &[out(100, shape)], &[1]);
    assert_eq!(allocations(&[contiguous(&[10, 128])]), [0; 0]);
    assert_eq!(allocations(&[contiguous(&[10, 28])]), [1536]);
    let zeros = custom("zeros", &[tensor(1, &[10, 28], ReadOnly)], &[out(100, &[10, 128])], &[0]);
    assert_eq!(allocations(&[zeros]), [5120]);
}

/// A run of 8 of 16 steps, or of all: batch 8, 32 features, 64 units.
fn lstm_forward(steps: usize, buffers: [u64; 2]) -> OperationIr {
    let sizes: [&[usize]; 6] = [&[8, 16, 32], &[256], &[8, 64], &[8, 64], &[32, 256], &[64, 256]];
    let inputs: Vec<_> = (1..).zip(sizes).map(|(id, shape)| tensor(id, shape, ReadOnly)).collect();
    let sizes: [&[usize]; 4] = [&[8, 16, 64], &[8, steps, 256], &[8, 64], &[8, 64]];
    let outputs: Vec<_> = (100..).zip(sizes).map(|(id, shape)| out(id, shape)).collect();
    custom("lstm_forward", &inputs, &outputs, &[0, buffers[0], buffers[1]])
}

#[test]
fn the_inputs_of_an_lstm_run_are_freed_before_its_outputs_are_made() {
    let (state, output) = (8 * 64 * 4, 8 * 16 * 64 * 4);
    let (copy, gates) = (8 * 8 * 32 * 4, 8 * 8 * 256 * 4);
    // The gates overwrite the product of inputs and weights.
    let in_32_bits = allocations(&[lstm_forward(8, [0, copy as u64])]);
    assert_eq!(in_32_bits, [copy, gates, -copy, state, state, output]);
    // They do not: the product is a buffer of its own.
    let in_16_bits = allocations(&[lstm_forward(16, [2 * gates as u64, 0])]);
    assert_eq!(in_16_bits, [2 * gates, state, state, 2 * gates, output, -2 * gates]);
}

#[test]
fn gates_in_16_bits_replace_those_in_32_before_the_product_of_a_part() {
    let [whole, gates] = [tensor(1, &[8, 16, 32], ReadWrite), tensor(50, &[8, 8, 256], ReadWrite)];
    let weights = tensor(3, &[256, 32], ReadOnly);
    let made = tensor(50, &[8, 8, 256], NotInit);
    let gates_before = unary(tensor(2, &[8, 8, 256], ReadOnly), made);
    let inputs = [whole, gates, weights];
    let backward = custom("lstm_input_backward", &inputs, &[out(100, &[8, 16, 32])], &[1, 32_768, 8_192]);
    let wide = 8 * 8 * 256 * 4;
    assert_eq!(allocations(&[gates_before, backward]), [wide, 32_768, -wide, 8_192, -32_768, -8_192]);
}
