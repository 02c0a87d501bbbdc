//! An LSTM in 64 bits, written plainly. Values that the kernels store in a format are rounded to it.

use std::ops::Range;

use burn_backend::{DType, bf16, f16};

/// The sizes of a run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) batch: usize,
    pub(crate) all_steps: usize,
    pub(crate) features: usize,
    pub(crate) units: usize,
    pub(crate) steps: Range<usize>,
    /// The format of products.
    pub(crate) dtype: DType,
}

/// Values between −1 and 1, the same in each run.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn values(&mut self, count: usize) -> Vec<f64> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // As inputs in 32 bits.
            f64::from(((self.0 >> 40) as f32 / (1u32 << 23) as f32) - 1.0)
        };
        (0..count).map(|_| next()).collect()
    }
}

/// The value, rounded to a format of 16 bits.
pub(crate) fn rounded(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        _ => value,
    }
}

fn all_rounded(values: Vec<f64>, dtype: DType) -> Vec<f64> {
    values.into_iter().map(|value| rounded(value, dtype)).collect()
}

/// The inputs of a forward pass.
pub(crate) struct Forward {
    pub(crate) input: Vec<f64>,
    pub(crate) bias: Vec<f64>,
    pub(crate) hidden: Vec<f64>,
    pub(crate) cell: Vec<f64>,
    /// `[4U, I]`.
    pub(crate) input_weight: Vec<f64>,
    /// `[4U, U]`.
    pub(crate) recurrent_weight: Vec<f64>,
}

/// The results of a forward pass.
pub(crate) struct Forwarded {
    pub(crate) gates: Vec<f64>,
    /// `[B, k, U]`.
    pub(crate) outputs: Vec<f64>,
    pub(crate) hidden: Vec<f64>,
    pub(crate) cell: Vec<f64>,
}

impl Forwarded {
    /// Writes the outputs into those of the whole sequence.
    pub(crate) fn place_outputs(&self, case: &Case, whole: &mut [f64]) {
        let (count, units) = (case.steps.len(), case.units);
        for row in 0..case.batch {
            let of_run = &self.outputs[row * count * units..][..count * units];
            whole[(row * case.all_steps + case.steps.start) * units..][..of_run.len()]
                .copy_from_slice(of_run);
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn transposed(matrix: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns).map(|at| matrix[at % rows * columns + at / rows]).collect()
}

impl Forward {
    pub(crate) fn random(case: &Case) -> Self {
        let Case { batch, all_steps, features, units, dtype, .. } = *case;
        let weights = |seed, inner: usize| {
            let scale = 1.0 / (inner as f64).sqrt();
            let values = Noise(seed).values(4 * units * inner).into_iter();
            // Weights in 32 bits.
            all_rounded(values.map(|value| f64::from((value * scale) as f32)).collect(), dtype)
        };
        Self {
            input: Noise(1).values(batch * all_steps * features),
            bias: Noise(2).values(4 * units),
            hidden: Noise(3).values(batch * units),
            cell: Noise(4).values(batch * units),
            input_weight: weights(7, features),
            recurrent_weight: weights(8, units),
        }
    }

    /// The input weights, `[I, 4U]`.
    pub(crate) fn of_input(&self, case: &Case) -> Vec<f64> {
        transposed(&self.input_weight, 4 * case.units, case.features)
    }

    /// The recurrent weights, `[U, 4U]`.
    pub(crate) fn recurrent(&self, case: &Case) -> Vec<f64> {
        transposed(&self.recurrent_weight, 4 * case.units, case.units)
    }

    pub(crate) fn run(&self, case: &Case) -> Forwarded {
        let Case { batch, all_steps, features, units, ref steps, dtype } = *case;
        let product = |weight: &[f64], from: &[f64]| -> f64 {
            weight.iter().zip(from).map(|(weight, from)| weight * rounded(*from, dtype)).sum()
        };
        let (mut all_gates, mut outputs) = (Vec::new(), Vec::new());
        let (mut all_hidden, mut all_cells) = (Vec::new(), Vec::new());
        for row in 0..batch {
            let of_row = row * units..(row + 1) * units;
            let (mut hidden, mut cell) = (self.hidden[of_row.clone()].to_vec(), self.cell[of_row].to_vec());
            for step in steps.clone() {
                let input = &self.input[(row * all_steps + step) * features..][..features];
                let gate = |column: usize| {
                    let sum = self.bias[column]
                        + product(&self.input_weight[column * features..][..features], input)
                        + product(&self.recurrent_weight[column * units..][..units], &hidden);
                    let is_candidate = column / units == 2;
                    rounded(if is_candidate { sum.tanh() } else { sigmoid(sum) }, dtype)
                };
                let gates: Vec<f64> = (0..4 * units).map(gate).collect();
                for unit in 0..units {
                    let [i, f, g, o] = [0, 1, 2, 3].map(|part| gates[part * units + unit]);
                    cell[unit] = f * cell[unit] + i * g;
                    hidden[unit] = rounded(o * cell[unit].tanh(), dtype);
                }
                all_gates.extend(gates);
                outputs.extend(&hidden);
            }
            all_hidden.extend(hidden);
            all_cells.extend(cell);
        }
        Forwarded { gates: all_gates, outputs, hidden: all_hidden, cell: all_cells }
    }

    /// Writes the input gradient of `gates` into that of the whole sequence.
    pub(crate) fn place_input_gradient(&self, case: &Case, gates: &[f64], whole: &mut [f64]) {
        let Case { batch, all_steps, features, units, ref steps, dtype } = *case;
        for (row, step) in (0..batch).flat_map(|row| (0..steps.len()).map(move |step| (row, step))) {
            let gates = &gates[(row * steps.len() + step) * 4 * units..][..4 * units];
            let place = &mut whole[(row * all_steps + steps.start + step) * features..][..features];
            for (feature, place) in place.iter_mut().enumerate() {
                let weights = self.input_weight[feature..].iter().step_by(features);
                *place = gates.iter().zip(weights).map(|(gate, weight)| rounded(*gate, dtype) * weight).sum();
            }
        }
    }
}

/// The inputs of a backward pass.
pub(crate) struct Backward {
    pub(crate) gates: Vec<f64>,
    /// The gradients of all outputs, and of the state after the last step.
    pub(crate) outputs: Vec<f64>,
    pub(crate) hidden: Vec<f64>,
    pub(crate) cell: Vec<f64>,
}

/// The results of a backward pass.
pub(crate) struct Backwarded {
    pub(crate) gates: Vec<f64>,
    pub(crate) previous: Vec<f64>,
    pub(crate) hidden: Vec<f64>,
    pub(crate) cell: Vec<f64>,
}

impl Backward {
    pub(crate) fn random(case: &Case, gates: Vec<f64>) -> Self {
        let outputs = Noise(11).values(case.batch * case.all_steps * case.units);
        Self {
            // Gates in 32 bits.
            gates: gates.into_iter().map(|gate| f64::from(gate as f32)).collect(),
            outputs: all_rounded(outputs, case.dtype),
            hidden: Noise(12).values(case.batch * case.units),
            cell: Noise(13).values(case.batch * case.units),
        }
    }

    pub(crate) fn run(&self, case: &Case, forward: &Forward) -> Backwarded {
        let Case { batch, units, .. } = *case;
        let count = case.steps.len();
        let mut made = Backwarded {
            gates: vec![0.0; batch * count * 4 * units],
            previous: Vec::new(),
            hidden: Vec::new(),
            cell: Vec::new(),
        };
        for row in 0..batch {
            let of_row = row * units..(row + 1) * units;
            let (hidden, cell) = (&forward.hidden[of_row.clone()], &forward.cell[of_row.clone()]);
            let gates = &self.gates[row * count * 4 * units..][..count * 4 * units];
            let (mut cells, mut hiddens) = (vec![cell.to_vec()], vec![hidden.to_vec()]);
            for gates in gates.chunks(4 * units) {
                let before = cells.last().expect("the first cell");
                let cell: Vec<_> = (0..units)
                    .map(|unit| gates[units + unit] * before[unit] + gates[unit] * gates[2 * units + unit])
                    .collect();
                let put =
                    (0..units).map(|unit| rounded(gates[3 * units + unit] * cell[unit].tanh(), case.dtype));
                hiddens.push(put.collect());
                cells.push(cell);
            }
            let mut gradients = [self.hidden[of_row.clone()].to_vec(), self.cell[of_row].to_vec()];
            for step in (0..count).rev() {
                let of_gates = &mut made.gates[(row * count + step) * 4 * units..][..4 * units];
                let output = (row * case.all_steps + case.steps.start + step) * units;
                let outputs = &self.outputs[output..][..units];
                let gates = &gates[step * 4 * units..][..4 * units];
                go_back(gates, [&cells[step + 1], &cells[step]], outputs, &mut gradients, of_gates);
                gradients[0] = (0..units)
                    .map(|unit| {
                        let weights = forward.recurrent_weight[unit..].iter().step_by(units);
                        of_gates.iter().zip(weights).map(|(gate, weight)| gate * weight).sum()
                    })
                    .collect();
            }
            made.previous.extend(hiddens[..count].concat());
            let [hidden, cell] = gradients;
            made.hidden.extend(hidden);
            made.cell.extend(cell);
        }
        made
    }
}

/// Goes back through the cell: gradients of the gates before their activation, and of the cell before.
fn go_back(
    gates: &[f64],
    [cell, before]: [&[f64]; 2],
    outputs: &[f64],
    [hidden, of_cell]: &mut [Vec<f64>; 2],
    of_gates: &mut [f64],
) {
    let units = cell.len();
    for unit in 0..units {
        let [i, f, g, o] = [0, 1, 2, 3].map(|part| gates[part * units + unit]);
        let of_hidden = hidden[unit] + outputs[unit];
        let activated = cell[unit].tanh();
        let gradient = of_cell[unit] + of_hidden * o * (1.0 - activated * activated);
        of_gates[unit] = gradient * g * i * (1.0 - i);
        of_gates[units + unit] = gradient * before[unit] * f * (1.0 - f);
        of_gates[2 * units + unit] = gradient * i * (1.0 - g * g);
        of_gates[3 * units + unit] = of_hidden * activated * o * (1.0 - o);
        of_cell[unit] = gradient * f;
    }
}
