use burn::tensor::{DType, Device, Tensor};
use oomph_kernels::{
    attention::{Attention, Heads},
    feed_forward::Activation,
    linear::{linear, linear_input_backward, linear_weight_backward},
    row_norm::RowNorm,
};

use super::{CPU, FORMATS, full, full_as, probe};
use crate::probe::{Probe, Ready};

/// Batch, positions, heads, and features of a head.
const ATTENTIONS: [[usize; 4]; 7] = [
    [1, 16, 2, 32],
    [4, 64, 4, 32],
    [2, 197, 3, 64],
    [4, 256, 6, 64],
    [1, 512, 8, 64],
    [1, 1024, 4, 64],
    [1, 256, 4, 128],
];

/// Rows, and features of a row.
const ROWS: [[usize; 2]; 6] = [[16, 64], [256, 128], [256, 1536], [2048, 384], [1024, 768], [4096, 1024]];

/// Rows, features of the input, and features of the output.
const LINEARS: [[usize; 3]; 8] = [
    [16, 64, 10],
    [128, 64, 192],
    [256, 384, 1536],
    [1576, 192, 576],
    [2048, 384, 1152],
    [2048, 1536, 384],
    [1024, 768, 3072],
    [1024, 256, 8000],
];

pub(super) fn probes() -> Vec<Probe> {
    let mut probes = Vec::new();
    for dtype in FORMATS {
        for shape in ATTENTIONS {
            for is_causal in [false, true] {
                probes.extend(attention(shape, is_causal, dtype));
            }
        }
        for shape in ROWS {
            probes.extend(rows(shape, dtype));
        }
        for shape in LINEARS {
            probes.extend(linears(shape, dtype));
        }
    }
    probes
}

fn attention([batch, positions, heads, size]: [usize; 4], is_causal: bool, dtype: DType) -> [Probe; 2] {
    let attention = Attention {
        heads: Heads { queries: heads, keys: heads, size },
        is_causal,
        rotary: None,
        dropout: None,
    };
    let input = move |device: &Device| full_as([batch, positions, 3 * heads * size], dtype, device);
    let back = attention.clone();
    [
        probe(if is_causal { "attention_causal" } else { "attention" }, move |device| {
            let (attention, input) = (attention.clone(), input(device));
            move || -> Ready {
                let (attention, input) = (attention.clone(), input.clone());
                Box::new(move || drop(attention.forward(input, CPU)))
            }
        }),
        probe(if is_causal { "attention_causal_backward" } else { "attention_backward" }, move |device| {
            let (attention, input) = (back.clone(), input(device));
            let attended = attention.forward(input.clone(), CPU);
            move || -> Ready {
                let (attention, input, attended) = (attention.clone(), input.clone(), attended.clone());
                let gradient = attended.output.clone();
                Box::new(move || drop(attention.backward(input, attended, gradient, CPU)))
            }
        }),
    ]
}

fn linears([rows, features, outputs]: [usize; 3], dtype: DType) -> [Probe; 3] {
    [
        of_two("linear", [[rows, features], [outputs, features]], dtype, |input, weight| {
            drop(linear(input, weight, None, None, CPU));
        }),
        of_two("linear_input_backward", [[rows, outputs], [outputs, features]], dtype, |gradient, weight| {
            drop(linear_input_backward(gradient, weight, CPU));
        }),
        of_two("linear_weight_backward", [[rows, outputs], [rows, features]], dtype, |gradient, input| {
            drop(linear_weight_backward(gradient, input, CPU));
        }),
    ]
}

fn of_two(
    kind: &'static str,
    shapes: [[usize; 2]; 2],
    dtype: DType,
    run: impl Fn(Tensor<2>, Tensor<2>) + Copy + 'static,
) -> Probe {
    probe(kind, move |device| {
        let [left, right] = shapes.map(|shape| full_as(shape, dtype, device));
        move || -> Ready {
            let (left, right) = (left.clone(), right.clone());
            Box::new(move || run(left, right))
        }
    })
}

fn rows(shape: [usize; 2], dtype: DType) -> Vec<Probe> {
    let norm = RowNorm { is_centred: true, epsilon: 1e-5 };
    let mut probes = vec![
        of_rows("row_norm", shape, dtype, move |input, weight| {
            drop(norm.apply(input, weight.clone(), Some(weight), CPU));
        }),
        of_rows("row_norm_backward", shape, dtype, move |input, weight| {
            drop(norm.backward(input.clone(), input, weight, None, CPU));
        }),
    ];
    for activation in [Activation::Gelu, Activation::GeluTanh, Activation::SwiGlu] {
        let [forward, back] = [false, true].map(|back| activation.operation(back));
        probes.push(of_rows(forward, shape, dtype, move |input, _| drop(activation.apply(input, CPU))));
        probes.push(of_rows(back, shape, dtype, move |input, _| {
            let [rows, features] = input.dims();
            let gradient = input
                .clone()
                .narrow(1, 0, activation.outputs(features))
                .reshape([rows, activation.outputs(features)]);
            drop(activation.backward(input, gradient, CPU));
        }));
    }
    probes
}

fn of_rows(
    kind: &'static str,
    shape: [usize; 2],
    dtype: DType,
    run: impl Fn(Tensor<2>, Tensor<1>) + Copy + 'static,
) -> Probe {
    probe(kind, move |device| {
        let (input, weight) = (full_as(shape, dtype, device), full([shape[1]], device));
        move || -> Ready {
            let (input, weight) = (input.clone(), weight.clone());
            Box::new(move || run(input, weight))
        }
    })
}
