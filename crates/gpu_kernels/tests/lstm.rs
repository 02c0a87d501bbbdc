//! The LSTM kernels against a plain computation in 64 bits.

#![cfg(feature = "gpu")]

mod common;
mod lstm_reference;

use std::ops::Range;

use burn_backend::DType;
use common::{FORMATS, has_driver, to_gpu, to_host};
use cubecl::{
    Runtime,
    ir::{ElemType, FloatKind},
};
use lstm_reference::{Backward, Case, Forward, Noise, rounded};
use oomph_gpu_kernels::{
    GpuRuntime,
    lstm::{LstmEnd, LstmOutputs, LstmStart, lstm_backward, lstm_forward, lstm_input_backward},
};

/// Whether the card's tensor cores have the formats TF32 and BF16: from sm_80 on.
fn has_wide_formats() -> bool {
    let client = GpuRuntime::client(&<GpuRuntime as Runtime>::Device::default());
    let tf32 = ElemType::Float(FloatKind::TF32);
    client.properties().features.matmul.cmma.iter().any(|config| config.a_type == tf32.into())
}

/// The largest error, by norm, of a result that depends on products of inputs.
fn tolerance(case: &Case) -> f64 {
    match case.dtype {
        DType::F32 if !has_wide_formats() => 1e-5,
        // Factors in TF32 have 10 bits of mantissa, as those in F16.
        DType::F32 | DType::F16 => 5e-4,
        _ => 4e-3,
    }
}

#[track_caller]
fn check(what: &str, case: &Case, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what} of {case:?}");
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let error = norm(&mut found.iter().zip(expected).map(|(found, expected)| found - expected));
    let error = error / norm(&mut expected.iter().copied()).max(1e-30);
    assert!(error <= tolerance, "{what} of {case:?}: relative error {error:e}, allowed {tolerance:e}");
    println!("{what}: {error:.1e} in {:?}, {} units", case.dtype, case.units);
}

fn cases() -> Vec<Case> {
    let case = |[batch, all_steps, features, units]: [usize; 4], steps: Range<usize>, dtype| Case {
        batch,
        all_steps,
        features,
        units,
        steps,
        dtype,
    };
    let sizes = [([3, 5, 7, 6], 0..5), ([3, 5, 7, 6], 1..4), ([2, 4, 16, 33], 0..4), ([2, 2, 8, 300], 0..2)];
    let each =
        FORMATS.iter().flat_map(|dtype| sizes.iter().map(|(size, steps)| (*size, steps.clone(), *dtype)));
    // Several rows a cube, a last cube that is not full, and units that no vector divides.
    let more = [([95, 3, 4, 8], 1..3, DType::F32), ([301, 2, 4, 5], 0..1, DType::F32)];
    // Columns in several groups, a factor in chunks.
    let wide = [([1, 2, 4, 1032], 0..2, DType::F32), ([1, 2, 4, 3080], 1..2, DType::BF16)];
    let all = each.chain(more).chain(wide).filter(|(_, _, dtype)| FORMATS.contains(dtype));
    all.map(|(size, steps, dtype)| case(size, steps, dtype)).collect()
}

/// The cases whose products of inputs the card can compute. CubeCL's product in BF16 does not compile before sm_80.
fn cases_of_products() -> Vec<Case> {
    let has_all = has_wide_formats();
    if !has_all {
        eprintln!("skipped: cases in BF16: products in it need a card of sm_80 or newer");
    }
    cases().into_iter().filter(|case| has_all || case.dtype != DType::BF16).collect()
}

#[test]
fn forward_is_that_of_64_bits() {
    if !has_driver() {
        return;
    }
    for case in cases_of_products() {
        let Case { batch, all_steps, features, units, dtype, .. } = case;
        let forward = Forward::random(&case);
        let expected = forward.run(&case);
        let outputs = Noise(9).values(batch * all_steps * units);
        let start = |destination, keeps_gates| LstmStart {
            input: to_gpu(&forward.input, &[batch, all_steps, features], DType::F32),
            steps: case.steps.clone(),
            bias: to_gpu(&forward.bias, &[4 * units], DType::F32),
            state: [&forward.hidden, &forward.cell].map(|state| to_gpu(state, &[batch, units], DType::F32)),
            outputs: destination,
            keeps_gates,
        };
        let weights = || {
            let of_input = to_gpu(&forward.of_input(&case), &[features, 4 * units], dtype);
            (of_input, to_gpu(&forward.recurrent(&case), &[units, 4 * units], dtype))
        };
        let there = LstmOutputs::There(to_gpu(&outputs, &[batch, all_steps, units], dtype));
        let (of_input, recurrent) = weights();
        let made = lstm_forward(start(there, true), of_input, recurrent);
        let tolerance = tolerance(&case);
        check("gates", &case, &to_host(made.gates.expect("wanted")), &expected.gates, tolerance);
        let mut whole: Vec<_> = outputs.iter().map(|value| rounded(*value, dtype)).collect();
        expected.place_outputs(&case, &mut whole);
        check("outputs", &case, &to_host(made.output.expect("wanted")), &whole, tolerance);
        let [hidden, cell] = made.state.map(to_host);
        check("hidden units", &case, &hidden, &expected.hidden, tolerance);
        check("cells", &case, &cell, &expected.cell, tolerance);

        let (of_input, recurrent) = weights();
        let again = lstm_forward(start(LstmOutputs::Known, false), of_input, recurrent);
        assert!(again.gates.is_none() && again.output.is_none());
        assert_eq!(again.state.map(to_host), [hidden, cell], "state alone of {case:?}");
    }
}

#[test]
fn a_new_tensor_has_the_outputs_of_a_whole_sequence() {
    if !has_driver() {
        return;
    }
    let case = Case { batch: 2, all_steps: 3, features: 4, units: 8, steps: 0..3, dtype: DType::F16 };
    let forward = Forward::random(&case);
    let start = LstmStart {
        // Inputs that have the format of products already.
        input: to_gpu(&forward.input, &[2, 3, 4], DType::F16),
        steps: 0..3,
        bias: to_gpu(&forward.bias, &[32], DType::F32),
        state: [&forward.hidden, &forward.cell].map(|state| to_gpu(state, &[2, 8], DType::F32)),
        outputs: LstmOutputs::New,
        keeps_gates: false,
    };
    let of_input = to_gpu(&forward.of_input(&case), &[4, 32], DType::F16);
    let recurrent = to_gpu(&forward.recurrent(&case), &[8, 32], DType::F16);
    let made = lstm_forward(start, of_input, recurrent);
    let mut whole = vec![0.0; 2 * 3 * 8];
    forward.run(&case).place_outputs(&case, &mut whole);
    check("outputs", &case, &to_host(made.output.expect("wanted")), &whole, tolerance(&case));
}

#[test]
fn backward_is_that_of_64_bits() {
    if !has_driver() {
        return;
    }
    for case in cases() {
        let Case { batch, all_steps, units, dtype, .. } = case;
        let count = case.steps.len();
        let forward = Forward::random(&case);
        let gates = forward.run(&case).gates;
        let backward = Backward::random(&case, gates);
        let expected = backward.run(&case, &forward);
        let state = |values: &Vec<f64>| to_gpu(values, &[batch, units], DType::F32);
        // In 32 bits, the gradients overwrite the gates; in 16, they do not.
        for of_gates in [dtype, DType::F32] {
            let end = LstmEnd {
                gates: to_gpu(&backward.gates, &[batch, count, 4 * units], of_gates),
                before: [&forward.hidden, &forward.cell].map(state),
                steps: case.steps.clone(),
                outputs: to_gpu(&backward.outputs, &[batch, all_steps, units], dtype),
                after: [&backward.hidden, &backward.cell].map(state),
            };
            let held = end.gates.clone();
            let is_held = dtype == DType::F32;
            let held = is_held.then_some(held);
            let made = lstm_backward(end, to_gpu(&forward.recurrent_weight, &[4 * units, units], dtype));
            // Recomputed hidden units are rounded.
            let of_previous = if dtype == DType::F32 { 1e-5 } else { tolerance(&case) };
            check("gate gradients", &case, &to_host(made.gates), &expected.gates, 1e-5);
            check("previous hidden units", &case, &to_host(made.previous), &expected.previous, of_previous);
            let [hidden, cell] = made.state.map(to_host);
            check("hidden gradient", &case, &hidden, &expected.hidden, 1e-5);
            check("cell gradient", &case, &cell, &expected.cell, 1e-5);
            if let Some(held) = held {
                check("gates that somebody holds", &case, &to_host(held), &backward.gates, 1e-6);
            }
        }
    }
}

#[test]
fn the_input_gradient_is_that_of_64_bits() {
    if !has_driver() {
        return;
    }
    for case in cases_of_products() {
        let Case { batch, all_steps, features, units, dtype, .. } = case;
        let gates = Noise(5).values(batch * case.steps.len() * 4 * units);
        let forward = Forward::random(&case);
        let before = Noise(6).values(batch * all_steps * features);
        for of_whole in [DType::F32, dtype] {
            let mut expected: Vec<_> = before.iter().map(|value| rounded(*value, of_whole)).collect();
            forward.place_input_gradient(&case, &gates, &mut expected);
            let made = lstm_input_backward(
                to_gpu(&before, &[batch, all_steps, features], of_whole),
                to_gpu(&gates, &[batch, case.steps.len(), 4 * units], DType::F32),
                &case.steps,
                to_gpu(&forward.input_weight, &[4 * units, features], dtype),
            );
            assert_eq!(made.dtype, of_whole);
            check("input gradient", &case, &to_host(made), &expected, tolerance(&case));
        }
    }
}

#[test]
fn the_reference_goes_back_along_finite_differences() {
    let case = Case { batch: 1, all_steps: 4, features: 2, units: 3, steps: 1..4, dtype: DType::F32 };
    let mut forward = Forward::random(&case);
    let backward = Backward::random(&case, forward.run(&case).gates);
    let made = backward.run(&case, &forward);
    let loss = |forward: &Forward| -> f64 {
        let forwarded = forward.run(&case);
        let dot = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>();
        dot(&forwarded.outputs, &backward.outputs[3..])
            + dot(&forwarded.hidden, &backward.hidden)
            + dot(&forwarded.cell, &backward.cell)
    };
    let of_bias = (0..12).map(|column| made.gates.iter().skip(column).step_by(12).sum());
    let parts: [fn(&mut Forward) -> &mut Vec<f64>; 3] =
        [|forward| &mut forward.hidden, |forward| &mut forward.cell, |forward| &mut forward.bias];
    for (part, expected) in parts.into_iter().zip([made.hidden, made.cell, of_bias.collect()]) {
        for (at, expected) in expected.into_iter().enumerate() {
            const STEP: f64 = 1e-5;
            part(&mut forward)[at] += STEP;
            let above = loss(&forward);
            part(&mut forward)[at] -= 2.0 * STEP;
            let slope = (above - loss(&forward)) / (2.0 * STEP);
            part(&mut forward)[at] += STEP;
            assert!((slope - expected).abs() < 1e-6, "{slope} and {expected}");
        }
    }
}
