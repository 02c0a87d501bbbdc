//! Steps with packed moments against a plain computation in 64 bits, on what the moments held before.

#![cfg(feature = "gpu")]

mod common;

use burn_backend::DType;
use common::{assert_close, has_driver, noise, to_gpu, to_gpu_words, to_host, to_host_words};
use oomph_gpu_kernels::{
    GpuTensor,
    packed_step::{Format, Rule, Scalars, Step, Tensors, packed_step},
};

/// Elements of the parameters: more than one launch takes, vectors of four and single elements, a part of a block and several
/// cubes.
fn lengths() -> Vec<usize> {
    (0..60).map(|index| [1, 4, 10, 1024, 1029, 3000, 64][index % 7] + 4 * index).collect()
}

const SCALARS: Scalars =
    Scalars { lr: 0.01, betas: [0.9, 0.99], factor: 0.25, epsilon: 1e-6, coupled: 0.1, kept: 0.95 };

fn words(format: Format, elements: usize) -> usize {
    match format {
        Format::Bf16 => elements.div_ceil(2),
        Format::Int8 => elements.div_ceil(128) * 33,
    }
}

/// The values of a moment's words.
fn values(format: Format, words: &[u32], elements: usize, is_square: bool) -> Vec<f64> {
    match format {
        Format::Bf16 => {
            let halves = words.iter().flat_map(|word| [word << 16, word & 0xffff_0000]);
            halves.take(elements).map(|bits| f64::from(f32::from_bits(bits))).collect()
        }
        Format::Int8 => {
            let (codes, scales) = words.split_at(elements.div_ceil(128) * 32);
            let codes = codes.iter().flat_map(|word| word.to_le_bytes()).take(elements);
            let scale = |at: usize| f64::from(f32::from_bits(scales[at / 128]));
            codes
                .enumerate()
                .map(|(at, code)| decoded(code, is_square) * scale(at).powi(1 + i32::from(is_square)))
                .collect()
        }
    }
}

/// The value of a code with the scale 1.
fn decoded(code: u8, is_square: bool) -> f64 {
    let bits = if is_square { 8 } else { 7 };
    let place = if is_square { code } else { code & 0x7f };
    if place == 0 {
        return 0.0;
    }
    let decade = place.ilog2() as i32;
    let from_end = if !is_square && place < 8 { 1.0 / 1024.0 } else { 0.5 };
    let part = (f64::from(place) + from_end - 2f64.powi(decade)) / 2f64.powi(decade);
    let value = 10f64.powi(decade + 1 - bits) * (0.1 + 0.9 * part);
    match is_square {
        true => value * value,
        false if code & 0x80 != 0 => -value,
        false => value,
    }
}

/// What a step does to one element: its parameter, its gradient and its moments.
fn expected(rule: Rule, [p, g, m, v]: [f64; 4]) -> [f64; 3] {
    let [lr, factor, epsilon, coupled, kept] =
        [SCALARS.lr, SCALARS.factor, SCALARS.epsilon, SCALARS.coupled, SCALARS.kept].map(f64::from);
    let [beta1, beta2] = SCALARS.betas.map(f64::from);
    match rule {
        Rule::Sgd { nesterov } => {
            let g = coupled * p + g;
            let velocity = factor * g + beta1 * m;
            [p - lr * if nesterov { g + beta1 * velocity } else { velocity }, velocity, 0.0]
        }
        Rule::Adam => {
            let g = coupled * p + g;
            let (m, v) = (beta1 * m + (1.0 - beta1) * g, beta2 * v + (1.0 - beta2) * g * g);
            [kept * p - lr * m * factor / (v.sqrt() + epsilon), m, v]
        }
        Rule::Lion => {
            let direction = beta1 * m + (1.0 - beta1) * g;
            [
                kept * p - lr * if direction == 0.0 { 0.0 } else { direction.signum() },
                beta2 * m + (1.0 - beta2) * g,
                0.0,
            ]
        }
    }
}

const RULES: [Rule; 4] =
    [Rule::Sgd { nesterov: false }, Rule::Sgd { nesterov: true }, Rule::Adam, Rule::Lion];

/// Two steps, of which the second finds the moments of the first.
#[test]
fn packed_steps_are_those_of_the_formula() {
    if !has_driver() {
        return;
    }
    for (rule, format) in RULES.into_iter().flat_map(|rule| [(rule, Format::Bf16), (rule, Format::Int8)]) {
        let moments = if rule == Rule::Adam { 2 } else { 1 };
        let mut parameters: Vec<Vec<f64>> =
            lengths().iter().enumerate().map(|(index, length)| noise(*length, 1 + index as u64)).collect();
        let mut held: Vec<Vec<Vec<u32>>> = (0..moments)
            .map(|_| lengths().iter().map(|length| vec![0; words(format, *length)]).collect())
            .collect();
        for time in 1..=2 {
            let gradients: Vec<Vec<f64>> = lengths()
                .iter()
                .enumerate()
                .map(|(index, length)| noise(*length, 1000 * u64::from(time) + index as u64))
                .collect();
            let gpu = |values: &[f64]| to_gpu(values, &[values.len()], DType::F32);
            let tensors = (0..parameters.len()).map(|index| Tensors {
                parameter: gpu(&parameters[index]),
                gradient: gpu(&gradients[index]),
                moments: held.iter().map(|moment| to_gpu_words(&moment[index])).collect(),
            });
            let made = packed_step(Step { rule, scalars: SCALARS, format, time }, tensors.collect());
            let count = parameters.len();
            assert_eq!(made.len(), count * (1 + moments));
            for index in 0..count {
                let what = format!("{rule:?}, {format:?}, step {time}, parameter {index}");
                let length = parameters[index].len();
                let before: Vec<Vec<f64>> = (0..moments)
                    .map(|moment| values(format, &held[moment][index], length, moment == 1))
                    .collect();
                let right: Vec<[f64; 3]> = (0..length)
                    .map(|at| {
                        let v = before.get(1).map_or(0.0, |values| values[at]);
                        expected(rule, [parameters[index][at], gradients[index][at], before[0][at], v])
                    })
                    .collect();
                let of = |part: usize| right.iter().map(|it| it[part]).collect::<Vec<_>>();
                assert_close(made[index].clone(), &of(0), DType::F32, &what);
                for moment in 0..moments {
                    let words = to_host_words(made[(1 + moment) * count + index].clone());
                    let found = values(format, &words, length, moment == 1);
                    assert_rounded(format, &found, &of(1 + moment), moment == 1, &what);
                    held[moment][index] = words;
                }
                parameters[index] = to_host(made[index].clone());
            }
        }
    }
}

/// Whether each value is next to what it stands for.
fn assert_rounded(format: Format, found: &[f64], right: &[f64], is_square: bool, what: &str) {
    for (block, (found, right)) in found.chunks(128).zip(right.chunks(128)).enumerate() {
        let root = |value: f64| if is_square { value.sqrt() } else { value };
        let greatest = right.iter().map(|value| root(*value).abs()).fold(0.0, f64::max);
        for (at, (found, right)) in found.iter().zip(right).enumerate() {
            let difference = (root(*found) - root(*right)).abs();
            // A part of the highest decade of a block; a unit of bf16, whose squares have two.
            let most = match format {
                Format::Int8 => greatest * if is_square { 0.0036 } else { 0.0072 },
                Format::Bf16 => root(*right).abs() * 0.0079,
            };
            assert!(difference <= most + 1e-7, "{what}, block {block}, {at}: {found} for {right}");
        }
    }
}

#[test]
fn rounding_keeps_the_mean() {
    if !has_driver() {
        return;
    }
    // With a momentum of 0 the velocity is the gradient, a quarter of the way between two neighbours in bf16.
    let value = 1.0 + 0.25 / 128.0;
    let scalars = Scalars { factor: 1.0, ..Scalars::default() };
    let steps = 40;
    let mut sum = 0.0;
    for time in 1..=steps {
        let tensors = Tensors {
            parameter: to_gpu(&[0.0; 4096], &[4096], DType::F32),
            gradient: to_gpu(&[value; 4096], &[4096], DType::F32),
            moments: vec![to_gpu_words(&[0; 2048])],
        };
        let step = Step { rule: Rule::Sgd { nesterov: false }, scalars, format: Format::Bf16, time };
        let made: Vec<GpuTensor> = packed_step(step, vec![tensors]);
        let found = values(Format::Bf16, &to_host_words(made[1].clone()), 4096, false);
        assert!(found.iter().all(|it| [1.0, 1.0 + 1.0 / 128.0].contains(it)));
        sum += found.iter().sum::<f64>();
    }
    let mean = sum / f64::from(steps) / 4096.0;
    assert!((mean - value).abs() < 5.0 * 0.0034 / (f64::from(steps) * 4096.0).sqrt(), "{mean}");
}
