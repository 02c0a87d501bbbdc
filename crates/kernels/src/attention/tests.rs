use burn::tensor::{DType, Tensor};
use oomph_core::{Generator, Key};

use super::{Attention, Heads, rotary_angles};
use crate::{
    DropoutMask, Kernels,
    truth::{distance, stored, values},
};

/// The attention of one sample in 64 bits, with the whole matrix.
struct Naive<'a> {
    attention: &'a Attention,
    positions: usize,
    /// Queries, keys and values of a position, side by side.
    input: &'a [f64],
    sample: usize,
}

impl Naive<'_> {
    fn row(&self, position: usize, column: usize) -> Vec<f64> {
        let Heads { size, .. } = self.attention.heads;
        self.input[position * self.attention.heads.width() + column..][..size].to_vec()
    }

    fn turned(&self, position: usize, column: usize) -> Vec<f64> {
        self.turn(position, &self.row(position, column), 1.0)
    }

    fn turn(&self, position: usize, row: &[f64], direction: f64) -> Vec<f64> {
        let Some(base) = self.attention.rotary else { return row.to_vec() };
        let size = row.len();
        (0..size)
            .map(|at| {
                let pair = at % (size / 2);
                let angle = position as f64 * f64::from(base).powf(-2.0 * pair as f64 / size as f64);
                let (sine, cosine) = angle.sin_cos();
                let (sign, other) =
                    if at < size / 2 { (-direction, at + size / 2) } else { (direction, at - size / 2) };
                row[at] * cosine + sign * row[other] * sine
            })
            .collect()
    }

    /// The output and the gradient of the input for the gradient of the output.
    fn run(&self, gradient: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (heads, positions) = (self.attention.heads, self.positions);
        let scale = 1.0 / (heads.size as f64).sqrt();
        let mut output = vec![0.0; positions * heads.of_queries()];
        let mut made = vec![0.0; positions * heads.width()];
        let dot =
            |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
        let mut add = |position: usize, column: usize, row: &[f64], factor: f64| {
            let to = &mut made[position * heads.width() + column..][..heads.size];
            to.iter_mut().zip(row).for_each(|(to, value)| *to += factor * value);
        };
        for head in 0..heads.queries {
            let [of_query, of_key, of_value] = heads.columns(head);
            for query in 0..positions {
                let end = if self.attention.is_causal { query + 1 } else { positions };
                let q = self.turned(query, of_query);
                let scores: Vec<f64> =
                    (0..end).map(|key| (scale * dot(&q, &self.turned(key, of_key))).exp()).collect();
                let sum: f64 = scores.iter().sum();
                let factors = self.factors(head, query, end);
                let g = &gradient[query * heads.of_queries() + of_query..][..heads.size];
                let weights: Vec<f64> = scores.iter().map(|score| score / sum).collect();
                let slopes: Vec<f64> =
                    (0..end).map(|key| factors[key] * dot(g, &self.row(key, of_value))).collect();
                let mean = dot(&weights, &slopes);
                for key in 0..end {
                    let value = self.row(key, of_value);
                    let to = &mut output[query * heads.of_queries() + of_query..][..heads.size];
                    to.iter_mut()
                        .zip(&value)
                        .for_each(|(to, value)| *to += weights[key] * factors[key] * value);
                    add(key, of_value, g, weights[key] * factors[key]);
                    let slope = scale * weights[key] * (slopes[key] - mean);
                    add(query, of_query, &self.turn(query, &self.turned(key, of_key), -1.0), slope);
                    add(key, of_key, &self.turn(key, &q, -1.0), slope);
                }
            }
        }
        (output, made)
    }

    fn factors(&self, head: usize, query: usize, end: usize) -> Vec<f64> {
        let Some(mask) = &self.attention.dropout else { return vec![1.0; end] };
        let at =
            ((self.sample * self.attention.heads.queries + head) * self.positions + query) * self.positions;
        let mut factors = vec![0.0; end];
        mask.write_factors(at, &mut factors);
        factors.into_iter().map(f64::from).collect()
    }
}

fn check(
    attention: &Attention,
    [batch, positions]: [usize; 2],
    dtype: DType,
    kernels: Kernels,
    tolerance: f64,
) {
    let heads = attention.heads;
    let given = stored("input", [batch, positions, heads.width()], dtype);
    let of_output = stored("gradient", [batch, positions, heads.of_queries()], dtype);
    let (input, gradient) = (values(given.clone()), values(of_output.clone()));
    let (mut output, mut made) = (Vec::new(), Vec::new());
    for sample in 0..batch {
        let input = &input[sample * positions * heads.width()..][..positions * heads.width()];
        let naive = Naive { attention, positions, input, sample };
        let of_sample =
            naive.run(&gradient[sample * positions * heads.of_queries()..][..positions * heads.of_queries()]);
        output.extend(of_sample.0);
        made.extend(of_sample.1);
    }
    let attended = attention.forward(given.clone(), kernels);
    let what = format!("{attention:?} {batch}×{positions} {dtype:?} {kernels:?}");
    let error = distance(&values(attended.output.clone()), &output);
    assert!(error < tolerance, "{what}: output {error}");
    let error = distance(&values(attention.backward(given, attended, of_output, kernels)), &made);
    assert!(error < tolerance, "{what}: gradient {error}");
}

fn attention(queries: usize, keys: usize, size: usize) -> Attention {
    Attention { heads: Heads { queries, keys, size }, is_causal: true, rotary: None, dropout: None }
}

#[test]
fn attention_is_that_of_the_whole_matrix() {
    for kernels in [Kernels::Cpu, Kernels::Composed] {
        for (shape, positions) in
            [((1, 1, 4), 1), ((2, 2, 8), 7), ((3, 1, 10), 65), ((4, 2, 64), 130), ((2, 2, 33), 300)]
        {
            let causal = attention(shape.0, shape.1, shape.2);
            check(&causal, [2, positions], DType::F32, kernels, 2e-6);
            let full = Attention { is_causal: false, ..causal.clone() };
            check(&full, [1, positions], DType::F32, kernels, 2e-6);
            if shape.2 % 2 == 0 {
                check(
                    &Attention { rotary: Some(100.0), ..causal },
                    [1, positions],
                    DType::F32,
                    kernels,
                    2e-6,
                );
            }
        }
    }
}

#[test]
fn halves_are_stored_alone() {
    for (dtype, tolerance) in [(DType::BF16, 6e-3), (DType::F16, 8e-4)] {
        check(&attention(2, 1, 16), [2, 70], dtype, Kernels::Cpu, tolerance);
    }
}

/// Where the processor multiplies bf16, by it: several blocks, and such that do not fill its tiles.
#[test]
fn factors_of_16_bits_make_errors_of_16_bits() {
    for (shape, positions) in [((1, 1, 4), 1), ((4, 2, 64), 130), ((2, 2, 33), 300), ((3, 1, 32), 197)] {
        let causal = attention(shape.0, shape.1, shape.2);
        let full = Attention { is_causal: false, ..causal.clone() };
        let rotary = Attention { rotary: (shape.2 % 2 == 0).then_some(100.0), ..causal.clone() };
        let mask = DropoutMask { generator: Generator::at(Key::new(3)), probability: 0.3, scale: 1.0 / 0.7 };
        let dropped = Attention { dropout: Some(mask), ..causal.clone() };
        for attention in [causal, full, rotary, dropped] {
            check(&attention, [2, positions], DType::BF16, Kernels::Cpu, 8e-3);
        }
    }
}

#[test]
fn dropout_is_drawn_again_in_backward() {
    let mask = DropoutMask { generator: Generator::at(Key::new(3)), probability: 0.3, scale: 1.0 / 0.7 };
    for is_causal in [false, true] {
        let attention = Attention { dropout: Some(mask.clone()), is_causal, ..attention(2, 1, 8) };
        check(&attention, [2, 140], DType::F32, Kernels::Cpu, 2e-6);
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let attention = attention(1, 1, 2);
    let rows = [[[60.0, 60.0, 60.0, 60.0, 1.0, 2.0], [60.0, 60.0, 60.0, 60.0, 3.0, 4.0]]];
    let input = Tensor::<3>::from_data(rows, &Default::default());
    for kernels in [Kernels::Cpu, Kernels::Composed] {
        let output: Vec<f32> =
            attention.forward(input.clone(), kernels).output.into_data().try_to_vec().unwrap();
        assert_eq!(output, [1.0, 2.0, 2.0, 3.0]);
    }
}

#[test]
fn angles_turn_pairs() {
    let angles = rotary_angles(0..2, 4, 100.0);
    let expected = [1.0, 1.0, 0.0, 0.0, 1f32.cos(), 0.1f32.cos(), 1f32.sin(), 0.1f32.sin()];
    angles.iter().zip(expected).for_each(|(found, expected)| assert!((found - expected).abs() < 1e-7));
}

/// A sequence that is read in pieces: some positions, single ones, some more than there was room for, and single ones.
#[test]
fn a_sequence_read_in_pieces_is_attended_as_a_whole() {
    for (keys, rotary) in [(4, None), (2, Some(100.0)), (1, None)] {
        let heads = Heads { queries: 4, keys, size: 6 };
        let attention = Attention { heads, is_causal: true, rotary, dropout: None };
        let input = stored("pieces", [2, 19, heads.width()], DType::F32);
        for kernels in [Kernels::Cpu, Kernels::Composed] {
            let whole = attention.forward(input.clone(), kernels).output;
            let (mut before, mut outputs, mut read) = (None, Vec::new(), 0);
            for count in [5, 1, 1, 10, 1, 1] {
                let piece = input.clone().narrow(1, read, count);
                let (output, all) = attention.forward_after(before, piece, 8, kernels);
                read += count;
                assert_eq!(all.positions(), read);
                outputs.push(output);
                before = Some(all);
            }
            let found = Tensor::cat(outputs, 1);
            assert!(distance(&values(found), &values(whole)) < 1e-6, "{keys} heads of keys, {kernels:?}");
        }
    }
}
