use burn_backend::DType;

use crate::{
    activations::{sigmoid_and_tanh, sigmoids, tanh},
    recurrent::{
        cell::{BackRow, Cell, flushed},
        parts_of,
    },
    simd::multiply_add,
    stored_float::round,
};

/// The cell of an LSTM. Beside the gates, backward has the cells after each step.
pub(super) struct LstmCell;

impl Cell<2> for LstmCell {
    const GATES: usize = 4;
    const OPERATIONS: [&'static str; 2] = ["lstm_forward", "lstm_backward"];
    const IS_SUM: bool = true;
    const BESIDE: usize = 1;
    const IS_BESIDE: bool = false;

    #[inline(always)]
    fn step<const FUSED: bool>(
        gates: &mut [f32],
        _product: &[f32],
        bias: &[f32],
        [hidden, cell]: [&mut [f32]; 2],
        dtype: DType,
    ) {
        activate::<FUSED>(gates, bias);
        round(gates, dtype);
        next_cell::<FUSED>(gates, cell);
        put_out::<FUSED>(gates, cell, hidden, dtype);
    }

    #[inline(always)]
    fn again<const FUSED: bool>(
        gates: &[f32],
        [hidden, cell]: [&[f32]; 2],
        cells: &mut [f32],
        previous: &mut [f32],
        dtype: DType,
    ) {
        let units = cell.len();
        cells[..units].copy_from_slice(cell);
        previous[..units].copy_from_slice(hidden);
        let steps = cells.len() / units;
        for (step, gates) in gates.chunks_exact(4 * units).enumerate() {
            let (cell, next) = cells[step * units..].split_at_mut(units);
            next_cell::<FUSED>(gates, cell);
            // The last hidden units are no step's previous ones.
            if step + 1 < steps {
                put_out::<FUSED>(gates, cell, &mut previous[(step + 1) * units..][..units], dtype);
                next[..units].copy_from_slice(cell);
            }
        }
    }

    /// With σ′ = σ(1 − σ) and tanh′ = 1 − tanh²:
    /// dc′ = dc + dh·o·tanh′(c), di = dc′·g·σ′, df = dc′·c₋₁·σ′, dg = dc′·i·tanh′, do = dh·tanh(c)·σ′, dc₋₁ = dc′·f.
    ///
    /// dh is the sum of the gradients from the output and from the next step.
    #[inline(always)]
    fn back<const FUSED: bool>(step: usize, row: BackRow<'_, 2>) {
        let BackRow { gates, beside: cells, before, gradients: [of_hidden, of_cell], .. } = row;
        let units = of_cell.len();
        let cell_before = match step {
            0 => before[1],
            _ => &cells[(step - 1) * units..],
        };
        let [cell, cell_before] = [&cells[step * units..], cell_before].map(|values| &values[..units]);
        let (i, rest) = gates[..4 * units].split_at_mut(units);
        let (f, rest) = rest.split_at_mut(units);
        let (g, o) = rest.split_at_mut(units);
        let of_hidden = &of_hidden[..units];
        for unit in 0..units {
            let of_hidden = of_hidden[unit];
            let activated = tanh::<FUSED>(cell[unit]);
            let slope = o[unit] * (1.0 - activated * activated);
            let of_next = multiply_add::<FUSED>(of_hidden, slope, of_cell[unit]);
            of_cell[unit] = flushed(of_next * f[unit]);
            let (input, candidate) = (i[unit], g[unit]);
            i[unit] = flushed(of_next * candidate * (input * (1.0 - input)));
            f[unit] = flushed(of_next * cell_before[unit] * (f[unit] * (1.0 - f[unit])));
            g[unit] = flushed(of_next * input * (1.0 - candidate * candidate));
            o[unit] = flushed(of_hidden * activated * (o[unit] * (1.0 - o[unit])));
        }
    }
}

/// Adds the bias to gates and activates them.
#[inline(always)]
fn activate<const FUSED: bool>(gates: &mut [f32], bias: &[f32]) {
    let units = bias.len() / 4;
    let (i, rest) = gates[..4 * units].split_at_mut(units);
    let (f, rest) = rest.split_at_mut(units);
    let (g, o) = rest.split_at_mut(units);
    let [of_i, of_f, of_g, of_o] = parts_of(bias, units);
    // Not by index: a loop that checks each one has a tail of single numbers.
    let opened = i.iter_mut().zip(of_i).zip(f.iter_mut().zip(of_f));
    let others = o.iter_mut().zip(of_o).zip(g.iter_mut().zip(of_g));
    for (((i, of_i), (f, of_f)), ((o, of_o), (g, of_g))) in opened.zip(others) {
        [*i, *f] = sigmoids::<FUSED>(*i + of_i, *f + of_f);
        [*o, *g] = sigmoid_and_tanh::<FUSED>(*o + of_o, *g + of_g);
    }
}

/// Computes the next cell from activated gates. Backward computes it again.
#[inline(always)]
fn next_cell<const FUSED: bool>(gates: &[f32], cell: &mut [f32]) {
    let units = cell.len();
    let [i, f, g] = parts_of(gates, units);
    for unit in 0..units {
        cell[unit] = multiply_add::<FUSED>(f[unit], cell[unit], i[unit] * g[unit]);
    }
}

/// Computes the hidden units from activated gates and the cell, rounded. Backward computes them again.
#[inline(always)]
fn put_out<const FUSED: bool>(gates: &[f32], cell: &[f32], hidden: &mut [f32], dtype: DType) {
    let opened = &gates[3 * cell.len()..];
    for ((hidden, cell), opened) in hidden.iter_mut().zip(cell).zip(opened) {
        *hidden = opened * tanh::<FUSED>(*cell);
    }
    round(hidden, dtype);
}
